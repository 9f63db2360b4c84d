"""What PowerShell gets, by a parser of its language: the script, and completions that are one word and run nothing."""

import numpy as np
import pytest
import tree_sitter
import tree_sitter_powershell

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
# All that may stand in a word that means itself.
PLAIN = {
    "program", "statement_list", "pipeline", "pipeline_chain", "command", "command_name", "command_elements",
    "command_argument_sep", "generic_token", "array_literal_expression", "unary_expression", "string_literal",
    "verbatim_string_characters", " ",
}  # fmt: skip
NAMES = [
    "a", "$(touch PWNED)", "`touch PWNED`$HOME", "two  words;touch PWNED", "bang!bang", "~root", "-x(&|<y>)", "it's",
    "*[a]?{b,c}#", "a:b::c=%d", "'", "@splat", "a,b", "1", "\u2018quoted\u2019", "$env:PATH", "--%", "\u65e5\u672c", "#",
]  # fmt: skip


def nodes(tree):
    yield tree
    for each in tree.children:
        yield from nodes(each)


def words(line):
    """The values of the words of a command, all of which mean themselves."""
    tree = PARSER.parse(line.encode()).root_node
    assert not tree.has_error, line
    assert {each.type for each in nodes(tree)} <= PLAIN, line
    found = [
        each.text.decode() for each in nodes(tree)
        if each.type in ("command_name", "generic_token", "verbatim_string_characters")
    ]  # fmt: skip
    return [word[1:-1].replace("''", "'") if word[0] == "'" else word for word in found]


def test_the_script(revseq):
    script = revseq("completion", "powershell").ok().out
    tree = PARSER.parse(script.encode()).root_node
    assert not tree.has_error
    commands = [each.text.decode() for each in nodes(tree) if each.type == "command_name"]
    assert commands == ["Register-ArgumentCompleter", "revseq", "ForEach-Object", "Remove-Item", "Remove-Item"]


def offered(revseq, line):
    env = {"_REVSEQ_COMPLETE": "powershell_complete", "COMP_LINE": line}
    return [each.removeprefix("plain,") for each in revseq(env=env).ok().out.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_h62_a_completed_name_is_that_name_and_runs_nothing(revseq, tmp_path, name):
    np.savez(tmp_path / "x.npz", **{name: np.arange(2)})
    # Its other quotes count as quotes, too; the parser knows them not.
    parsed = f"x.npz::{name}".replace("\u2018", "\u2018" * 2).replace("\u2019", "\u2019" * 2)
    for typed in ("x.npz::", "'x.npz::", '"x.npz::'):
        for word in offered(revseq, f"revseq show {typed}"):
            assert words(f"revseq show {word}") == ["revseq", "show", parsed]
    assert offered(revseq, "revseq show x.npz::")


def test_commands_and_options_are_words(revseq):
    for line in ("revseq ", "revseq r", "revseq run --dtype ", "revseq run --"):
        assert offered(revseq, line)
        for word in offered(revseq, line):
            assert word.isascii()
            assert not set(word) & set("'\"`$;|&<>(){}@, ")
