"""`revseq completion`: the script that teaches a shell to complete; and what it asks for, answered."""

from __future__ import annotations

import os
import re

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

VARIABLE = "_REVSEQ_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell")


@add_completion_class
class _Bash(BashComplete):
    """Bash takes : for the end of a word, and would cut file.h5::/name; so the line is split here.

    Only what stands behind the last : is put in place by bash, so only that is given back.
    """

    name = "bash"
    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' completion
    COMPREPLY=()
    for completion in $(COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1"); do
        case $completion in
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${completion#plain,}") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that is being typed."""
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)[1:]
        # A quote that is still open: after the closed ones and what is escaped, one is left.
        self._quoted = bool(re.search(r"[\"']", re.sub(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", "", line)))
        self._incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words, self._incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Type and value, without what bash keeps of the word: inside quotes nothing, and else all up to a colon."""
        if self._quoted:
            return f"{item.type},{item.value}"
        kept = item.value[self._incomplete.rfind(":") + 1 :]
        escaped = re.sub(r"([^\w@%+=:,./-])", r"\\\1", kept)
        return f"{item.type},{escaped}"


@add_completion_class
class _Zsh(ZshComplete):
    """Zsh replaces the whole word, and Click gives only what follows --option=."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that is being typed."""
        words, incomplete = super().get_completion_args()
        option = re.match(r"--[\w-]+=", incomplete)
        self._option = option[0] if option else ""
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Type, value and help, a line each."""
        return super().format_completion(CompletionItem(self._option + item.value, item.type, item.help))


@add_completion_class
class _PowerShell(ShellComplete):
    """PowerShell's native completer."""

    name = "powershell"
    source_template = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($word, $ast, $position)
    $env:COMP_LINE = $ast.ToString().PadRight($position).Substring(0, $position)
    $env:%(complete_var)s = "powershell_complete"
    %(prog_name)s | ForEach-Object {
        $type, $value = $_ -split ",", 2
        if ($type -eq "plain") { [System.Management.Automation.CompletionResult]::new($value) }
    }
    Remove-Item Env:COMP_LINE, Env:%(complete_var)s
}
"""

    get_completion_args = _Bash.get_completion_args

    def format_completion(self, item: CompletionItem) -> str:
        """Type and value; files are PowerShell's own business."""
        return f"{item.type},{item.value}"


@click.command("completion", epilog="Example: revseq completion bash")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that lets a shell complete commands, options, levels, and the names inside files.

    bash: eval "$(revseq completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. fish: revseq completion fish >
    ~/.config/fish/completions/revseq.fish. PowerShell: revseq completion powershell | Out-String | Invoke-Expression
    """
    made = get_completion_class(shell)
    if made:
        click.echo(made(click.get_current_context().find_root().command, {}, "revseq", VARIABLE).source())


def answer(cli: click.Command, instruction: str) -> int:
    """What the script asks for: the completions of its line."""
    from click.shell_completion import shell_complete

    return shell_complete(cli, {}, "revseq", VARIABLE, instruction)
