"""DxDispatch's models as whole jobs, with tensors in the model itself, or in .npy files of the model's folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.core import system
from revseq_cli.core.dtypes import dtype_of, is_big_endian
from revseq_cli.core.errors import FormatError, about, can_be_typed, printable
from revseq_cli.formats import textfiles
from revseq_cli.formats.contract import Source, Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.npy import NpySource
from revseq_cli.formats.textfiles import choose_type
from revseq_cli.text import dxdispatch

if TYPE_CHECKING:
    from revseq_cli.formats.documents import Text, TextTypes


_MEMBERS = "names inside the archive, without a leading /, .. or a drive"


@dataclass(frozen=True)
class ModelText:
    """The text of a model, and the parsed model, which is one job; its files may be in an `archive` with it."""

    text: Text
    model: dxdispatch.Model
    archive: str = ""

    @classmethod
    def read(cls, text: Text, archive: str = "") -> ModelText:
        """Parse the text; FormatError or UsageError if it is not one job of this operator."""
        with about(text.name):
            return cls(text, dxdispatch.parse(text.text), archive)

    @classmethod
    def unpacked(cls, path: str) -> ModelText | None:
        """The model in a zip archive, as `export` writes it; None for an archive of something else."""
        from revseq_cli.formats import npz  # most models are in no archive

        found = npz.text_member(path, ".json", textfiles.LARGEST)
        if not found:
            return None
        name, data, identity = found
        if not _is_inside(name):
            raise FormatError(f"has the member {name[:80]!r}", _MEMBERS, where=path)
        text = textfiles.text_of(data, f"{path}::{name}", identity)
        return cls.read(text, path) if dxdispatch.is_model(text.text) else None

    @property
    def roles(self) -> tuple[str, ...]:
        """The operator's names of the tensors in the model, such as InputTensor."""
        return tuple(self.model.tensors)

    def tensor(self, role: str, types: TextTypes) -> Source:
        """InputTensor or SequenceLengthsTensor; FormatError if its file disagrees with the operator's desc."""
        tensor, name = self.model.tensors[role], f"{self.text.name}: {role}"
        data_type = choose_type(tensor.desc.data_type, types, name)
        with about(name):
            if tensor.path is None:
                storage = Storage("model", {"resource": tensor.resource})
                return MemorySource(name, tensor.values(dtype_of(data_type)), storage, self.text.identity)
            source = self._opened(tensor.path)
        source.described = self.text.identity
        if source.desc != tensor.desc:
            wanted = f"{tensor.desc}, as {printable(name)} says"
            raise FormatError(f"holds {source.desc}", wanted, "export the model again", source.name)
        return source

    def axis(self) -> int:
        """The axis in the operator's desc."""
        return self.model.axis

    def _opened(self, name: str) -> Source:
        if self.archive:
            from revseq_cli.formats import npz  # most models are in no archive

            if not _is_inside(name):
                raise FormatError(f"sourcePath is {name[:80]!r}", _MEMBERS)
            return npz.open_member(self.archive, name)
        return NpySource(self._beside(name))

    def _beside(self, name: str) -> str:
        if self.text.identity is None:
            raise FormatError("its values are in a file, and the model came through a pipe", "a model in a file")
        folder = Path(self.text.name).parent
        if (path := beside(folder, name)) is None:
            raise FormatError(
                f"sourcePath is {name[:80]!r}", "the plain name of a .npy file in the model's folder",
                "copy the file there; a model may not refer to other files",
            )  # fmt: skip
        return path


def _is_inside(name: str) -> bool:
    """Whether the name of a member of an archive is one in the archive, as every program takes it."""
    parts = name.replace("\\", "/").split("/")
    return bool(parts[0]) and ":" not in name and ".." not in parts


def beside(folder: Path, name: str) -> str | None:
    """The path of a .npy file in that folder; None for a name with a path in it, or a link to another folder."""
    if set(name) & set("/\\:") or not name.lower().endswith(".npy") or not can_be_typed(name):
        return None
    path = system.real_path(str(folder / name))
    return str(folder / name) if os.path.dirname(path) == system.real_path(str(folder)) else None  # noqa: PTH120


def is_plain(source: Source, folder: Path) -> bool:
    """Whether DxDispatch can read the tensor from its own file: a .npy in that folder, in C order, little-endian."""
    if not isinstance(source, NpySource) or source.order != "C" or is_big_endian(source.dtype):
        return False
    path = beside(folder, Path(source.path).name)
    return path is not None and system.real_path(path) == system.real_path(source.path)
