"""New HDF5 files: a copy of the input's with the dataset replaced or added, or the dataset alone.

Alone, it has what the neutral form says of it, with the scales of its dimensions as NetCDF's library makes them.
Workers encode chunks, which the parent stores; contiguous elements they write where they belong.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
import time
from collections.abc import Iterator
from math import prod
from typing import Any, cast

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, listed, printable, shortened
from revseq_cli.core.tensors import Region, chunk_boxes
from revseq_cli.files import base, local
from revseq_cli.files.copies import fill_from
from revseq_cli.files.new import NewFile
from revseq_cli.formats.attributes import NOTHING, Attributes, fill_of, typed
from revseq_cli.formats.contents import taken
from revseq_cli.formats.contract import BlockWriter, FileSink, Source, WriteResult
from revseq_cli.formats.hdf5 import files, storage
from revseq_cli.formats.hdf5.files import RAISED, alone, dataset_at, opened
from revseq_cli.formats.hdf5.source import Hdf5Source
from revseq_cli.formats.hdf5.storage import Chunk, ChunkBlockWriter, take_filters
from revseq_cli.formats.raw import Handing, RawSink
from revseq_cli.formats.table import is_netcdf

# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")
_ALIGNED = {"alignment_threshold": 1 << 12, "alignment_interval": 1 << 12}
_NO_COMPRESSION = {"", "bytes", "transpose", "crc32c"}  # codecs of Zarr
_LONGEST_COMMAND = 1000  # characters of a command; tensors may be typed as text
_MOST_HISTORY = (
    60_000  # bytes; older versions of the file format have no room for an attribute of 64 KiB
)


def create(file: NewFile, template: Source, key: str, *, only: bool) -> FileSink:
    """A new file for a tensor like `template` under the path `key`."""
    name = "/" + "/".join(files.parts_of(key, file.name))
    output: _Copy | _Alone
    if isinstance(template, Hdf5Source) and not only:
        output = _Copy(name, template, file.name)
    else:
        output = _Alone(name, template, file.name)
    return ContiguousSink(file, output) if output.is_raw else Hdf5Sink(file, output)


# What stands in the new file, which is made before the values are written


class _Copy:
    """A copy of the input's file, whose dataset gets other values, or whose copy gets another name beside it.

    All else stays as it is, byte by byte, but a NetCDF history.
    """

    options: dict[str, Any] = {"mode": "r+"}  # noqa: RUF012 - nobody changes it

    def __init__(self, name: str, template: Hdf5Source, where: str) -> None:
        self.name, self.template, self.where = name, template, where
        self.adds = name not in (f"/{template.key}", template.place)
        self.is_raw = template.raw is not None
        self.properties = template.properties.copy()
        take_filters(self.properties, template.properties)
        if self.adds:
            self.properties.set_obj_track_times(False)  # so that the same job gives the same bytes
            _allocate_early(self.properties)
            with opened(template.path, template.name) as file:
                self._refuse_place(file)

    def _refuse_place(self, file: h5py.File) -> None:
        """UsageError for a name that is taken, and one from which NetCDF would not find the dimensions."""
        old = dataset_at(file, self.template.place, self.template.name)
        where, parent = f"{self.where}::{self.name}", self.name.rpartition("/")[0]
        for place, item in files.entries(h5py.h5g.open(file.id, b"/")):
            is_above = f"{self.name}/".startswith(f"{place}/")
            if place == self.name or (is_above and not isinstance(item, h5py.h5g.GroupID)):
                raise taken(place, self.template.path)
        if parent and "_nc3_strict" in file.attrs:
            found = "NetCDF's classic model, which this file follows, has no groups"
            raise UsageError(found, "a name without /", where=where)
        for d in range(old.ndim):
            for scale in files.scales_of(old, d)[:1]:
                home = str(scale.name).rpartition("/")[0]
                if not f"{parent}/".startswith(f"{home}/") and files.is_netcdf(old):
                    found = f"a dimension of {home} would not be visible from {self.name}"
                    raise UsageError(found, f"a name in {home}", where=where)

    def dataset(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset in the copy, without its new values, and notes."""
        old, notes = dataset_at(file, self.template.place, self.where), list[str]()
        made = self._added(file, old, notes) if self.adds else old
        if files.is_netcdf(old):
            notes += _add_history(file)
        if self.properties.get_nfilters() and not self.adds:
            # One byte in place of each chunk. Then HDF5 joins the free space of neighbours, which new chunks of other
            # sizes fill: a copy of a file of 7 MB has 0.3 % of dead space, instead of 5 %. It also drops the old filter
            # mask, which HDF5 keeps where a chunk replaces one of the same size, and with which nobody could read it.
            is_byte = prod(old.chunks) * old.id.get_type().get_size() == 1
            for box in chunk_boxes(tuple(slice(0, size) for size in old.shape), old.chunks):
                old.id.write_direct_chunk(tuple(part.start for part in box), bytes(1 + is_byte))
        return made, notes

    def _added(self, file: h5py.File, old: h5py.Dataset, notes: list[str]) -> h5py.Dataset:
        """A dataset like the old one, with its attributes and scales; HDF5's own copy has all values, too."""
        made = _made(file, self.name, old.id.get_type(), old.id.get_space(), self.properties)
        lost = []
        for attribute in old.attrs:
            if attribute not in files.OF_SCALES or (
                attribute == "CLASS" and not files.is_scale(old)
            ):
                try:
                    _copy_attribute(
                        old.id,
                        made.id,
                        attribute if isinstance(attribute, bytes) else attribute.encode(),
                    )
                except RAISED:  # of a type that h5py lacks
                    lost.append(str(attribute))
        notes += [f"not copied: {listed(lost)}"] if lost else []
        for d in range(old.ndim):
            for scale in files.scales_of(old, d):
                made.dims[d].attach_scale(scale)
        return made


class _Alone:
    """A file of the dataset alone, with what the neutral form says of it."""

    def __init__(self, name: str, template: Source, where: str) -> None:
        self.name, self.template, self.meaning, sizes = (
            name,
            template,
            template.meaning() or NOTHING,
            template.sizes,
        )
        self.is_netcdf = is_netcdf(where)
        # NetCDF's library opens a file for writing only if all groups remember the order of their links.
        tracks = True if self.is_netcdf or self.meaning.dimensions else None
        self.options = {"mode": "w", "libver": _VERSIONS, "track_order": tracks}
        like = template if isinstance(template, Hdf5Source) else None
        names = self.meaning.dimensions or [""] * len(sizes)
        growing = (
            None if name in self.meaning.unlimited else size
            for name, size in zip(names, sizes, strict=True)
        )
        self.limits = like.limits if like else tuple(growing)
        chunks = template.chunks
        if not chunks and None in self.limits:
            with h5py.File(io.BytesIO(), "w") as scratch:
                chunks = scratch.create_dataset("x", sizes, template.dtype, chunks=True).chunks
        self.properties = h5p.create(h5p.DATASET_CREATE)
        self.properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        self.properties.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
        if chunks:  # a chunk may be larger than what cannot grow
            fits = zip(chunks, sizes, self.limits, strict=True)
            self.properties.set_chunk(
                tuple(c if most is None else min(c, max(1, s, most)) for c, s, most in fits)
            )
        if like:
            take_filters(self.properties, like.properties, but=h5py.h5z.FILTER_NBIT)
        elif chunks and {*template.storage.details.get("codecs", "").split(", ")} - _NO_COMPRESSION:
            self.properties.set_shuffle()
            self.properties.set_deflate(4)
        fill = fill_of(self.meaning.attributes, template.dtype)
        has_own = like and like.properties.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        if fill is None and like and has_own and template.dtype.kind in "iufc":
            with contextlib.suppress(
                *RAISED
            ):  # one of a type that HDF5 does not convert, such as a bitfield
                fill = np.zeros((), template.dtype)
                like.properties.get_fill_value(fill)
        if fill is not None:
            self.properties.set_fill_value(np.array(fill, template.dtype))
        _allocate_early(self.properties)
        self.is_raw = self.properties.get_layout() == h5d.CONTIGUOUS and prod(sizes) > 0

    def dataset(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset, with its attributes, those of its groups, and the scales of its dimensions; and notes."""
        said, sizes, dims = self.meaning, dict[str, int](), list[str]()
        above, _, name = self.name.rpartition("/")
        for dimension, size in zip(said.dimensions, self.template.sizes, strict=False):
            is_name = (
                dimension.isprintable()
                and "/" not in dimension
                and dimension not in ("", ".", "..")
            )
            is_one = (
                is_name and sizes.setdefault(dimension, size) == size
            )  # a dimension has one size
            dims.append(dimension if is_one else "")
        is_coordinate = dims[:1] == [name] and all(dims)
        if name in dims and not is_coordinate:
            if self.is_netcdf:
                name = files.NOT_COORDINATE + name
            else:  # where only h5netcdf would understand such a name
                dims = ["" if dimension == name else dimension for dimension in dims]
        if self.is_netcdf and any(
            dims
        ):  # NetCDF's library opens no file where only some of a variable's have scales
            free = (f"dim_{i}" for i in itertools.count() if f"dim_{i}" not in (*dims, name))
            dims = [dimension or next(free) for dimension in dims]
        limits = tuple(h5s.UNLIMITED if size is None else size for size in self.limits)
        kind, space = (
            storage.kind_of(self.template.dtype),
            h5s.create_simple(self.template.sizes, limits),
        )
        made = _made(file, f"{above}/{name}", kind, space, self.properties)
        _write_attributes(made, said.attributes, self.template.dtype)
        _write_attributes(file, said.groups[0] if said.groups else {})
        for home, attributes in zip(files.groups_of(made)[:-1], said.groups[:0:-1], strict=False):
            _write_attributes(home, attributes)
        self._attach_scales(made, dims, is_coordinate=is_coordinate)
        return made, [
            *said.left_behind(can_grow=True),
            *(_add_history(file) if self.is_netcdf else []),
        ]

    def _attach_scales(self, made: h5py.Dataset, dims: list[str], *, is_coordinate: bool) -> None:
        """Give each dimension of a dataset its scale: its coordinate, or one without values; others a label."""
        scales = dict[str, h5py.Dataset]()
        if is_coordinate:
            made.make_scale(dims[0])
            scales[dims[0]] = made
        coordinates = {coordinate.name: coordinate for coordinate in self.meaning.coordinates}
        for d, name in enumerate(dims):
            if not name or name in scales:
                continue
            more: dict[str, Any] = {"track_order": True} | (
                {"maxshape": (None,)} if self.limits[d] is None else {}
            )
            if coordinate := coordinates.get(name):
                values, attributes = _of_netcdf(coordinate.values), coordinate.attributes
                if values.dtype == object:
                    more["dtype"] = h5py.string_dtype()
                fill = fill_of(attributes, values.dtype)
                scales[name] = made.parent.create_dataset(name, data=values, fillvalue=fill, **more)
                _write_attributes(scales[name], attributes, values.dtype)
                scales[name].make_scale(name)
            else:  # as NetCDF's library makes it
                scales[name] = made.parent.create_dataset(name, (made.shape[d],), ">f4", **more)
                scales[name].make_scale(f"{files.BARE}{made.shape[d]:10d}")
        for number, scale in enumerate(scales.values()):
            scale.attrs.create(files.OWN_ID, np.int32(number))
        if is_coordinate:  # a scale has no scales
            if len(dims) > 1:
                made.attrs.create(
                    files.IDS, np.array([[*scales].index(name) for name in dims], np.int32)
                )
            return
        for d, name in enumerate(self.meaning.dimensions):
            if dims[d]:
                made.dims[d].attach_scale(scales[dims[d]])
            if name and name != dims[d] and name.isprintable():
                made.dims[d].label = name


def _allocate_early(properties: h5p.PropDCID) -> None:
    """Let contiguous elements have their place at once; workers write every one of them."""
    if properties.get_layout() == h5d.CONTIGUOUS:
        properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5d.FILL_TIME_NEVER)


def _made(
    file: h5py.File, path: str, kind: h5t.TypeID, space: h5s.SpaceID, properties: h5p.PropDCID
) -> h5py.Dataset:
    """A new dataset, made with the groups above it where they are not there."""
    group = file["/"]
    tracks = group.id.get_create_plist().get_link_creation_order() != 0 or None
    *parents, name = path.strip("/").split("/")
    for part in parents:
        group = group[part] if part in group else group.create_group(part, track_order=tracks)
    group[name] = made = h5py.Dataset(
        h5d.create(group.id, None, kind, space, properties)
    )  # a name in UTF-8
    return made


def _copy_attribute(old: h5d.DatasetID, new: h5d.DatasetID, name: bytes) -> None:
    """Give a dataset an attribute that another one of its file has, of the same type, which may have a name there."""
    attribute = h5py.h5a.open(old, name)
    kind, dtype = attribute.get_type(), attribute.dtype
    made = h5py.h5a.create(new, name, kind, attribute.get_space())
    if attribute.shape is None:
        return
    if dtype.hasobject:
        values = np.empty(attribute.shape, dtype)
        attribute.read(values)
        made.write(values)
    else:  # the bytes as they are
        values = np.empty(attribute.shape, f"V{kind.get_size()}")
        attribute.read(values, mtype=kind)
        made.write(values, mtype=kind)


def _write_attributes(
    item: h5py.HLObject, attributes: Attributes, dtype: np.dtype[Any] | None = None
) -> None:
    """Write attributes, of a tensor of that dtype, as NetCDF does: texts of their length, and numbers in arrays."""
    for name, value in (attributes if dtype is None else typed(attributes, dtype)).items():
        if isinstance(value, list):
            item.attrs.create(name, np.array(value, object), dtype=h5py.string_dtype())
        elif isinstance(value, str):
            data = value.encode()
            length = len(data) if data and b"\0" not in data else None
            item.attrs.create(
                name, data, dtype=h5py.string_dtype("ascii" if value.isascii() else "utf-8", length)
            )
        else:
            array = _of_netcdf(np.atleast_1d(value))
            item.attrs.create(name, array.astype("i1") if array.dtype.kind == "b" else array)


def _of_netcdf(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """FLOAT16 as FLOAT32, since NetCDF's library crashes on the former; other values unchanged."""
    return values.astype(np.float32) if values.dtype.newbyteorder("=") == np.float16 else values


def _add_history(file: h5py.File) -> list[str]:
    """Put a line before those of the global attribute `history`, as NCO does; a note where it is no text, or full."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = time.gmtime(int(epoch)) if epoch else time.localtime()
    except (ValueError, OverflowError, OSError):
        wanted = "seconds since 1970-01-01 UTC, such as 1700000000"
        raise UsageError(f"SOURCE_DATE_EPOCH is {str(epoch)[:40]!r}", wanted) from None
    command = printable(" ".join(map(platform.quoted, ["revseq", *sys.argv[1:]])))
    line, old = (
        f"{time.asctime(moment)}: {shortened(command, _LONGEST_COMMAND)}",
        files.attribute(file, "history"),
    )
    text = f"{line}\n{old}" if old else line
    if ("history" in file.attrs and not isinstance(old, str)) or len(text.encode()) > _MOST_HISTORY:
        return ["the attribute history is full, or is not a single text, so no line is added"]
    _write_attributes(file, {"history": text})
    return []


# Its values


class Recorder(io.FileIO):
    """A file that keeps the first error of a write in `error`, and reports success to HDF5.

    HDF5 does not survive a failed write: it reports it late, and may crash when the process ends. `worded` raises the
    error instead.
    """

    error: OSError | None = None

    def __init__(self, file: NewFile) -> None:
        self._file_name = file.name
        try:
            super().__init__(
                file.temporary,
                "r+",
                opener=lambda path, _: platform.open_file(path, platform.UPDATE),
            )
        except OSError as e:
            raise base.failed(file.name, "write", e) from None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view) and not self.error:
            try:
                done += super().write(view[done:])
            except OSError as e:
                self.error = e
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as e:
            self.error = self.error or e
            return size or 0

    @contextlib.contextmanager
    def worded(self) -> Iterator[None]:
        """Turn what h5py raises into a RevseqError, and raise the error that was kept."""
        try:
            yield
        except RevseqError:
            raise
        except (OSError, RuntimeError, ValueError) as e:
            if not self.error:
                raise files.worded_error(e, self._file_name, self._file_name, "write") from e
        if self.error:
            raise base.failed(self._file_name, "write", self.error) from None


class _DatasetSink(FileSink):
    """A new HDF5 file with a dataset."""

    _recorder: Recorder | None = None
    _file: h5py.File | None = None

    def __init__(self, file: NewFile, output: _Copy | _Alone) -> None:
        super().__init__(file)
        self._output, self._template = output, output.template

    def _begin(self, **options: int) -> h5py.Dataset:
        """Create the file with the dataset, whose values are still to be written."""
        if isinstance(self._output, _Copy):
            old = self._output.template
            fill_from(self.file, old.path, old.identity, [(0, old.identity.size, 0)])
        self._recorder = Recorder(self.file)
        with self._recorder.worded():
            self._file = h5py.File(self._recorder, **self._output.options, **options)
            dataset, notes = self._output.dataset(self._file)
            self.notes += tuple(notes)
        return dataset

    def _close(self) -> None:
        if self._recorder:
            with self._recorder.worded():
                if self._file:
                    self._file.close()
                self._recorder.close()

    def abandon(self) -> None:
        with contextlib.suppress(RevseqError):  # the file is removed afterwards
            self._close()

    def reopen(self) -> Source:
        return Hdf5Source(
            self.file.temporary, self._output.name, self.file.name, self._template.desc.data_type
        )


class Hdf5Sink(_DatasetSink):
    """A new HDF5 file with a dataset that HDF5 stores; it has one writer, which is the parent.

    Workers encode chunks that have filters; all other blocks go to the parent as they are. HDF5 gives chunks their
    places in the order in which they are written, which is that of the blocks.
    """

    in_workers = False
    in_order = True
    _writer: BlockWriter = Handing()

    def __init__(self, file: NewFile, output: _Copy | _Alone) -> None:
        super().__init__(file, output)
        if output.properties.get_layout() == h5d.CHUNKED:
            self.chunks = output.properties.get_chunk()
        self.encoded = output.properties.get_nfilters() > 0

    def start(self) -> None:
        self._dataset = self._begin()
        if self.encoded:
            name, dtype = self.file.name, self._template.dtype
            self._writer = ChunkBlockWriter.like(
                self._dataset, self._output.properties, dtype, name
            )
        elif self.chunks:  # whose size is known, so that a full disk is told before the work
            counts = (
                -(-size // chunk)
                for size, chunk in zip(self._template.sizes, self.chunks, strict=True)
            )
            whole = prod(counts) * prod(self.chunks) * self._template.dtype.itemsize
            missing = max(0, whole - self._dataset.id.get_storage_size())
            with local.open_to_write(self.file.temporary, self.file.name) as fd:
                fd.allocate(self._dataset.file.id.get_filesize() + missing)

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - every region has the same one
        return self._writer

    def receive(self, write_result: object) -> None:
        with alone, cast("Recorder", self._recorder).worded():
            if self.encoded:
                for chunk in cast("list[Chunk]", write_result):
                    self._dataset.id.write_direct_chunk(*chunk)
            else:
                region, values = cast("WriteResult", write_result)
                # Pickled, values may come in another byte order.
                storage.write(self._dataset, region, np.asarray(values, self._template.dtype))

    def finish(self) -> None:
        self._close()


class ContiguousSink(_DatasetSink, RawSink):
    """A new HDF5 file with a contiguous dataset, whose elements the workers write themselves at their offset.

    Through HDF5 in the parent, 256 MiB took 1.3 times as long in one process, and 1.4 times with two.
    """

    def start(self) -> None:
        offset = self._begin(**_ALIGNED).id.get_offset()
        self._close()
        self.place(self._template, at=offset, dtype=self._template.dtype)
        super().start()
