"""Zarr arrays as inputs: `store.zarr::array/path`, or the only array of the store.

The package zarr decodes chunks: strict, so that only an absent chunk is read as fill value, and in the calling thread.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import functools
import os
import struct
import warnings
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.api import asynchronous
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import FsspecStore, LocalStore

from revseq_cli.core import platform
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import MEMORY_ENDED, FormatError, RevseqError
from revseq_cli.core.tensors import chunk_boxes, chunk_start, inside
from revseq_cli.formats import file_io, remote
from revseq_cli.formats.attributes import FILL, MISSING, MOST_BYTES, VALID, Meaning, Variable, as_texts, is_small, plain
from revseq_cli.formats.contents import chosen, refuse_bomb
from revseq_cli.formats.contract import ReadTask, Source, Storage
from revseq_cli.formats.file_io import Identity  # noqa: TC001 - of a NamedTuple
from revseq_cli.formats.table import looks_like
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.metadata import Metadata, Version, node_at

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType, Region
    from revseq_cli.formats.attributes import Attributes

_Result = TypeVar("_Result")
_TEXT_BYTES = 1 << 6  # of a text without a fixed length, as far as a header says
# What is wanted where zarr cannot do this with an array.
_WANTED = {"open": "metadata that the package zarr reads", "read": "a whole store", "write": ""}


class ZarrSource(Source):
    """An array of a Zarr store.

    `name` is what to call the store, where that is not its path; `asked` is the data type of elements that are stored
    as bytes without one. A store `at` an address has the files of metadata in the folder `path`, too.
    """

    encoded = True

    def __init__(self, path: str, key: str | None, name: str = "", asked: DataType | None = None, at: str = "") -> None:
        name = name or path
        if platform.is_remote(path):
            at, path = path, metadata.mirror(path)
        if not Path(path).is_dir():
            with file_io.opened(path) as fd:
                seems, hint = looks_like(file_io.read_some(fd, 64, 0, path))
            raise FormatError(f"is not a Zarr store: it looks like {seems}", "a folder", hint, name)
        metadata.refuse_streams(path)
        key = key and key.strip("/")
        node = None if key is None else node_at(path, key)
        if not node or not node.is_array:  # a store may have very many arrays
            key = chosen(metadata.arrays_in(path), key, name)
            node = node_at(path, key)
        if key is None or node is None:
            raise metadata.changed(name)
        self.key, self.node, self.name = key, node, f"{name}::{key}" if key else name
        self.store, self.folder, self.at = path, str(Path(path, key)), at
        array = self.metadata = metadata.read(node, self.name, asked)
        self.dtype, self.sizes, self.chunks, self.dimensions = array.dtype, array.sizes, array.chunks, array.dimensions
        self.path = str(Path(self.folder, metadata.ARRAY_FILES[array.version][0]))
        details = {"version": str(array.version), "array": f"/{key}", **array.details}
        files = self._files()
        self._digest, self.stored = files.digest, files.stored  # bytes of the array's own files
        if not remote.is_web(at):  # whose server lists no files
            declared = max(prod(self.sizes), prod(self.chunks)) * self.dtype.itemsize
            refuse_bomb(declared, self.stored, "write it again uncompressed", self.name)
            total = prod(-(-size // shard) for size, shard in zip(self.sizes, array.shards, strict=True))
            if absent := total - _count_chunks(array, files.names, self.name):
                noun = "shards" if array.shards != array.chunks else "chunks"  # read as fill value, lost or not
                details["missing"] = f"{absent:,} of {total:,} {noun}"
        self.array = Stored.of(self.folder, array.version, f"{at}/{key}".rstrip("/") if at else "")
        self.identity = self.array.unchanged
        with errors_worded(self.name, "open"):
            self.array.opened("r")
        self.storage = Storage("zarr", details)

    def recheck(self) -> None:
        """TensorIOError if any file of the array is not as it was."""
        if self._files().digest != self._digest:
            raise metadata.changed(self.name)

    def _files(self) -> metadata.Files:
        return metadata.files_in(self.folder, self.name, f"{self.at}/{self.key}" if self.at else "")

    def can_copy_to(self, path: str) -> bool:  # noqa: ARG002 - the name says nothing
        """Whether all of its store is known: a web server lists no files."""
        return not remote.is_web(self.at)

    @property
    def least_bytes(self) -> int:
        """A chunk, what is read of it, and what its codecs hold: gzip's the stored bytes twice, and decoded parts."""
        codecs = {*self.metadata.codecs} - {"bytes"}  # which only says the byte order
        copies = 6 if "gzip" in codecs else 1 + 2 * bool(codecs)
        return copies * prod(self.metadata.chunks) * self.dtype.itemsize

    def read_task(self, region: Region) -> ReadTask:
        """A read task that decodes the chunks of the region."""
        return _ZarrReadTask(self.array, self.name, self.metadata, region)

    def meaning(self) -> Meaning:
        """What the store says of the array, as xarray has it in versions 2 and 3."""
        attributes, left = _neutral(self.node)
        coordinates, groups = list[Variable](), list[dict[str, Any]]()
        parts = self.key.split("/")[:-1]
        for name, size in zip(self.dimensions, self.sizes, strict=False):
            key = "/".join([*parts, name])
            if not name or "/" in name or not self.key or key == self.key:
                continue
            try:
                node = node_at(self.store, key)
                if not node or not node.is_array:
                    continue
                coordinate = self._coordinate(key, node, size)
            except RevseqError as e:
                left.append(f"the variable {name} ({e.found})")
                continue
            if coordinate:
                coordinates.append(coordinate)
            else:
                left.append(f"the variable {name}")
        for i in range(len(parts) + 1 if self.key else 0):
            group = node_at(self.store, "/".join(parts[:i]))
            groups.append(_neutral(group)[0] if group else {})
            groups[-1].pop("coordinates", None)
        return Meaning(self.dimensions, attributes, tuple(coordinates), tuple(groups), left=tuple(left))

    def _coordinate(self, key: str, node: metadata.Node, size: int) -> Variable | None:
        """The coordinate of a dimension of that name and size; None for what is none, or is large."""
        folder, name, at = str(Path(self.store, key)), key.rpartition("/")[2], f"{self.at}/{key}" if self.at else ""
        array = metadata.read(node, name, texts=True)
        stored, itemsize = metadata.files_in(folder, name, at).stored, array.dtype.itemsize
        itemsize = _TEXT_BYTES if array.dtype.kind == "O" else itemsize
        is_one = array.dimensions == (name,) and array.sizes == (size,)
        if not is_one or stored > MOST_BYTES or not is_small(array.sizes, itemsize, array.shards):
            return None
        if array.dtype.kind in "USO":
            with errors_worded(folder, "read"):
                values = as_texts(Stored.of(folder, array.version, at).read((...,)))
        else:
            values = ZarrSource(self.store, key, at=self.at).read()
        return Variable(name, (name,), _neutral(node)[0], values)


def _count_chunks(array: Metadata, names: list[str], where: str) -> int:
    """The number of files that are chunks or shards; FormatError where they have the names of another separator."""
    other = "." if array.separator == "/" else "/"
    are_several = array.sizes and len(array.sizes) + bool(array.key_start) > 1
    if wrong := next(filter(array.is_chunk(other), names), "") if are_several else "":
        found = f"has the chunk file {wrong}, and by its metadata {array.separator} stands between the numbers"
        field = "dimension_separator" if array.version == 2 else "separator"
        raise FormatError(found, f'"{field}": "{other}" in its metadata, or files of other names', where=where)
    return sum(map(array.is_chunk(array.separator), names))


def _neutral(node: metadata.Node) -> tuple[Attributes, list[str]]:
    """The attributes of an array or a group, and the names of those that have no place in the neutral form.

    In version 2, xarray's fill value is that of the array, where a 0 is nobody's choice; in version 3 one of floats is
    eight bytes, in base 64.
    """
    values = {name: plain(value) for name, value in node.attributes.items() if name != metadata.DIMENSIONS}
    attributes = {name: value for name, value in values.items() if value is not None}
    fill = node.fields.get("fill_value") if node.version == 2 else None
    if fill and metadata.DIMENSIONS in node.attributes and FILL not in attributes:
        attributes[FILL] = plain(fill)
    for name in {*MISSING, *VALID} & attributes.keys():
        if isinstance(text := attributes[name], str):
            with contextlib.suppress(ValueError, struct.error):
                attributes[name] = plain(struct.unpack("<d", base64.b64decode(text))[0])
            with contextlib.suppress(ValueError):
                attributes[name] = plain(float(text))
    return attributes, [name for name, value in values.items() if value is None]


@dataclass(frozen=True)
class _ZarrReadTask:
    """One region of an array, whose metadata must be as they were."""

    array: Stored
    name: str
    metadata: Metadata
    region: Region

    def read(self) -> NDArray[Any]:
        chunks = self.metadata.chunks
        ends = zip(self.region, chunks, strict=True)
        touched = prod((-(-part.stop // chunk) - part.start // chunk) * chunk for part, chunk in ends)
        size = prod(part.stop - part.start for part in self.region)
        with self.array.required():
            try:
                if touched <= max(2 * size, prod(chunks)):
                    return self._values(self.region)
                # Of several chunks with far more elements, zarr would hold all at once.
                values = np.empty([part.stop - part.start for part in self.region], self.metadata.dtype)
                for box in chunk_boxes(self.region, chunks):
                    values[inside(box, self.region)] = self._values(box)
            except (FormatError, *MEMORY_ENDED):
                self._blame_chunk()
                raise
        return values

    def _values(self, region: Region) -> NDArray[Any]:
        with errors_worded(self.name, "read"):
            values, dtype = self.array.read(region), self.metadata.dtype
            return values.view(dtype) if is_nameless(values.dtype) else np.asarray(values, dtype)

    def _blame_chunk(self) -> None:
        """FormatError with the first chunk of the region that cannot be read."""
        for box in chunk_boxes(self.region, self.metadata.chunks):
            try:
                self._values(box)
            except (FormatError, *MEMORY_ENDED) as e:
                # The index of a damaged shard asks for any number of bytes.
                why = f": {e.found}" if isinstance(e, FormatError) else ", or takes more memory than there is"
                found = f"the chunk at {chunk_start(box, self.metadata.chunks)} is damaged{why}"
                raise FormatError(found, "the whole store", "fetch it again", self.name) from None


# The package zarr.


class Stored(NamedTuple):
    """Where an array is: in a folder whose file of metadata is as it was at `unchanged`, or `at` an address.

    Of the latter `files` has the metadata, which a worker elsewhere finds in no folder, and need not be stored yet.
    """

    folder: str
    version: Version
    unchanged: Identity
    at: str = ""
    files: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, folder: str, version: Version, at: str = "", name: str = "") -> Stored:
        """The array in a folder, or at an address and with its metadata in the folder; `name` is for messages."""
        paths = [Path(folder, each) for each in metadata.ARRAY_FILES[version]]
        with file_io.opened(str(paths[0]), name=name) as fd:
            unchanged = file_io.identity(fd)
        files = [(path.name, path.read_bytes()) for path in paths if path.exists()] if at else []
        return cls(folder, version, unchanged, at, tuple(files))

    def required(self) -> AbstractContextManager[object]:
        """A context, which begins with a TensorIOError where the folder's metadata have changed."""
        path = str(Path(self.folder, metadata.ARRAY_FILES[self.version][0]))
        return contextlib.nullcontext() if self.at else file_io.opened(path, self.unchanged)

    def opened(self, mode: Literal["r", "r+"]) -> Any:  # noqa: ANN401 - zarr's AsyncArray
        """The array of the package zarr, opened once in each process for each state of its metadata."""
        return _opened(self, mode, remote.thread() if self.at else None)

    def read(self, region: tuple[Any, ...]) -> NDArray[Any]:
        """The elements of a region."""
        return np.asarray(done(self.opened("r").getitem(region), self.at))

    def write(self, region: tuple[Any, ...], values: NDArray[Any]) -> None:
        """Write the elements of a region."""
        done(self.opened("r+").setitem(region, values), self.at)


@functools.lru_cache(maxsize=8)
def _opened(array: Stored, mode: Literal["r", "r+"], _: object) -> Any:  # noqa: ANN401 - zarr's AsyncArray
    """The array, which stores every chunk: to zarr, all NaNs are equal.

    Asked to do so for an array that exists, zarr's own function does not.
    """
    read_only = mode == "r"
    store: Any = _StoreAt(array.at, array.files, read_only=read_only) if array.at else None
    store = store or StrictStore(array.folder, read_only=read_only)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns about codecs that the specification does not have
        opened: Any = done(asynchronous.open_array(store=store, mode=mode, zarr_format=array.version), array.at)
        return zarr.AsyncArray(opened.metadata, opened.store_path, {"write_empty_chunks": True})


def done(work: Coroutine[Any, Any, _Result], at: str = "") -> _Result:
    """Run a coroutine to its end and return its result; its other tasks are cancelled if it fails.

    By itself zarr starts a thread for its event loop, and more for files and codecs. Where one cannot be started, or
    ends because memory is out, its caller waits forever. And a process with threads cannot be forked: two workers were
    ready after 0.05 s, and after 2.3 s where they had to load zarr again. This program's workers do blocks in parallel.

    What is `at` an address is done where its connections are. Of errors in a group, as tasks raise them, the first one
    is raised: it says what is wrong.
    """
    with contextlib.closing(work):
        try:
            if at:
                return remote.done(work)[0]
            with asyncio.Runner(loop_factory=remote.Loop) as runner:
                return runner.run(work)
        except ExceptionGroup as group:
            error: Exception = group
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            raise error from None


class StrictStore(LocalStore):
    """The files of an array's folder, in which there are no links; what is neither absent nor a whole file is an error.

    Zarr's own store takes other things for absent chunks: a folder in place of a file, a file in place of a folder, an
    empty shard, and a chunk that lies beyond the end of its shard.
    """

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401 - zarr's Buffer
        """The bytes of a file or a range of it; None where there is no file, FormatError for anything else."""
        data = None
        with self._folders_are_absent(key):
            data = await super().get(key, prototype, byte_range)
        return self._checked(data, key, byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401
        """The bytes as `get` has them, for those parts of zarr that do not wait for a coroutine."""
        data = None
        with self._folders_are_absent(key):
            data = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        return self._checked(data, key, byte_range)

    @contextlib.contextmanager
    def _folders_are_absent(self, key: str) -> Iterator[None]:
        """Take a folder for an absent file inside, as zarr does; Windows calls it one that may not be read."""
        try:
            yield
        except PermissionError:
            if not (self.root / key).is_dir():
                raise

    def _checked(self, data: Any, key: str, byte_range: Any) -> Any:  # noqa: ANN401 - zarr's
        if data is None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.lstat(self.root / key)
                raise FormatError(f"{key} is not a regular file")
            if any(os.path.lexists(above) and not above.is_dir() for above in (self.root / key).parents):
                raise FormatError(f"{key}: a file stands in place of one of its folders")
        return _whole(data, key, byte_range)


def _whole(data: Any, key: str, byte_range: Any) -> Any:  # noqa: ANN401 - zarr's
    """The data; FormatError where the file lacks bytes of the range."""
    wanted = 1
    match byte_range:
        case RangeByteRequest():
            wanted = max(1, byte_range.end - byte_range.start)
        case SuffixByteRequest():
            wanted = byte_range.suffix
    if data is not None and len(data) < wanted:
        raise FormatError(f"{key} is truncated: {len(data)} bytes where {wanted} are promised")
    return data


class _StoreAt(FsspecStore):
    """The chunks of an array at an address, with its files of metadata, which need not be there yet."""

    def __init__(self, at: str, files: Iterable[tuple[str, bytes]], *, read_only: bool) -> None:
        fs, path = remote.system(at)
        super().__init__(fs, read_only=read_only, path=path)
        self._at, self._files = at, dict(files)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401 - zarr's Buffer
        """The bytes of an object or a range of it; None where there is none."""
        prototype = prototype or default_buffer_prototype()
        if key.rpartition("/")[2] in metadata.FILES:
            return prototype.buffer.from_bytes(self._files[key]) if key in self._files else None
        call = functools.partial(super().get, key, prototype, byte_range)
        with remote.worded(f"{self._at}/{key}", "read"):
            return _whole(await remote.tried(self._at, call), key, byte_range)

    async def set(self, key: str, value: Any, byte_range: Any = None) -> None:  # noqa: ANN401 - zarr's Buffer
        """Put the bytes of an object."""
        with remote.worded(f"{self._at}/{key}", "write"):
            await remote.tried(self._at, functools.partial(super().set, key, value, byte_range))


@contextlib.contextmanager
def errors_worded(where: str, doing: str) -> Iterator[None]:
    """Turn any error of zarr and of its codecs into a RevseqError about `where`; `doing` is a key of `_WANTED`."""
    try:
        yield
    except (RevseqError, *MEMORY_ENDED):
        raise
    except Exception as e:  # noqa: BLE001 - codecs raise errors of any class
        # EINVAL comes from an offset in the index of a damaged shard.
        if isinstance(e, OSError) and e.errno not in (None, errno.EINVAL):
            raise file_io.failed(where, doing, e) from None
        found = f"zarr cannot {doing} it: {str(e)[:200] or type(e).__name__}"
        raise FormatError(found, _WANTED[doing], where=where) from None
