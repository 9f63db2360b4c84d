"""The class of all commands: two lengths of help, examples that run anywhere, and hints for what was mistyped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from revseq_cli.ground import system

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn


_LONGEST_MESSAGE = 340  # characters
_UNSET = "is a variable unset?"


class SessionOption(click.Option):
    """An option that an environment variable sets, which help names, and an error only where the value came from it."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{"show_envvar": True} | attributes)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The option, with its environment variable if that was read."""
        from_there = ctx and ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT
        return super().get_error_hint(ctx) if from_there else click.Parameter.get_error_hint(self, ctx)


class AloneOption(click.Option):
    """An option that may stand alone: with its own value behind it, it is as usual, else it gets `flag_value`.

    Click would take any word behind it for its value.
    """

    def separated(self, args: list[str]) -> list[str]:
        """The arguments; where the option stands alone, it stands behind all others, where Click knows it for alone."""
        end = args.index("--") if "--" in args else len(args)
        alone = [i for i in range(end) if args[i] in self.opts and not (i + 1 < end and self._takes(args[i + 1]))]
        others = [word for i, word in enumerate(args[:end]) if i not in alone]
        return [*others, *(args[i] for i in alone), *args[end:]]

    def _takes(self, word: str) -> bool:
        try:
            self.type.convert(word, self, None)
        except click.BadParameter:
            return False
        return True


class Helped(click.Command):
    """A command with a short help for -h, and `examples` at the end of both helps, each on a line of its own."""

    examples: tuple[str, ...] = ()

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, with -h before --help."""
        *own, long = super().get_params(ctx)
        return [*own, _short_option(), long]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples; no line of them is broken, so that each can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _short_option() -> click.Option:
    return click.Option(
        ["-h"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_show_short,
        help="Show a short help and exit.",
    )


def _show_short(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from revseq_cli.commands import brief  # a run needs no help

        click.echo(brief.help_of(context.command, context))
        context.exit()


class _Command(Helped):
    """A command that refuses an option without a value, and one with a value that is given twice, as Click does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments as Click does; an error for such an option."""
        for each in self.params:
            if isinstance(each, AloneOption):
                args = each.separated(args)
        if ctx.resilient_parsing:  # for a completion, which is perhaps that of the last option's value
            return super().parse_args(ctx, args[:-1] if args and self._awaits_value(args[-1], ctx) else args)
        _refuse_split(args, ctx)
        args = self._with_names(args, ctx)
        values, extra = self._looked_at(args, ctx)
        try:
            return super().parse_args(ctx, [*args])  # which empties the list
        except click.UsageError as e:
            param = e.param if isinstance(e, click.BadParameter) else None
            if isinstance(param, click.Option) and os.path.exists(str(values.get(param.name or ""))):  # noqa: PTH110
                self._refuse_value(max(param.opts, key=len), str(values[param.name or ""]), ctx)
            if extra and type(e) in (click.UsageError, click.MissingParameter):
                self._refuse_extra(args, extra, ctx)
            raise

    def _looked_at(self, args: list[str], ctx: click.Context) -> tuple[dict[str, Any], list[str]]:
        """The values by their names, and the arguments too many; an error for an option without one value."""
        try:
            values, extra, given = self.make_parser(ctx).parse_args(list(args))
        except click.BadOptionUsage as e:
            if e.option_name and "requires an argument" in e.message:
                self._refuse_value(e.option_name, "nothing", ctx)
            raise
        single = [each for each in given if isinstance(each, click.Option) and _takes_one_value(each)]
        if twice := next((each for i, each in enumerate(single) if each in single[:i]), None):
            name = max(twice.opts, key=len)
            raise click.BadOptionUsage(name, f"{name} is given twice, and it takes one value.", ctx)
        self._require_values(single, values, ctx)
        return values, extra

    def _refuse_extra(self, args: list[str], extra: list[str], ctx: click.Context) -> None:
        """UsageError with a hint, if the arguments too many are empty, or an output without its -o; else nothing."""
        from revseq_cli.formats.table import by_suffix
        from revseq_cli.ground.errors import UsageError  # --help needs none

        if "" in extra:
            raise UsageError("an argument is empty", "a name, or no argument", _UNSET)
        word = extra[0]
        may_be_output = any("-o" in each.opts for each in self.params) and not {"-o", "--output", "--"} & {*args}
        is_plain = word.isprintable() and args.count(word) == 1 and not os.path.exists(word)  # noqa: PTH110 - any text
        if len(extra) == 1 and may_be_output and is_plain and (word == "-" or by_suffix(word)):
            i = args.index(word)
            typed = meant(ctx.command_path, [*args[:i], "-o", *args[i:]])
            raise UsageError(f"{word[:40]} is an argument too many", "the name of an output after -o", typed)

    def _with_names(self, args: list[str], ctx: click.Context) -> list[str]:
        """The arguments, with names of files in the place of each pattern that is no option's value."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        valued = {name for each in options if not (each.is_flag or each.count) for name in each.opts}
        pairs = zip(("", *args), args, strict=False)
        return [name for before, word in pairs for name in ([word] if before in valued else system.names(word))]

    def _awaits_value(self, word: str, ctx: click.Context) -> bool:
        """Whether the word is an option that takes one value."""
        options = (each for each in self.get_params(ctx) if isinstance(each, click.Option) and _takes_one_value(each))
        return any(word in each.opts for each in options)

    def _require_values(self, given: Sequence[click.Option], values: dict[str, Any], ctx: click.Context) -> None:
        """UsageError for an option whose value is empty, or is another option, as after a variable that is not set."""
        from revseq_cli.ground.errors import UsageError  # --help needs none

        known = {word for each in self.get_params(ctx) for word in (*each.opts, *each.secondary_opts)}
        for option in given:
            value, name = values.get(option.name or ""), max(option.opts, key=len)
            if value == "":
                raise UsageError(f"{name} is empty", _wanted(option, ctx), _UNSET)
            if isinstance(value, str) and value.startswith("-") and value.partition("=")[0] in known:
                self._refuse_value(name, value, ctx)

    def _refuse_value(self, name: str, follows: str, ctx: click.Context) -> NoReturn:
        from revseq_cli.ground.errors import UsageError  # --help needs none

        option = next(each for each in self.get_params(ctx) if name in each.opts)
        raise UsageError(
            f"{max(option.opts, key=len)} has no value: {follows} follows it", _wanted(option, ctx), _UNSET
        )


def _refuse_split(args: Sequence[str], ctx: click.Context) -> None:
    """UsageError for a tensor that the shell has split into several arguments; not where help is asked for."""
    if not {"-h", "--help"} & {*args} and (whole := _rejoined(args)) != [*args]:
        from revseq_cli.ground.errors import UsageError  # --help needs none

        found, wanted = "a tensor is split into several arguments", "one argument, in quotes"
        raise UsageError(found, wanted, meant(ctx.command_path, whole))


def _rejoined(args: Sequence[str]) -> list[str]:
    """The arguments, with the words of each unquoted tensor joined: from its first [ to its last ]."""
    words: list[str] = []
    for each in args:
        if words and _is_open(words[-1]):
            words[-1] += f" {each}"
        else:
            words.append(each)
    return [*args] if words and _is_open(words[-1]) else words


def _is_open(word: str) -> bool:
    return word.startswith("[") and word.count("[") > word.count("]")


def _wanted(option: click.Parameter, ctx: click.Context) -> str:
    return f"{max(option.opts, key=len)} {option.make_metavar(ctx)}"


def _takes_one_value(option: click.Option) -> bool:
    return not (option.is_flag or option.count or option.multiple)


def command(
    name: str, text: str, examples: Sequence[str], **attributes: Any
) -> Callable[[Callable[..., Any]], _Command]:
    """A decorator that makes a command; `text` is its help, since python -OO removes docstrings.

    `examples` are command lines that run in any folder.
    """

    def decorate(function: Callable[..., Any]) -> _Command:
        made = click.command(name, cls=_Command, help=text, **attributes)(function)
        made.examples = tuple(examples)
        return made

    return decorate


def meant(command: str, words: Sequence[str]) -> str:
    """A hint with the command line that may be meant: these words behind the command."""
    return f"did you mean: {command} {' '.join(map(system.quoted, words))}"


def message_of_click(text: str) -> str:
    """A message of Click on one line, cut where a value of the user's makes it very long."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}..."
