"""Click's usage errors in the form of ours: what was found, what is expected, and what to type."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from revseq_cli.commands.groups import COMMANDS
from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, join_names, nearest, shorten

# Characters that are printed of a value, of arguments, and of a message of Click.
_LONGEST_VALUE = 60
_LONGEST_ARGUMENTS = 200
_LONGEST_MESSAGE = 340
# What other tools call our options, commands and tensors.
_OTHER_NAMES = {
    "--force": "--overwrite",
    "--dim": "--axis",
    "--dimension": "--axis",
    "--time-axis": "--axis",
    "--seq-axis": "--axis",
    "--seq-dim": "--axis",
    "--batch": "--batch-axis",
    "--batch-dim": "--batch-axis",
    "--pad": "--padding",
    "--pad-value": "--padding",
    "--padding-value": "--padding",
    "--out": "-o",
    "--output-file": "-o",
    "--workers": "--jobs",
    "--threads": "--jobs",
    "--level": "--feature-level",
    "--shape": "--sizes",
    "--type": "--dtype",
}
_OTHER_COMMANDS = {
    "reverse": "run",
    "flip": "run",
    "compare": "diff",
    "cmp": "diff",
    "validate": "check",
    "info": "show",
    "inspect": "show",
    "list": "show",
    "ls": "show",
}
_OTHER_ARGUMENTS = {
    "--input": "INPUT",
    "--lengths": "LENGTHS",
    "--seq-lens": "LENGTHS",
    "--seq-lengths": "LENGTHS",
    "--sequence-lens": "LENGTHS",
}


def as_usage_error(error: click.UsageError, arguments: Sequence[str]) -> RevseqError:
    """Click's error as one of ours; `arguments` were typed after the name of the program."""
    if isinstance(error, click.NoSuchOption):
        return _make_option_error(error)
    if isinstance(error, click.MissingParameter):
        return _make_missing_error(error)
    if isinstance(error, click.BadParameter):
        return _make_value_error(error, arguments)
    if isinstance(error, click.BadOptionUsage):
        problem = f"{error.option_name} needs a value"
        if "does not take" in error.message:
            problem = f"{error.option_name} takes no value"
        return UsageError(problem, hint=_hint_at_help(error.ctx, arguments))
    words = " ".join(error.format_message().split())
    if words.startswith("No such command"):
        return _make_command_error(arguments)
    if words.startswith("Got unexpected extra"):
        return _make_argument_error(error, arguments)
    return UsageError(shorten(words.rstrip("."), _LONGEST_MESSAGE), hint=_hint_at_help(error.ctx))


def name_of_parameter(parameter: click.Parameter, context: click.Context | None) -> str:
    """What the user called a parameter: the option as typed, its variable, or the argument."""
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name.strip("[].")
    variable = parameter.envvar
    if context and isinstance(variable, str):
        source = context.get_parameter_source(str(parameter.name))
        if source is click.core.ParameterSource.ENVIRONMENT:
            return variable
    typed = [word.partition("=")[0] for word in sys.argv[1:]]
    for option in parameter.opts:
        if option in typed:
            return option
    return max(parameter.opts, key=len)


def _hint_at_help(context: click.Context | None, arguments: Sequence[str] = ()) -> str:
    """A hint that names the help of the command; Click does not always say which that is."""
    command = "revseq"
    if context:
        command = context.command_path
    elif arguments and arguments[0] in COMMANDS:
        command = f"revseq {arguments[0]}"
    return f"for all options, type {command} --help"


def _write_command(words: Sequence[str]) -> str:
    """A command as a shell takes it."""
    return " ".join(platform.quote(word) for word in ("revseq", *words))


def _list_options(context: click.Context | None) -> dict[str, click.Parameter]:
    """The options of a command, by every name that they have."""
    if context is None:
        return {}
    options: dict[str, click.Parameter] = {}
    for parameter in context.command.params:
        if isinstance(parameter, click.Option):
            options |= dict.fromkeys(parameter.opts, parameter)
    return options


def _make_option_error(error: click.NoSuchOption) -> RevseqError:
    context = error.ctx
    typed = error.option_name
    options = _list_options(context)
    problem = f"unknown option {shorten(typed, _LONGEST_VALUE)}"
    known = _OTHER_NAMES.get(typed, "")
    if known in options:
        return UsageError(problem, hint=f"the option for this is {known}")
    argument = _OTHER_ARGUMENTS.get(typed, "")
    arguments = []
    if context:
        arguments = [p.human_readable_name.strip("[]") for p in context.command.params]
    if argument in arguments:
        before = "" if argument == "INPUT" else " after INPUT"
        return UsageError(problem, hint=f"{argument} has no option: type its name{before}")
    command = context.info_name if context else ""
    if command == "convert" and typed in ("-o", "--output"):
        hint = "type the output after the input, as in revseq convert x.npy y.csv"
        return UsageError(problem, hint=hint)
    near = nearest(typed, [name for name in options if name.startswith("--")], 0.7)
    if near:
        return UsageError(problem, hint=f"the nearest option is {near}")
    return UsageError(problem, hint=_hint_at_help(context))


def _make_missing_error(error: click.MissingParameter) -> RevseqError:
    parameter = error.param
    name = name_of_parameter(parameter, error.ctx) if parameter else "an argument"
    expected = ""
    if parameter and isinstance(parameter.type, click.Choice):
        expected = f"one of {join_names(parameter.type.choices, 20)}"
    return UsageError(f"{name} is missing", expected, _hint_at_help(error.ctx))


def _make_value_error(error: click.BadParameter, arguments: Sequence[str]) -> RevseqError:
    """An error for a value that its type refuses."""
    parameter = error.param
    if parameter is None:
        return UsageError(shorten(error.message, _LONGEST_MESSAGE), hint=_hint_at_help(error.ctx))
    name = name_of_parameter(parameter, error.ctx)
    refused = describe_bad_value(
        parameter, _find_typed_value(parameter, name, arguments), error.message
    )
    if not refused.expected and not refused.hint:
        refused.set_hint(_hint_at_help(error.ctx))
    return refused.about(name)


def describe_bad_value(parameter: click.Parameter, value: str, message: str) -> UsageError:
    """An error for a value that the type of a parameter refuses with Click's message."""
    shown = shorten(repr(value), _LONGEST_VALUE)
    kind = parameter.type
    if isinstance(kind, click.Choice):
        near = nearest(value, kind.choices)
        hint = f"the nearest is {near}" if near else ""
        return UsageError(
            f"{shown} is not a choice", f"one of {join_names(kind.choices, 30)}", hint
        )
    if isinstance(kind, click.IntRange):
        is_number = value.strip().lstrip("+-").isdigit()
        problem = "is out of range" if is_number else "is not a whole number"
        return UsageError(f"{shown} {problem}", _describe_range(kind))
    if isinstance(kind, click.types.FloatParamType | click.types.IntParamType):
        return UsageError(f"{shown} is not a number")
    return UsageError(shorten(" ".join(message.split()).rstrip("."), _LONGEST_MESSAGE))


def _describe_range(kind: click.IntRange) -> str:
    if kind.max is None:
        return f"{kind.min} or more"
    return f"{kind.min} to {kind.max}"


def _find_typed_value(parameter: click.Parameter, name: str, arguments: Sequence[str]) -> str:
    """The value of an option or argument as it was typed, or as its variable has it."""
    if isinstance(parameter.envvar, str) and name == parameter.envvar:
        return os.environ.get(name, "")
    following = [*arguments[1:], ""]
    for word, next_word in zip(arguments, following, strict=False):
        option, equals, value = word.partition("=")
        if option in parameter.opts:
            return value if equals else next_word
    if isinstance(parameter, click.Argument):
        return following[0]  # the word after the command
    return ""


def _make_command_error(arguments: Sequence[str]) -> RevseqError:
    """The error for an unknown command, which may be mistyped, or the name of a file."""
    words = [word for word in arguments if not word.startswith("-")]
    typed = words[0] if words else ""
    problem = f"unknown command {shorten(typed, _LONGEST_VALUE)}"
    near = _find_nearest_command(typed)
    rest = [word for word in arguments if word != typed]
    if near:
        hint = f"the nearest command is {_write_command([near, *rest])}"
        return UsageError(problem, hint=hint)
    if os.path.exists(typed.partition("::")[0]) or typed.startswith("["):
        return UsageError(
            problem, hint=f"to reverse it, type {_write_command(['run', *arguments])}"
        )
    return UsageError(
        problem, f"one of {join_names(COMMANDS, 20)}", "for their help, type revseq --help"
    )


def _find_nearest_command(typed: str) -> str:
    """The command that was meant: by another name, of the same letters, or the one most alike."""
    if typed in _OTHER_COMMANDS:
        return _OTHER_COMMANDS[typed]
    letters = sorted(typed.lower())
    for command in COMMANDS:
        if sorted(command) == letters:
            return command
    return nearest(typed, COMMANDS, 0.7)


def _make_argument_error(error: click.UsageError, arguments: Sequence[str]) -> RevseqError:
    """An error for more arguments than a command takes; a shell may have made them of a pattern."""
    context = error.ctx
    command = context.info_name if context else ""
    problem = " ".join(error.format_message().split()).rstrip(".")
    extra = problem.partition("(")[2].rstrip(")")
    problem = f"too many arguments: {shorten(extra, _LONGEST_ARGUMENTS)}"
    if command == "batch" and "--each" in arguments:
        hint = "so that the shell does not expand the pattern, quote it, as in --each 'in/*.npy'"
        return UsageError(problem, hint=hint)
    if command == "batch":
        return UsageError(
            problem, "one MANIFEST", "for a job for each file, type --each 'in/*.npy'"
        )
    return UsageError(problem, hint=_hint_at_help(context))
