"""Which of several tensors in a file was meant, where none is named: one that fits the rest of the job."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from revseq_cli.formats import registry
from revseq_cli.formats.contents import try_hint
from revseq_cli.ground import system
from revseq_cli.ground.errors import RevseqError, SeveralError, listed
from revseq_cli.passes.assembly import Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.references import Reference
    from revseq_cli.passes.assembly import Request

_MOST = 100  # tensors of a file that are looked at
_MOST_TOLD = 3  # of those that cannot be opened
_OF_LENGTHS = re.compile(
    r"(^|[^a-z])((seq|sequence)?_?(len|lens|length|lengths|mask)|sequence_?tensor)([^a-z]|$)", re.IGNORECASE
)
_IN_CAMEL_CASE = re.compile(r"(?<=[a-z\d])(?=[A-Z])")


def is_of_lengths(key: str) -> bool:
    """Whether a tensor is named like lengths, or like a mask."""
    return bool(_OF_LENGTHS.search(_IN_CAMEL_CASE.sub("_", key.rpartition("/")[2])))


def _is_coordinate(source: Source) -> bool:
    """Whether it says where the indices of its own dimension are, as `lat` along lat."""
    return source.dimensions == (source.key.rpartition("/")[2],)


def opened(
    reference: Reference, types: TextTypes, fits: Callable[[Source], bool] = lambda _: True, *, lengths: bool = False
) -> Source:
    """Open a tensor; where several are in the file, the error proposes the only one that fits, or lists those.

    Of several that fit the name decides between values and `lengths`; a scalar and a coordinate fit nowhere. The error
    says why others cannot be opened.
    """
    try:
        return registry.open_source(reference, types)
    except SeveralError as e:
        sources, unopened = _looked_at(reference, types, e.names)
        found = []
        for key, source in sources.items():
            with contextlib.suppress(RevseqError):  # it does not fit
                found += [key] if fits(source) else []
        named = [key for key in found if is_of_lengths(key) == lengths]
        found = named or (found if lengths else [])
        unopened = {key: why for key, why in unopened.items() if is_of_lengths(key) == lengths}
        if e.names:
            e.hint = ""
        if len(found) == 1 and len(e.names) <= _MOST:
            e.hint = try_hint(e.where, found[0])
        elif found:
            looked_at = f" among the first {_MOST}" * (len(e.names) > _MOST)
            e.hint = f"those that fit{looked_at} are {listed(system.quoted(f'{e.where}::{key}') for key in found)}"
        e.context = "\n".join(f"{e.where}::{key} cannot be opened: {unopened[key]}" for key in [*unopened][:_MOST_TOLD])
        raise


def _looked_at(
    reference: Reference, types: TextTypes, names: Sequence[str]
) -> tuple[dict[str, Source], dict[str, str]]:
    """The tensors of a file that may be meant, by their names; and why others cannot be opened."""
    sources, unopened = {}, {}
    for key in names[:_MOST]:
        try:
            source = registry.open_source(replace(reference, key=key), types)
        except RevseqError as error:
            unopened[key] = error.found
            continue
        if source.sizes and not _is_coordinate(source):
            sources[key] = source
    return sources, unopened


def pairs(request: Request) -> list[tuple[str, str]]:
    """The names of every two tensors that make a job by sizes and names, where one is not named, as INPUT and LENGTHS.

    What is named stays; LENGTHS that are not given are in the file of INPUT, and have a name like lengths.
    """
    from revseq_cli.passes import remedies  # only files of several tensors need it

    reference, given = request.references()
    values = _candidates(reference, request.values, request.types, lengths=False)
    other = given or replace(reference, key=None)
    lengths = _candidates(other, request.lengths, request.types_of_lengths, lengths=True)
    return [
        (name, name_of_lengths)
        for name, source in values.items()
        for name_of_lengths, its_lengths in lengths.items()
        if name != name_of_lengths and remedies.go_together(Parts(source, its_lengths, request))
    ]


def _candidates(reference: Reference, typed: str | None, types: TextTypes, *, lengths: bool) -> dict[str, Source]:
    """The tensors that may be meant, by what names them: the one that was typed, or those of a file of several."""
    try:
        source = registry.open_source(reference, types)
    except SeveralError as e:
        sources, _ = _looked_at(reference, types, e.names if len(e.names) <= _MOST else ())
        return {f"{reference.path}::{key}": each for key, each in sources.items() if is_of_lengths(key) == lengths}
    except RevseqError:  # it is told
        return {}
    return {} if typed is None else {typed: source}
