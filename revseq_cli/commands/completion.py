"""`revseq completion`: the completion scripts of shells, and the answers to their requests.

A name from a file must become a word on the command line, and never code. zsh and fish quote completions themselves;
bash and PowerShell do not, so this module quotes them. The text that the user typed is not changed. A name is left out
if the quotes around the cursor cannot hold it, or if only the shell can tell what the typed word means. Click's own
scripts quote nothing, so that a name such as $(reboot) would run. In bash they find no name, since it splits words at
colons, and PowerShell has none.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import click
from click.shell_completion import BashComplete, CompletionItem, ShellComplete

from revseq_cli.commands import base
from revseq_cli.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "_REVSEQ_COMPLETE"
# Text that means the same in every shell, in quotes or not.
_SAFE = re.compile(r"[\w./+-]*", re.ASCII)


class _Grammar(NamedTuple):
    """How a shell quotes words.

    `escapable` has the characters that `escape` escapes, outside quotes and in each kind of quotes; None is any.
    `known` matches a typed word, up to the cursor, whose meaning is clear without the shell: it has no variables.
    """

    escape: str
    escapable: dict[str, str | None]
    known: re.Pattern[str]


_POSIX = _Grammar(
    "\\",
    {"": None, "'": "", '"': '$`"\\\n'},
    re.compile(
        r"(?!['\"\\]~)(?:'[^']*(?:'|$)|\"(?:\\.|[^\"\\$`!])*(?:\"|\\?$)|\\(?:.|$)|[^\\'\"$`;|&<>()*?{}\[\]!])*",
        re.DOTALL,
    ),
)
_FISH = _Grammar(
    "\\",
    {"": None, "'": "'\\", '"': '$"\\\n'},
    re.compile(
        r"(?!['\"\\]~)(?:'(?:\\.|[^'\\])*(?:'|\\?$)|\"(?:\\.|[^\"\\$])*(?:\"|\\?$)|\\(?:\W|$)|[^\\'\"$;|&<>()*?{}\[\]])*",
        re.DOTALL,
    ),
)
_POWERSHELL = _Grammar(
    "`",
    {"": None, "'": "", '"': None},
    re.compile(r"'[^'\u2018-\u201b]*'?|\"[^\"`$\u201c-\u201e]*\"?|[^\s'\"`$;|&<>(){}@,\[\]\u2018-\u201e]*"),
)


class _Word(NamedTuple):
    """The word at the cursor: as it is typed, its value without quotes, and the quote that is still open.

    An escape character at its end is left out. Unless `is_known` is set, the shell may give it another value.
    """

    typed: str = ""
    value: str = ""
    quote: str = ""
    is_known: bool = True


def _read(line: str, grammar: _Grammar) -> tuple[list[str], _Word]:
    """The values of the words in a line but for the one at the cursor, and that word."""
    words: list[str] = []
    value = quote = escape = ""
    start = 0
    for i, character in enumerate(line):
        if escape:
            escapable = grammar.escapable[quote]
            value += character if escapable is None or character in escapable else escape + character
            escape = ""
        elif character == grammar.escape and grammar.escapable[quote] != "":
            escape = character
        elif not quote and character.isspace():
            words += [value] if line[start:i] else []
            start, value = i + 1, ""
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        else:
            value += character
    typed = line[start:]
    return words, _Word(typed.removesuffix(escape), value, quote, grammar.known.fullmatch(typed) is not None)


class _Shell(ShellComplete):
    """A shell, whose script sets the environment `variables`; the first has the line up to the cursor."""

    variables: tuple[str, ...] = ("COMP_LINE",)
    grammar: ClassVar[_Grammar] = _POSIX

    def source(self) -> str:
        """The script of the shell, from a file beside this one."""
        type(self).source_template = Path(__file__).with_name(f"completion.{self.name}").read_text(encoding="utf-8")
        return super().source()

    def get_completion_args(self) -> tuple[list[str], str]:
        """The values of the words behind the command's name, and of the word at the cursor."""
        words, self.word = _read(os.environ[self.variables[0]], self.grammar)
        option = re.match(r"--[\w-]+=", self.word.value)
        self._option = option[0] if option else ""  # Click completes only the value behind it
        return words[1:], self.word.value

    def complete(self) -> str:
        """The answer to the script: the line of each completion that can be quoted."""
        args, incomplete = self.get_completion_args()
        try:
            items = self.get_completions(args, incomplete)
        except (click.UsageError, UsageError):  # in the words before; the command itself reports it
            items = []
        known = (item for item in items if self.word.is_known or item.type != "name")
        return "\n".join(line for item in known if (line := self.line(item, self._option + item.value)) is not None)

    def line(self, item: CompletionItem, word: str) -> str | None:
        """The line for an item that completes the word to `word`; None if the item must be left out."""
        raise NotImplementedError


class _Bash(_Shell, BashComplete):
    """Bash replaces COMP_WORD, which begins behind the last colon or open quote, by the text, which it does not quote.

    It closes an open quote, unless the text ends with one.
    """

    name = "bash"
    variables = ("COMP_LINE", "COMP_WORD")

    def line(self, item: CompletionItem, word: str) -> str | None:
        """The type and the text to insert."""
        if item.type == "file":
            return "file,"
        text = self._text(word)
        return None if text is None else f"plain,{text}"

    def _text(self, word: str) -> str | None:
        """The text for COMP_WORD that completes the word to `word`; None if that is not possible."""
        typed, value, quote, _ = self.word
        replaced = os.environ["COMP_WORD"]
        kept = replaced if typed.endswith(replaced) else replaced[:-1]
        if not typed.endswith(kept):
            return None
        if word.startswith(value):
            rest = _BASH_QUOTED[quote](word[len(value) :])
            return None if rest is None else kept + rest
        return word[len(typed) - len(kept) :] if typed == value and _SAFE.fullmatch(word) else None


def _in_double_quotes(text: str) -> str | None:
    """The text for double quotes; None if it has an exclamation mark, which nothing escapes there."""
    return None if "!" in text else re.sub(r"([$`\"\\])", r"\\\1", text) + '"' * text.endswith('"')


_BASH_QUOTED: dict[str, Callable[[str], str | None]] = {
    "": lambda text: re.sub(r"([^\w@%+:,./-])", r"\\\1", text),
    '"': _in_double_quotes,
    "'": lambda text: None if "'" in text else text,
}


class _Zsh(_Shell):
    """Zsh quotes the text that it adds to a word; a name is only added behind the last ::."""

    name = "zsh"
    variables = ("COMP_WORDS",)

    def line(self, item: CompletionItem, word: str) -> str | None:
        """The type, the text and its help, each on a line."""
        if item.type == "name":
            return f"name\n{word[self.word.value.rfind('::') + 2 :]}\n_"
        text = word.replace(":", r"\:") if item.help else word
        return f"{item.type}\n{text}\n{item.help or '_'}"


class _Fish(_Shell):
    """Fish gets whole words, compares them with the typed one, and quotes the text that it adds."""

    name = "fish"
    variables = ("COMP_WORDS",)
    grammar = _FISH

    def line(self, item: CompletionItem, word: str) -> str | None:
        """The type, the word and its help."""
        return f"{'file' if item.type == 'file' else 'plain'},{word}" + (f"\t{item.help}" if item.help else "")


class _PowerShell(_Shell):
    """PowerShell replaces the whole word, with its quotes. It decodes what a program prints as the console is set."""

    name = "powershell"
    grammar = _POWERSHELL

    def line(self, item: CompletionItem, word: str) -> str | None:
        """The type and the word, in single quotes if needed; None for files, which PowerShell completes itself.

        Some versions change a double quote, or a backslash before the closing quote, on the way to a program.
        """
        if item.type == "file" or '"' in word or word.endswith("\\"):
            return None
        if _SAFE.fullmatch(word.replace("::", "")):
            return f"plain,{word}"
        if self.word.typed.startswith("~"):  # which means nothing inside quotes
            return None
        quoted = re.sub("(['\u2018-\u201b])", r"\1\1", word)
        return f"plain,'{quoted}'"


_SHELLS: dict[str, type[_Shell]] = {each.name: each for each in (_Bash, _Zsh, _Fish, _PowerShell)}


@base.command(
    "completion",
    examples=(
        "revseq completion bash",
        "revseq completion fish > revseq.fish",
    ),
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def command(shell: str) -> None:
    """Print the script that lets a shell complete commands, options, names inside files, examples and dimensions.

    bash: eval "$(revseq completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. fish: revseq completion fish >
    ~/.config/fish/completions/revseq.fish. PowerShell: revseq completion powershell | Out-String | Invoke-Expression
    """
    click.echo(_SHELLS[shell](click.get_current_context().find_root().command, {}, "revseq", VARIABLE).source())


def answer(cli: click.Command, instruction: str) -> int:
    """Print the answer to a completion script; UsageError if the environment is not that of a script."""
    name, _, what = instruction.partition("_")
    if name not in _SHELLS or what != "complete" or not all(each in os.environ for each in _SHELLS[name].variables):
        wanted = "unset: only a completion script sets it"
        raise UsageError(f"{VARIABLE} is set, to {instruction[:40]!r}", wanted, f"unset {VARIABLE}")
    text = _SHELLS[name](cli, {}, "revseq", VARIABLE).complete()
    click.echo(text.encode())  # bytes, since text would get other line ends on Windows
    return 0
