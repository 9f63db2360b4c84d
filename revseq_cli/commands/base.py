"""The class of all commands, with two lengths of help and examples; and the console on which a command prints."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource

from revseq_cli.core import signals, system
from revseq_cli.core.errors import UsageError, printable, shortened
from revseq_cli.formats import table
from revseq_cli.report import terminal
from revseq_cli.report.words import message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn

    from revseq_cli.core.errors import RevseqError
    from revseq_cli.formats.contract import FileSink
    from revseq_cli.formats.table import Format
    from revseq_cli.pipeline.arrangement import Arrangement
    from revseq_cli.report.view import Marks, Room


@dataclass(frozen=True)
class Console:
    """What the command prints beside its result, on standard error, and its use of colour."""

    as_json: bool
    quiet: bool
    verbose: int
    color: str

    def detail(self, text: str) -> None:
        """Print lines about what is done, if -v is given."""
        if self.verbose and not self.quiet:
            click.echo("\n".join(map(printable, text.split("\n"))), file=sys.stderr)

    def note(self, *texts: str) -> None:
        """Print notes, for example on what the result lacks, unless -q is given."""
        for text in () if self.quiet else texts:
            click.echo(printable(f"Note: {text}"), file=sys.stderr)

    def error(self, error: RevseqError, place: str = "") -> None:
        """Print the error of a part of the work, which goes on; `place` has the lines of a manifest."""
        color = colored(self.color, sys.stderr)
        click.echo(message(error, color=color, width=error_width(), place=place), file=sys.stderr, color=color)

    @contextlib.contextmanager
    def writing(self, sink: FileSink, arrangement: Arrangement, *, verify: bool) -> Iterator[None]:
        """Print what there is to say of a new file that is written inside; also what became of it after a signal."""
        path = sink.file.name
        before = _state(path)
        with signals.deferred():
            try:
                if self.verbose and arrangement.engine.remote:
                    self.detail(f"dashboard              {arrangement.engine.load()(arrangement).dashboard}")
                yield
            except signals.Stopped:
                after = _state(path)
                fate = "was not written" if after is None else "is unchanged" if after == before else "is complete"
                self.note(f"stopped; {path} {fate}")
                raise
        self.note(*sink.notes)
        self.detail(f"wrote {path}{', and verified it' if verify else ''}")

    @property
    def marks(self) -> Marks | None:
        """How printed tensors highlight elements; None for no highlights, as in a pipe, which a program may read."""
        from revseq_cli.report import view

        if self.color == "always":
            return view.COLORED
        if self.color == "never" or not is_terminal() or os.environ.get("TERM") == "dumb":
            return None
        return view.COLORED if self.colored else view.UNCOLORED

    @property
    def colored(self) -> bool:
        """Whether standard output gets colour, by --color, NO_COLOR, FORCE_COLOR and the terminal, in that order."""
        return colored(self.color, sys.stdout)


def _state(path: str) -> tuple[int, int] | None:
    """What tells a file from the one that replaces it; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a string
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def colored(color: str, stream: TextIO) -> bool:
    """Whether a stream gets colour, by the value of --color, NO_COLOR, FORCE_COLOR and the terminal, in that order."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def error_width() -> int:
    """How many columns a terminal on standard error has; 0 if it is no terminal, or does not say."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def room_for_tensors(*, full: bool, whole_rows: bool = False) -> Room:
    """The room for tensors that are printed: a terminal's, or as much as they take in a pipe, and with `full`.

    With `whole_rows`, long rows are not cut, since they are to be copied.
    """
    from revseq_cli.report import view  # --help must not load NumPy

    if full or not is_terminal():
        return view.EVERYTHING
    import shutil  # most jobs print nothing on a terminal

    columns = inf if whole_rows else shutil.get_terminal_size().columns
    return view.Room(view.MOST_ON_TERMINAL, columns, terminal.dots())


def printed_format(format_name: str | None, to_name: str, output: str) -> Format:
    """The format for standard output, text for None.

    UsageError for one that needs a file, and for binary on a terminal, with the hint `to_name`: how to name a file; and
    for a file that a shell's > names after another format than text, which is not asked for. `output` says how to name
    a file {}.
    """
    if format_name is None:
        _refuse_redirection(system.name_behind(1), output)
    row = table.named(format_name) or table.TEXT
    if not row.prints:
        printing = "|".join(each.name for each in table.FORMATS if each.prints)
        if not row.suffixes:
            raise UsageError(f"{row.name} is only read", f"-f {printing}")
        raise UsageError(f".{row.name} cannot be written to a pipe", f"a file, or -f {printing}", to_name)
    if not row.is_text and is_terminal():
        raise UsageError("a terminal cannot show binary data", "a pipe or a file", f"{to_name}, or add | and a command")
    return row


def _refuse_redirection(path: str, output: str) -> None:
    """UsageError where a shell's > sends standard output to a file that would be text under another format's suffix."""
    row = table.by_suffix(path)
    if row is None or row.is_shown:
        return
    name = os.path.relpath(path)
    hint = f"use {output.format(system.quoted(name))} --overwrite, and no >"  # the shell has made the file
    if row.prints and not table.packing_of(path):
        hint = f"add -f {row.name}"
    raise UsageError("standard output goes there, and would be text", f"the format {row.name}", hint, name)


_LONGEST_MESSAGE = 340  # characters
# The keys of a context's meta: the options that were typed, as they were, by their names; the arguments too many.
TYPED, _EXTRA = "revseq typed", "revseq extra"
_UNSET = "is a variable unset?"
# PyTorch's options of the order of axes, and what stands for each here.
_BATCH_FIRST = {"--batch-first": ("--like", "pytorch", "--axis", "1"), "--no-batch-first": ("--like", "pytorch")}
_FIRST = re.compile(r"[.,:;](?= |$)")  # the end of what the short help says of an option
_LONGEST_METAVAR = 14  # characters


class Group(Enum):
    """The groups of options in the short help, with their titles. A group makes its options; Click's own are HELP.

    Those of `run` that PRINT are no columns of a batch.
    """

    REVERSE = "What to reverse"
    READ = "What to read"
    COMPARE = "What to compare"
    WRITE = "What to write"
    PRINT = "What to print"
    WORK = "How to work"
    HELP = "Help"

    def option(self, *names: str, cls: type[Option] | None = None, **attributes: Any) -> Callable[..., Any]:
        """A decorator that adds an option of this group to a command, as Click's."""
        return click.option(*names, cls=cls or Option, group=self, **attributes)

    def session_option(self, name: str, *more: str, **attributes: Any) -> Callable[..., Any]:
        """One that an environment variable sets, too: REVSEQ_MEMORY for --memory. Help shows both."""
        variable = f"REVSEQ_{name.lstrip('-').replace('-', '_').upper()}"
        shown = {"show_default": True, "show_envvar": True}
        return self.option(name, *more, cls=SessionOption, envvar=variable, **shown, **attributes)


class Option(click.Option):
    """An option with its group."""

    def __init__(self, *names: Any, group: Group, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.group = group


class SessionOption(Option):
    """An option that an environment variable sets, which an error names only where the value came from it."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The option, with its environment variable if that was read."""
        from_there = ctx and ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT
        return super().get_error_hint(ctx) if from_there else click.Parameter.get_error_hint(self, ctx)


class AloneOption(Option):
    """An option that may stand alone: with its own value behind it, it is as usual, else it gets `flag_value`.

    Click would take any word behind it for its value. A word that is no file is one, too, which is mistyped.
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
            return word.isidentifier() and not os.path.exists(word)  # noqa: PTH110
        return True


class Helped(click.Command):
    """A command with a short help for -h, and `examples` at the end of both helps, each on a line of its own."""

    examples: tuple[str, ...] = ()

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, with -h before --help."""
        *own, long = super().get_params(ctx)
        return [*own, _SHORT_HELP, long]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples; no line of them is broken, so that each can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _show_short(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(_short_help(context.command, context))
        context.exit()


_SHORT_HELP = click.Option(
    ["-h"], is_flag=True, expose_value=False, is_eager=True, callback=_show_short, help="Show short help and exit."
)


def _short_help(command: click.Command, context: click.Context) -> str:
    """How a command is used, its options in groups with a line for each, and its examples."""
    formatter = context.make_formatter()
    command.format_usage(context, formatter)
    if isinstance(command, click.Group):
        command.format_commands(context, formatter)
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    rows = [
        (getattr(each, "group", Group.HELP), _short_spec(each, context), _FIRST.split(each.help or "")[0])
        for each in options
    ]
    width = max(len(spec) for _, spec, _ in rows)
    for group in Group:
        if own := [(spec.ljust(width), text) for its, spec, text in rows if its is group]:
            with formatter.section(group.value):
                formatter.write_dl(own)
    command.format_epilog(context, formatter)
    return formatter.getvalue().rstrip("\n")


def _short_spec(option: click.Option, context: click.Context) -> str:
    """An option as it is typed; its value has the option's name where all values would be too long."""
    spec, *_ = option.get_help_record(context) or ("",)
    metavar = option.make_metavar(context)
    return spec if len(metavar) <= _LONGEST_METAVAR else spec.replace(metavar, long_name(option).lstrip("-").upper())


class _Command(Helped):
    """A command that refuses an option without a value, and one with a value that is given twice, as Click does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments as Click does; an error for such an option."""
        for each in self.params:
            if isinstance(each, AloneOption):
                args = each.separated(args)
        if ctx.resilient_parsing:  # for a completion, which is perhaps that of the last option's value
            option = self._option(args[-1]) if args else None
            return super().parse_args(ctx, args[:-1] if option and _takes_one_value(option) else args)
        _refuse_split(args, ctx)
        if self._option("--axis"):
            from revseq_cli.report.words import with_own_names  # --help needs none

            own = any("--lengths" in each.opts for each in self.params)
            args = with_own_names(args, lengths=not own)
            _refuse_batch_first(args, ctx)
        args = self._with_names(args)
        try:
            return super().parse_args(ctx, [*args])  # which empties the list
        except click.UsageError as e:
            wrong = e.param if isinstance(e, click.BadParameter) else None
            value = str(ctx.meta.get(TYPED, {}).get(wrong.name)) if wrong else ""
            if isinstance(wrong, click.Option) and os.path.exists(value):  # noqa: PTH110
                _refuse_value(wrong, value, ctx)
            if (extra := ctx.meta.get(_EXTRA)) and type(e) in (click.UsageError, click.MissingParameter):
                self._refuse_extra(args, extra, ctx)
            self._refuse_file(args, ctx)
            raise

    def make_parser(self, ctx: click.Context) -> Any:  # a class that Click keeps to itself
        """Click's parser, which also refuses an option without one value, and notes what was typed."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def checked(args: list[str]) -> tuple[dict[str, Any], list[str], list[click.Parameter]]:
            try:
                values, extra, given = parse(args)
            except click.BadOptionUsage as e:
                option = self._option(e.option_name)
                if option and _takes_one_value(option):
                    _refuse_value(option, "nothing", ctx)
                raise
            ctx.meta[TYPED], ctx.meta[_EXTRA] = values, extra
            if not ctx.resilient_parsing:
                self._require_values(given, values, ctx)
            return values, extra, given

        parser.parse_args = checked  # type: ignore[method-assign]
        return parser

    def _option(self, name: str) -> click.Option | None:
        """The option of a name; None where the command has none."""
        options = (each for each in self.params if isinstance(each, click.Option))
        return next((each for each in options if name in (*each.opts, *each.secondary_opts)), None)

    def _require_values(self, given: Sequence[click.Parameter], values: dict[str, Any], ctx: click.Context) -> None:
        """An error for an option that is given twice, or whose value is empty or another option, as of no variable."""
        seen = set()
        for option in given:
            if not (isinstance(option, click.Option) and _takes_one_value(option)):
                continue
            value, name = values.get(option.name or ""), long_name(option)
            if name in seen:
                raise click.BadOptionUsage(name, f"{name} is given twice, but takes one value.", ctx)
            seen.add(name)
            if value == "":
                raise UsageError(f"{name} is empty", _wanted(option, ctx), _UNSET)
            if isinstance(value, str) and value.startswith("-") and self._option(value.partition("=")[0]):
                _refuse_value(option, value, ctx)

    def _refuse_extra(self, args: list[str], extra: list[str], ctx: click.Context) -> None:
        """UsageError with a hint, if the arguments too many are empty, or an output without its -o; else nothing."""
        from revseq_cli.formats.table import by_suffix

        if "" in extra:
            raise UsageError("an argument is empty", "a name, or no argument", _UNSET)
        word = extra[0]
        may_be_output = any("-o" in each.opts for each in self.params) and not {"-o", "--output", "--"} & {*args}
        is_plain = word.isprintable() and args.count(word) == 1 and not os.path.exists(word)  # noqa: PTH110 - any text
        if len(extra) == 1 and may_be_output and is_plain and (word == "-" or by_suffix(word)):
            i = args.index(word)
            typed = meant(ctx.command_path, [*args[:i], "-o", *args[i:]])
            raise UsageError(f"{word[:40]} is an unexpected argument", "the name of an output after -o", typed)

    def _refuse_file(self, args: list[str], ctx: click.Context) -> None:
        """UsageError where an argument is a file, and its name begins as an option does; else nothing."""
        end = args.index("--") if "--" in args else len(args)
        files = [each for each in args[:end] if each[:1] == "-" and not self._option(each) and _is_file(each)]
        if files:
            hint = meant(ctx.command_path, [f"./{each}" if each in files else each for each in args])
            raise UsageError(f"{files[0]} is a file that begins like an option", "./ in front of such a name", hint)

    def _with_names(self, args: list[str]) -> list[str]:
        """The arguments, with names of files instead of each pattern that is no option's value."""
        names: list[str] = []
        for before, word in zip(map(self._option, ("", *args)), args, strict=False):
            names += [word] if before and _takes_one_value(before) else system.names(word)
        return names


def _is_file(word: str) -> bool:
    """Whether it is the name of a file, or of a tensor in one."""
    return word != "-" and os.path.exists(word.partition("::")[0])  # noqa: PTH110 - any text


def _refuse_value(option: click.Option, follows: str, ctx: click.Context) -> NoReturn:
    raise UsageError(f"{long_name(option)} has no value: {follows} follows it", _wanted(option, ctx), _UNSET)


def _refuse_split(args: Sequence[str], ctx: click.Context) -> None:
    """UsageError for a tensor that the shell has split into several arguments; not where help is asked for."""
    if not {"-h", "--help"} & {*args} and (whole := _rejoined(args)) != [*args]:
        found, wanted = "a tensor is split into several arguments", "one argument, in quotes"
        raise UsageError(found, wanted, meant(ctx.command_path, whole))


def _refuse_batch_first(args: Sequence[str], ctx: click.Context) -> None:
    """UsageError for an option of PyTorch, with those that stand for it here; a hint where no axes were typed."""
    typed = [word.partition("=")[0] for word in args[: args.index("--") if "--" in args else len(args)]]
    name = next((each for each in typed if each in _BATCH_FIRST), "")
    if not name or {"-h", "--help"} & {*args}:
        return
    is_alone = name in args and not {"--axis", "--batch-axis", "--like", "true", "false"} & {*map(str.lower, typed)}
    hint = meant(ctx.command_path, [each for word in args for each in (_BATCH_FIRST[name] if word == name else [word])])
    wanted = "--like pytorch --axis 1 where the batch comes first, and --like pytorch where time does"
    raise UsageError(f"{name} is an option of PyTorch", wanted, hint if is_alone else "")


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


def _wanted(option: click.Option, ctx: click.Context) -> str:
    return f"{long_name(option)} {option.make_metavar(ctx)}"


def long_name(option: click.Parameter) -> str:
    """The longest name of an option, as it is typed: --axis."""
    return max(option.opts, key=len)


def _takes_one_value(option: click.Option) -> bool:
    return not (option.is_flag or option.count or option.multiple)


def command(name: str, examples: Sequence[str], **attributes: Any) -> Callable[[Callable[..., Any]], _Command]:
    """A decorator that makes a command of a function, whose docstring is the help.

    `examples` are command lines that run in any folder.
    """

    def decorate(function: Callable[..., Any]) -> _Command:
        made = click.command(name, cls=_Command, **attributes)(function)
        made.examples = tuple(examples)
        return made

    return decorate


def meant(command: str, words: Sequence[str]) -> str:
    """A hint with the command line that may be meant: these words behind the command."""
    return f"did you mean: {command} {' '.join(map(system.quoted, words))}"


def message_of_click(text: str) -> str:
    """A message of Click on one line, cut where a value of the user's makes it very long."""
    return shortened(" ".join(text.split()), _LONGEST_MESSAGE)
