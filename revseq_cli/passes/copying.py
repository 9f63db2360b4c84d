"""The pass that copies a tensor: for `convert`, and into temporary files of a reversal."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from revseq_cli.formats.registry import create_scratch
from revseq_cli.passes.arrangement import Arrangement, arrange_move
from revseq_cli.passes.tasks import Block, Task, deliver_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import Sink, Source, Ticket


def copy(source: Source, sink: Sink, arrangement: Arrangement) -> None:
    """Copy into the sink, which the caller has entered."""
    with source.at_hand(sink.beside) as ready:
        deliver_all("copy", _copies(ready, sink, arrangement), sink, arrangement, ready)


def move(source: Source, sink: Sink, arrangement: Arrangement) -> None:
    """Copy a tensor inside another pass, with that pass's engine and within its memory."""
    copy(source, sink, arrange_move(source, sink, arrangement))


@contextlib.contextmanager
def spooled(source: Source, beside: str, arrangement: Arrangement) -> Iterator[Source]:
    """The source; or, if the arrangement is spooled and the source has chunks, its copy next to the file `beside`."""
    if not (arrangement.spooled and source.chunks):
        yield source
        return
    with create_scratch(beside, source) as spool:
        move(source, spool, arrangement)
        yield spool.written()


def _copies(source: Source, sink: Sink, arrangement: Arrangement) -> Iterator[Task]:
    """The tasks that copy, one for each block."""
    for region in arrangement.plan:
        yield Task(_read, (source.ticket(region),), region, sink.outlet(region))


def _read(ticket: Ticket) -> Block:
    return Block(ticket.read())
