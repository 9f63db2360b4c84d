"""Tensors in .npy that can only be read from the first byte to the last: a temporary file holds them for a pass."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from revseq_cli.formats import npy
from revseq_cli.formats.raw import RawSource
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.newfile import Scratch
from revseq_cli.formats.storage.together import Together
from revseq_cli.ground import stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source, Ticket
    from revseq_cli.formats.regions import Region

# What unpacks to more bytes than this is unpacked into a temporary file instead of memory.
LARGEST_HELD = 1 << 26


class SpooledSource(RawSource):
    """A tensor of which all is unpacked before any region is read; `unpacked_bytes` counts its header, too."""

    unpacked_bytes: int

    @abstractmethod
    def pieces(self, fd: int) -> Iterator[bytes]:
        """The bytes of the .npy, from the open file; FormatError unless there are `unpacked_bytes` of them."""

    @contextlib.contextmanager
    def at_hand(self, beside: str = "") -> Iterator[Source]:
        """The tensor in a temporary file next to `beside`, whose bytes are reserved first."""
        file = Scratch(beside)
        with Together(file):
            with (
                positioned.opened(self.path, self.identity) as packed,
                positioned.opened_to_write(file.temporary, file.name) as fd,
                stages.begun("unpack", self.unpacked_bytes) as advance,
            ):
                positioned.allocate(fd, self.unpacked_bytes, file.name)
                place = 0
                for data in self.pieces(packed):
                    positioned.write_all(fd, data, place, file.name)
                    place += len(data)
                    advance(len(data))
            yield npy.NpySource(file.temporary, self.name, self.desc.data_type)

    def ticket(self, region: Region) -> Ticket:
        """A ticket that unpacks all of it for this region; `at_hand` does it once for all regions."""
        return _SpoolingTicket(self, region)


@dataclass(frozen=True)
class _SpoolingTicket:
    source: SpooledSource
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with self.source.at_hand() as ready:
            return ready.ticket(self.region).read()
