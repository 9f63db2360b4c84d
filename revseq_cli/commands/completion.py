"""`revseq completion`: the script that teaches a shell to complete; and what it asks for, answered.

A name from a file must reach the shell's line as a word, and never as code. zsh and fish quote what they insert; bash
and PowerShell take it as it is, so it is quoted here. What the user has typed stays as it is. A name that the quotes
around the cursor cannot hold is left out, and so is every name behind a word whose meaning only the shell knows.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import click
from click.shell_completion import BashComplete, CompletionItem, ShellComplete

from revseq_cli.commands import base
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "_REVSEQ_COMPLETE"
# Words of ours, which mean the same in every shell, in quotes or not.
_SAFE = re.compile(r"[\w./+-]*", re.ASCII)


class _Grammar(NamedTuple):
    """How a shell writes a word.

    `escapable` has, for each kind of quotes and for none, what the escape character can stand before: None is anything.
    `known` matches a word as it is typed, up to the cursor, if its meaning can be told without asking the shell.
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
    """The word at the cursor: as it is typed, what that means, and the quote that is open there.

    An escape that stands before nothing yet is no part of it. Where `is_known` is not set, the shell may take the word
    for something else.
    """

    typed: str = ""
    value: str = ""
    quote: str = ""
    is_known: bool = True


class _Reader:
    """Takes a line apart, character by character: `words` have what those before the last one mean."""

    def __init__(self, line: str, grammar: _Grammar) -> None:
        self.words: list[str] = []
        self._grammar, self._value, self._quote, self._escape = grammar, "", "", ""
        start = 0
        for i, character in enumerate(line):
            if self._escape:
                self._take_escaped(character)
            elif character == grammar.escape and grammar.escapable[self._quote] != "":
                self._escape = character
            elif self._quote or not character.isspace():
                self._take(character)
            else:
                self.words += [self._value] if line[start:i] else []
                start, self._value = i + 1, ""
        typed = line[start:]
        known = grammar.known.fullmatch(typed) is not None
        self.last = _Word(typed.removesuffix(self._escape), self._value, self._quote, known)

    def _take_escaped(self, character: str) -> None:
        escapable = self._grammar.escapable[self._quote]
        self._value += character if escapable is None or character in escapable else self._escape + character
        self._escape = ""

    def _take(self, character: str) -> None:
        if character == self._quote:
            self._quote = ""
        elif not self._quote and character in "'\"":
            self._quote = character
        else:
            self._value += character


class _Shell(ShellComplete):
    """A shell; its script gives the line up to the cursor in the first of `variables`."""

    variables: tuple[str, ...] = ("COMP_LINE",)
    grammar: ClassVar[_Grammar] = _POSIX

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that is being typed."""
        reader = _Reader(os.environ[self.variables[0]], self.grammar)
        self.word = reader.last
        option = re.match(r"--[\w-]+=", self.word.value)
        self._option = option[0] if option else ""  # Click gives only what follows it
        return reader.words[1:], self.word.value

    def complete(self) -> str:
        """A line for each completion that the shell's line can hold."""
        args, incomplete = self.get_completion_args()
        try:
            items = self.get_completions(args, incomplete)
        except click.UsageError:  # the words before are wrong; the command itself will say so
            items = []
        known = (item for item in items if self.word.is_known or item.type != "name")
        return "\n".join(line for item in known if (line := self.line(item, self._option + item.value)) is not None)

    def line(self, item: CompletionItem, word: str) -> str | None:
        """What the script takes for an item that makes this the word; None where it has to be left out."""
        raise NotImplementedError


class _Bash(_Shell, BashComplete):
    """Bash replaces COMP_WORD, which begins behind the last colon or open quote, and takes the new text as it is.

    It closes a quote that is open, unless the text ends with one.
    """

    name = "bash"
    variables = ("COMP_LINE", "COMP_WORD")
    source_template = """\
%(complete_func)s() {
    local completion
    COMPREPLY=()
    while IFS= read -r completion; do
        case $completion in
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${completion#plain,}") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def line(self, item: CompletionItem, word: str) -> str | None:
        """Type and text."""
        if item.type == "file":
            return "file,"
        text = self._text(word)
        return None if text is None else f"plain,{text}"

    def _text(self, word: str) -> str | None:
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
    """Nothing there takes its meaning from an exclamation mark."""
    return None if "!" in text else re.sub(r"([$`\"\\])", r"\\\1", text) + '"' * text.endswith('"')


_BASH_QUOTED: dict[str, Callable[[str], str | None]] = {
    "": lambda text: re.sub(r"([^\w@%+:,./-])", r"\\\1", text),
    '"': _in_double_quotes,
    "'": lambda text: None if "'" in text else text,
}


class _Zsh(_Shell):
    """Zsh quotes what is added to a word itself; what stands before the last :: stays as it is typed."""

    name = "zsh"
    variables = ("COMP_WORDS",)
    source_template = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local kind value help
    local -a response plain described names
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(COMP_WORDS="${(j: :)words[1,CURRENT-1]} $QIPREFIX$IPREFIX$PREFIX" \
%(complete_var)s=zsh_complete %(prog_name)s)}")
    for kind value help in "${(@)response}"; do
        case $kind in
            plain) if [[ $help == _ ]]; then plain+=("$value"); else described+=("$value:$help"); fi ;;
            name) names+=("$value") ;;
            file) _path_files -f ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#names )) && compset -P '*::' && compadd -V unsorted -a names
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

    def line(self, item: CompletionItem, word: str) -> str | None:
        """Type, text and help, a line each."""
        if item.type == "name":
            return f"name\n{word[self.word.value.rfind('::') + 2 :]}\n_"
        text = word.replace(":", r"\:") if item.help else word
        return f"{item.type}\n{text}\n{item.help or '_'}"


class _Fish(_Shell):
    """Fish holds whole words against the one that is typed, and quotes what it adds."""

    name = "fish"
    variables = ("COMP_WORDS",)
    grammar = _FISH
    source_template = """\
function %(complete_func)s
    set -lx COMP_WORDS (commandline -cp | string collect)
    set -lx %(complete_var)s fish_complete
    for completion in (%(prog_name)s)
        set -l parts (string split -m 1 , -- $completion)
        if test $parts[1] = file
            __fish_complete_path (commandline -ct)
        else
            printf '%%s\\n' $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""

    def line(self, item: CompletionItem, word: str) -> str | None:
        """Type, text and help."""
        return f"{'file' if item.type == 'file' else 'plain'},{word}" + (f"\t{item.help}" if item.help else "")


class _PowerShell(_Shell):
    """PowerShell replaces the whole word, its quotes among it."""

    name = "powershell"
    grammar = _POWERSHELL
    source_template = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($word, $ast, $position)
    $length = $position - $ast.Extent.StartOffset
    $env:COMP_LINE = $ast.ToString().PadRight($length).Substring(0, $length)
    $env:%(complete_var)s = "powershell_complete"
    try {
        %(prog_name)s | ForEach-Object {
            $type, $value = $_ -split ",", 2
            if ($type -eq "plain") { [System.Management.Automation.CompletionResult]::new($value) }
        }
    } finally {
        Remove-Item Env:COMP_LINE, Env:%(complete_var)s
    }
}
"""

    def line(self, item: CompletionItem, word: str) -> str | None:
        """Type and text, in single quotes where it has to be; files are PowerShell's own business.

        A double quote, and a backslash before the closing quote, do not reach a program whole in every version.
        """
        if item.type == "file" or '"' in word or word.endswith("\\"):
            return None
        if _SAFE.fullmatch(word.replace("::", "")):
            return f"plain,{word}"
        if self.word.typed.startswith("~"):  # quotes would take its meaning
            return None
        quoted = re.sub("(['\u2018-\u201b])", r"\1\1", word)
        return f"plain,'{quoted}'"


_SHELLS: dict[str, type[_Shell]] = {each.name: each for each in (_Bash, _Zsh, _Fish, _PowerShell)}


@base.command(
    "completion",
    """Print the script that lets a shell complete commands, options, levels, and the names inside files.

    bash: eval "$(revseq completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. fish: revseq completion fish >
    ~/.config/fish/completions/revseq.fish. PowerShell: revseq completion powershell | Out-String | Invoke-Expression
    """,
    epilog="Example: revseq completion bash",
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def command(shell: str) -> None:
    """Carry the command out."""
    click.echo(_SHELLS[shell](click.get_current_context().find_root().command, {}, "revseq", VARIABLE).source())


def answer(cli: click.Command, instruction: str) -> int:
    """What a script asks for: the completions of its line; UsageError where it is no script that asks."""
    name, _, what = instruction.partition("_")
    if name not in _SHELLS or what != "complete" or not all(each in os.environ for each in _SHELLS[name].variables):
        raise UsageError(
            f"{VARIABLE} is set, to {instruction[:40]!r}",
            "unset: a completion script sets it, and tells with it what is typed", f"unset {VARIABLE}",
        )  # fmt: skip
    text = _SHELLS[name](cli, {}, "revseq", VARIABLE).complete()
    click.echo(text.encode())  # as bytes, since Windows would end lines in another way
    return 0
