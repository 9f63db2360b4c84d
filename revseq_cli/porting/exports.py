"""Jobs as models of DxDispatch: the files that a model needs, in one folder or archive.

Facts about DxDispatch are from its source, DxDispatch/ in Microsoft's repository DirectML. A model names its .npy files
beside itself (src/model/JsonParsers.cpp). They are in C order and little-endian, since it refuses Fortran order and
swaps the bytes of other elements wrongly (src/model/NpyReaderWriter.cpp).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.errors import HALVES, FormatError, UsageError, listed
from revseq_cli.formats import registry
from revseq_cli.formats.archives import MemberSink, NewArchive
from revseq_cli.formats.atomic_file import FileTransaction
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.models import beside, is_plain
from revseq_cli.formats.references import Reference
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.pipeline import summaries
from revseq_cli.pipeline.arrangement import Resources, arrange_copy
from revseq_cli.pipeline.tasks import copy
from revseq_cli.text import dxdispatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import FileSink, Source
    from revseq_cli.pipeline.assembly import Job

# Elements of a tensor whose values the model holds, if the user does not choose, and of a result that it prints.
_SMALL = 1000
_NOT_ON_WINDOWS = '<>:"/\\|?*'


class Traveller(NamedTuple):
    """A file that must be where the model runs; `written` says whether the export wrote it."""

    path: str
    bytes: int
    written: bool


@dataclass(frozen=True)
class Exported:
    """A job that is written as a model: `files` must travel, and the first one is the model, or an archive with it.

    `members` are the names in the archive; without one, there are none. `model` and `target` are the paths of the model
    and of the result that it writes, where both will lie to be compared.
    """

    job: Job
    files: Sequence[Traveller]
    members: Sequence[str]
    model: Path
    target: Path
    notes: Sequence[str]


class _Folder:
    """Where the files of a model are written: its own folder; `file` has the model."""

    def __init__(self, model: Path, job: Job, *, overwrite: bool) -> None:
        self.model, self._inputs, self._overwrite = model, job.files, overwrite
        self.file = registry.new_file(str(model), overwrite=overwrite, inputs=job.files)

    def place(self, name: str, source: Source) -> tuple[str, FileSink | None]:
        """The name and the sink of a tensor's .npy file; its own name and no sink for a plain one beside the model."""
        own = Path(source.path).name
        if is_plain(source, self.model.parent) and not _is_odd(own):
            return own, None
        reference = Reference(str(self.model.with_name(name)))
        return name, registry.create_sink(reference, _plain(source), overwrite=self._overwrite, inputs=self._inputs)

    def finish(self, text: bytes) -> None:
        """Write the model."""
        self.file.write(text)


class _Archive(_Folder):
    """One zip archive, to be unpacked into a folder of its own; `model` is the name of its last member."""

    def __init__(self, model: Path, job: Job, *, overwrite: bool) -> None:
        self.model = Path(model.name)
        self.file = registry.new_file(str(model.with_suffix(".zip")), overwrite=overwrite, inputs=job.files)
        self._new = NewArchive(self.file)

    def place(self, name: str, source: Source) -> tuple[str, FileSink | None]:
        """A member of that name."""
        return name, MemberSink(self._new, self._new.place(name, _plain(source)))

    def finish(self, text: bytes) -> None:
        """Add the model as the last member."""
        self._new.finish({self.model.name: text})


class _Place(NamedTuple):
    """Where the values of a tensor are: `content` has them, or the name of a file; `sink` writes a new file."""

    source: Source
    content: NDArray[Any] | str
    sink: FileSink | None = None


def write(job: Job, model: Path, inline: bool | None, *, zipped: bool, overwrite: bool) -> Exported:
    """Write the model of a job, and what it needs; with `zipped`, into an archive that has its name but for the suffix.

    Values are in the model itself with `inline`, in .npy files if it is False, and those of small tensors in the model
    if it is None. Nothing is written after an error.
    """
    target = _name(model, OUTPUT)
    if _is_odd(target):
        wanted = f"a name without {' '.join(_NOT_ON_WINDOWS)}, which Windows does not allow in a file name"
        hint = "add -o model.json"
        raise UsageError(f"the model would name {target[:80]!r}", wanted, hint, str(model))
    store = (_Archive if zipped else _Folder)(model, job, overwrite=overwrite)
    places = dict(_places(job, store, inline))
    names = [place.content for place in places.values() if isinstance(place.content, str)]
    clamped = summaries.count_lengths(job, Resources()).clamped
    notes = [*job.notes, *job.clamping(clamped)]
    if not zipped:  # an archive has a folder of its own, and names that are made here
        notes += _notes_on_folder(model, names, target, job)
    if foreign := [name for name in (*names, target) if not name.isascii()]:
        reason = "it reads names in Windows' code page, and the model has UTF-8"
        notes.append(f"DxDispatch may not find {listed(foreign)}: {reason}")
    contents = {role: (place.source.desc, place.content) for role, place in places.items()}
    text = dxdispatch.model_text(contents, job.axis, target, printed=job.values.desc.element_count <= _SMALL)
    sinks = [place.sink for place in places.values() if place.sink]
    files = list(dict.fromkeys([store.file, *(sink.file for sink in sinks)]))
    together = FileTransaction(*reversed(files))  # the model gets its name last, since it names the others
    with together:
        for source, _, sink in places.values():
            if sink:
                with sink:
                    copy(source, sink, arrange_copy(source, Resources(), sink))
        job.recheck()
        store.finish(text.encode())
        written = [Traveller(each.name, Path(each.temporary).stat().st_size, written=True) for each in files]
    own = dict.fromkeys(  # one file may hold both tensors
        Traveller(str(model.with_name(place.content)), place.source.identity.size, written=False)
        for place in places.values()
        if isinstance(place.content, str) and not place.sink and place.source.identity
    )
    members, result = [store.model.name, *names] if zipped else [], store.model.with_name(target)
    return Exported(job, [*written, *own], members, store.model, result, [*notes, *together.notes])


def _notes_on_folder(model: Path, names: Sequence[str], target: str, job: Job) -> list[str]:
    """Notes on the names of inputs and result; UsageError for those that do not go together in the model's folder."""
    for name in names:
        if beside(model.parent, name) is None:
            found = f"the model would name {name[:80]!r}, a link to another folder"
            raise UsageError(found, "a file of its own folder", "add --inline", str(model))
        if twin := next((n for n in (*names, target) if n != name and n.casefold() == name.casefold()), None):
            found = f"the model would name both {name[:80]} and {twin[:80]}, which are one file on Windows"
            hint = "rename one, or add --inline"
            raise UsageError(found, "names that differ in more than case", hint, str(model))
    path = model.with_name(target)
    if path.exists() and any(each.names(path.stat()) for each in job.files):
        raise UsageError("DxDispatch would write its result over it", "another name", "rename it", str(path))
    return [f"{path} exists already, and DxDispatch would replace it"] * os.path.lexists(path)


def _places(job: Job, store: _Folder, inline: bool | None) -> Iterator[tuple[str, _Place]]:
    """The places of InputTensor and SequenceLengthsTensor; new files are not created yet."""
    for role, source in ((INPUT, job.values), (LENGTHS, job.lengths)):
        if inline or (inline is None and source.desc.element_count <= _SMALL):
            values = source.read()
            if dxdispatch.fits_inline(values):
                yield role, _Place(source, values)
                continue
            if inline:
                found = "contains a NaN with unusual bits"
                wanted = "the usual NaN: DxDispatch has only one"
                raise FormatError(found, wanted, "add --files", source.name)
        yield role, _Place(source, *store.place(_name(store.model, role), source))


def _name(model: Path, role: str) -> str:
    return f"{model.stem}.{role}.npy"


def _plain(source: Source) -> Source:
    """A tensor in C order and little-endian, with the sizes and the data type of the source, and no values."""
    like = np.broadcast_to(np.zeros((), source.dtype.newbyteorder("<")), source.sizes)  # one element in memory
    return MemorySource(source.name, like, source.storage)


def _is_odd(name: str) -> bool:
    """Whether no file on Windows can have that name, or no model can have it in its text."""
    return any(c in _NOT_ON_WINDOWS or c < " " for c in name) or bool(HALVES.search(name))
