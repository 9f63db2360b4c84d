"""The class of all commands: the help is an argument, and an option with one value may be given once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


_LONGEST_MESSAGE = 340  # characters


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


class _Command(click.Command):
    """A command that refuses an option with one value if it is given twice; Click would ignore the first value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments as Click does; BadOptionUsage for such an option."""
        for each in self.params:
            if isinstance(each, AloneOption):
                args = each.separated(args)
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            single = [each for each in given if isinstance(each, click.Option) and _takes_one_value(each)]
            if twice := next((each for i, each in enumerate(single) if each in single[:i]), None):
                name = max(twice.opts, key=len)
                raise click.BadOptionUsage(name, f"{name} is given twice, and it takes one value.", ctx)
        return super().parse_args(ctx, args)


def _takes_one_value(option: click.Option) -> bool:
    return not (option.is_flag or option.count or option.multiple)


def command(name: str, text: str, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """A decorator that makes a command; `text` is its help, since python -OO removes docstrings."""
    return click.command(name, cls=_Command, help=text, **attributes)


def message_of_click(text: str) -> str:
    """A message of Click on one line, cut where a value of the user's makes it very long."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}..."
