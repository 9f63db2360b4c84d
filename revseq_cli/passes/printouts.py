"""Tensors as DxDispatch prints them: what it printed, as a source, and other sources with as many digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.references import Reference
from revseq_cli.ground.dtypes import dtype_of
from revseq_cli.ground.errors import Advice, FormatError, UsageError
from revseq_cli.passes.views import Computed, Derived
from revseq_cli.texts import dxdispatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Source, Ticket
    from revseq_cli.ground.tensors import TensorDesc

_PRINTED = ("float", "int", "uint")
_PADDING = 3  # bytes that DxDispatch may add to a buffer, and print


def load(text: str, desc: TensorDesc) -> Source:
    """What was printed of a tensor of that desc: integers, or FLOAT64; RevseqError for a text that has no such tensor.

    `text` names a file with DxDispatch's log, or standard input.
    """
    data_type = desc.data_type
    if data_type.kind not in _PRINTED:
        raise UsageError(f"DxDispatch does not print {data_type.name}", "a data type of DirectML")
    if data_type.size == 1:
        found = f"DxDispatch prints {data_type.name} as characters, and nothing after the first 0"
        wanted = "the .npy file that its command writeFile makes"
        raise UsageError(found, wanted, "a model that revseq export makes writes one")
    reference = Reference.input(text, "text", "A")
    try:
        where = reference.text.name
    except FormatError as e:
        e.hint = Advice.of("leave out {} for a tensor that is not printed", as_printed="")
        raise
    tokens = dxdispatch.elements(reference.text.text, reference.key, reference.path, where)
    extra = len(tokens) - desc.element_count
    if not 0 <= extra * data_type.size <= _PADDING:
        raise FormatError(f"has {len(tokens)} elements", f"{desc.element_count} of {desc}", where=where)
    values = dxdispatch.values(tokens[: desc.element_count], dtype_of(data_type), where)
    return HeldSource(where, values.reshape(desc.sizes), Storage("text", {}), reference.text.identity)


def seen(source: Source, printed: Source) -> Source:
    """A source in the digits in which it would be printed, as FLOAT64; integers have all of theirs."""
    if source.desc.data_type.kind != "float":
        return source

    def ticket(region: Region) -> Ticket:
        return Computed(_rounded, (source.ticket(region), printed.ticket(region)))

    return Derived(source, np.dtype(np.float64), ticket)


def _rounded(numbers: NDArray[Any], printed: NDArray[Any]) -> NDArray[Any]:
    pairs = zip(numbers.ravel().tolist(), printed.ravel().tolist(), strict=True)
    return np.array([dxdispatch.rounded(*pair) for pair in pairs], np.float64).reshape(numbers.shape)
