"""The formats of generated jobs: what makes a file of each, reads it back, and what it cannot hold.

`FORMATS` is the table. Files are made and read by the libraries that users have, never by the package.
"""

import bz2
import gzip
import json
import lzma
import math
import re
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import onnx
import zarr

# Data types, as NumPy has them; minifloats are their words.
NUMBERS = {
    "FLOAT64": "f8", "FLOAT32": "f4", "FLOAT16": "f2", "INT64": "i8", "INT32": "i4", "INT16": "i2", "INT8": "i1",
    "UINT64": "u8", "UINT32": "u4", "UINT16": "u2", "UINT8": "u1",
}  # fmt: skip
OTHERS = {"BOOL": "?", "COMPLEX64": "c8", "COMPLEX128": "c16"}
WORDS = {
    "BFLOAT16": "u2", "FLOAT8_E4M3FN": "u1", "FLOAT8_E5M2": "u1", "FLOAT8_E4M3FNUZ": "u1", "FLOAT8_E5M2FNUZ": "u1",
    "FLOAT8_E8M0FNU": "u1",
}  # fmt: skip
DTYPES = NUMBERS | OTHERS | WORDS
PACKINGS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@dataclass(frozen=True)
class Place:
    """How a tensor is stored: `format` is that of FORMATS, and `options` are its own, as pairs of name and value."""

    format: str
    options: tuple = ()

    def __getitem__(self, name):
        return dict(self.options).get(name)

    @property
    def key(self):
        """The name of the tensor in its file, "" where it has none."""
        if self.format == "zarr" and not (self["group"] or self["others"]):
            return ""
        return (
            "group/v"
            if self["group"]
            else "v"
            if FORMATS[self.format].beside or self.format == "pb"
            else ""
        )


def make(place, path, values, data_type):
    """Write a tensor; what the command line calls it."""
    path = path.with_name(f"{path.name}.{place.format}{place['packing'] or ''}")
    if FORMATS[place.format].is_text and values.dtype.kind == "f":
        values = values.astype(
            np.float64
        )  # whose decimals read back as the same float of fewer bits
    made = FORMATS[place.format].make(place, path, values, data_type)
    if made is not None:
        path.write_bytes(PACKINGS[place["packing"] or ""](made))
    if (
        place["others"]
        or (place.format == "zarr" and place.key)
        or (place.format == "h5" and data_type in WORDS)
    ):
        return f"{path.name}::{place.key}"
    return path.name


def npy_bytes(values, data_type, version=1):
    stream = BytesIO()
    np.lib.format.write_array(stream, values, (version, 0))
    data = stream.getvalue()
    if data_type in WORDS:  # bytes without a name, as ml_dtypes writes them
        data = data[:28].replace(b"|u", b"<u").replace(b"u", b"V") + data[28:]
    return data


def little(values):
    """The values in C order and little-endian."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


def around(place):
    """The names of a file's tensors, with their numbers: the tensor `v` stands among the others, or alone."""
    count = place["others"] or 0
    names = [(f"other{i}", i) for i in range(count)]
    return [*names[: count // 2], ("v", None), *names[count // 2 :]]


def other(number):
    """The values of another tensor; the second one takes some pages."""
    return np.arange(5 + number if number != 1 else 3000)


def make_npz(place, path, values, data_type):
    with zipfile.ZipFile(
        path, "w", zipfile.ZIP_DEFLATED if place["deflated"] else zipfile.ZIP_STORED
    ) as archive:
        for name, number in around(place):
            if name == "v":
                archive.writestr("v.npy", npy_bytes(values, data_type))
                continue
            method = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[number % 2]
            archive.writestr(f"{name}.npy", npy_bytes(other(number), "INT64"), method)
        if place["others"]:
            archive.writestr("read me.txt", "no tensor")


FILTERS = {
    "gzip": {"compression": "gzip", "compression_opts": 3}, "lzf": {"compression": "lzf"}, "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True}, "zstd": hdf5plugin.Zstd(),
}  # fmt: skip


def skip_filters(dataset):
    """Write every other chunk that lies within the dataset past all its filters, as a writer may."""
    mask = (1 << dataset.id.get_create_plist().get_nfilters()) - 1
    for box in list(dataset.iter_chunks())[::2]:
        part = dataset[box]
        if part.shape == dataset.chunks:
            dataset.id.write_direct_chunk(tuple(each.start for each in box), part.tobytes(), mask)


def make_h5(place, path, values, data_type):
    stored = values.view(f"V{values.itemsize}") if data_type in WORDS else values
    version, block = (
        ("latest" if place["latest"] else "earliest"),
        (512 if place["userblock"] else 0),
    )
    with h5py.File(path, "w", libver=version, userblock_size=block) as f:
        options = (
            {"chunks": place["chunks"], "maxshape": (None,) * values.ndim}
            if place["chunks"]
            else {}
        )
        for name in place["filters"] or ():
            options |= FILTERS[name]
        for name, number in around(place):
            if name != "v":
                more = {"chunks": (4,), "compression": "gzip"} if number % 2 else {}
                f.create_dataset(name, data=other(number), **more).attrs["of"] = np.arange(
                    number, dtype="u1"
                )
                continue
            dataset = f.create_dataset(place.key, values.shape, stored.dtype, **options)
            dataset.attrs["units"], dataset.parent.attrs["made"] = "m/s", [1.5, number or 2]
            first = max(1, len(values) // 2) if place["sparse"] else 0
            if first < len(values):
                dataset[first:] = stored[first:]
            if place["skips"]:
                skip_filters(dataset)


def make_nc(place, path, values, data_type):
    import netCDF4  # it sets where HDF5 looks for filters, also for workers that start later, and h5py cannot use those

    with netCDF4.Dataset(path, "w") as f:
        names = [f"d{(place['first'] or 0) + d}" for d in range(values.ndim)]
        for d, size in enumerate(values.shape):
            f.createDimension(names[d], None if place["unlimited"] and d == 0 else size)
        f.title = "generated"
        for name, number in around(place):
            if name != "v":
                f.createVariable(name, "f4", names[:1], zlib=number == 1)[:] = np.arange(
                    values.shape[0]
                )
                f[name].of = number
                continue
            made = f.createVariable("v", values.dtype, names, zlib=bool(place["zlib"]), chunksizes=place["chunks"],
                                    endian={">": "big", "<": "little"}.get(values.dtype.byteorder, "native"),
                                    fill_value=False)  # fmt: skip
            made.set_auto_maskandscale(False)
            made[:] = values
            made.units = "m/s"


def make_zarr(place, path, values, data_type):
    version, codec = place["version"], {"default": "auto", "none": None}.get(place["codec"])
    if place["codec"] == "gzip":
        codec = numcodecs.GZip() if version == 2 else zarr.codecs.GzipCodec()
    store = zarr.storage.LocalStore(path)
    if place.key:
        group = zarr.create_group(store, zarr_format=version)
        group.attrs["made"] = [1, 2]
        for each, number in around(place):
            if each != "v":
                group.create_array(each, data=other(number), chunks=(700,)).attrs["of"] = number
    array = zarr.create_array(
        store, name=place.key or None, shape=values.shape, dtype=values.dtype, chunks=place["chunks"], shards=place["shards"],
        compressors=codec, zarr_format=version, order="F" if place["fortran"] else "C" if version == 2 else None,
        fill_value=0,
    )  # fmt: skip
    first = max(1, len(values) // 2) if place["sparse"] else 0
    if first < len(values):
        array[first:] = values[first:]


SAFE = {"FLOAT64": "F64", "FLOAT32": "F32", "FLOAT16": "F16", "BFLOAT16": "BF16", "BOOL": "BOOL", "COMPLEX64": "C64",
        "FLOAT8_E4M3FN": "F8_E4M3", "FLOAT8_E5M2": "F8_E5M2", "FLOAT8_E4M3FNUZ": "F8_E4M3FNUZ",
        "FLOAT8_E5M2FNUZ": "F8_E5M2FNUZ", "FLOAT8_E8M0FNU": "F8_E8M0",
        **{f"{k}{n}": f"{k[0]}{n}" for k in ("INT", "UINT") for n in (8, 16, 32, 64)}}  # fmt: skip


def safetensors(place, path, values, data_type):
    header, data = {"__metadata__": {"made": "here"}}, b""
    for name, number in around(place):
        array, kind = (values, data_type) if name == "v" else (other(number).astype("i4"), "INT32")
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": SAFE[kind], "shape": list(array.shape), "data_offsets": offsets}
        data += little(array).tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def pb_type(data_type):
    """The number of a data type in ONNX, also of one that an older `onnx` does not know."""
    others = {"FLOAT32": 1, "FLOAT64": 11, "FLOAT8_E8M0FNU": 24}
    return others.get(data_type) or onnx.TensorProto.DataType.Value(
        data_type.replace("FLOAT8_", "FLOAT8")
    )


def pb(place, path, values, data_type):
    """As raw bytes, or as numbers in a field of their own."""
    number = pb_type(data_type)
    if place["how"] == "typed" and data_type in NUMBERS.keys() - {"FLOAT16"} | {"BOOL"}:
        proto = onnx.helper.make_tensor("v", number, values.shape, little(values))
    else:
        proto = onnx.TensorProto(
            name="v", dims=values.shape, data_type=number, raw_data=little(values).tobytes()
        )
    return proto.SerializeToString()


def text_of(values, quote=""):
    """An array as text, in brackets, whose numbers read back exactly."""
    text = json.dumps(values.tolist())
    for word, name in (("NaN", "nan"), ("-Infinity", "-inf"), ("Infinity", "inf")):
        text = text.replace(word, f"{quote}{name}{quote}")
    return text


def json_text(place, path, values, data_type):
    text = text_of(values.reshape(-1) if place["flat"] and not place["bare"] else values, '"')
    if not place["bare"]:
        text = f'{{"DataType": "{data_type}", "Sizes": {list(values.shape)}, "Values": {text}}}'
    return text.encode()


def txt(place, path, values, data_type):
    sizes = ",".join(map(str, values.shape))
    header = "" if place["bare"] else f"InputTensor: (Sizes:{{{sizes}}}, DataType:{data_type})\n"
    return f"{header}{text_of(values)}\n".encode()


def rows(place, path, values, data_type):
    return "".join(text_of(row)[1:-1] + "\n" for row in values).encode()


def needs_type(place, data_type, usual):
    """Whether the file does not say the data type, so that an option must."""
    if data_type in WORDS:
        return place.format not in ("safetensors", "pb")
    is_bare = place["bare"] or place.format in ("csv", "bin")
    return bool(is_bare) and data_type != usual


# Outputs, read by the libraries that users have


def read(path, key, data_type, sizes):
    """The values of an output; the words of those without a type of NumPy."""
    values = FORMATS[path.suffix[1:]].read(path, key, data_type, sizes)
    dtype = np.dtype(DTYPES[data_type])
    assert values.shape == sizes, f"sizes {values.shape}, not {sizes}"
    assert values.itemsize == dtype.itemsize, values.dtype
    assert data_type in WORDS or values.dtype.newbyteorder("=") == dtype, values.dtype
    return values


def of_npy(data):
    values = np.load(BytesIO(data))
    if (
        values.dtype.kind == "V"
    ):  # bytes without a name lose their byte order in NumPy: it stands in the header
        return values.view(f"{'>' if b'>V' in data[:128] else '<'}u{values.itemsize}")
    return values


def of_bytes(data, data_type, sizes):
    return np.frombuffer(data, np.dtype(DTYPES[data_type]).newbyteorder("<")).reshape(sizes)


def read_npz(path, key, data_type, sizes):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return of_npy(archive.read(f"{key}.npy"))


def read_h5(path, key, data_type, sizes):
    with h5py.File(path, "r") as f:
        dataset = f[key]
        if (
            data_type in ("BFLOAT16", "FLOAT8_E5M2") and dataset.dtype.kind == "f"
        ):  # which h5py would widen
            kind = dataset.id.get_type()
            words = np.empty(dataset.shape, f"{'>' if kind.get_order() else '<'}u{kind.get_size()}")
            dataset.id.read(
                h5py.h5s.ALL, h5py.h5s.ALL, words.view(f"V{kind.get_size()}"), mtype=kind
            )
            return words
        values = dataset[()]
        return values.view(f"u{values.itemsize}") if values.dtype.kind == "V" else values


def read_nc(path, key, data_type, sizes):
    import netCDF4

    with netCDF4.Dataset(path) as f:
        assert f.title == "generated"
        f[key].set_auto_maskandscale(False)
        return np.asarray(f[key][:])


def read_zarr(path, key, data_type, sizes):
    opened = zarr.open(path, mode="r")
    array = opened[key] if key else opened
    return np.asarray(array[...])


def read_safetensors(path, key, data_type, sizes):
    header, start, data = parts_of_safetensors(path)
    assert header[key]["dtype"] == SAFE[data_type]
    header.pop("__metadata__", None)
    assert max(each["data_offsets"][1] for each in header.values()) == len(data) - start
    first, last = header[key]["data_offsets"]
    return of_bytes(data[start + first : start + last], data_type, header[key]["shape"])


def parts_of_safetensors(path):
    """The header, where the data begin, and all bytes."""
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:start]), start, data


def read_pb(path, key, data_type, sizes):
    proto = onnx.TensorProto.FromString(path.read_bytes())
    assert proto.data_type == pb_type(data_type)
    return of_bytes(proto.raw_data, data_type, tuple(proto.dims))


def element(text, dtype):
    """The element that a token of an output stands for; a NaN may be given by its bits."""
    if text.startswith("nan("):
        return np.array(int(text[4:-1], 16), f"u{dtype.itemsize}").view(dtype)
    return np.array(float(text) if dtype.kind == "f" else int(text)).astype(dtype)


def read_text(path, key, data_type, sizes):
    text = path.read_bytes().decode()
    if path.suffix == ".txt":
        header, _, text = text.partition("\n")
        assert (
            header == f"OutputTensor: (Sizes:{{{','.join(map(str, sizes))}}}, DataType:{data_type})"
        )
    elif path.suffix == ".json":
        made = json.loads(text)
        assert (made["DataType"], tuple(made["Sizes"])) == (data_type, sizes)
        text = json.dumps(made["Values"])
    with np.errstate(over="ignore"):
        dtype = np.dtype(DTYPES[data_type])
        tokens = re.findall(r"nan\(0x[0-9a-f]+\)|[-+.\w]+", text)
        return np.array([element(each, dtype) for each in tokens], dtype).reshape(sizes)


# What stands beside the tensor: all that a file holds beside the values of its tensor `key`, to be held against that of
# another. Bytes are those that are stored, and places those in the file, as far as they do not depend on the tensor.


def beside_npz(path, key):
    with zipfile.ZipFile(path) as archive:
        data = path.read_bytes()
        made = {"comment": archive.comment, "names": archive.namelist()}
        for info in archive.infolist():
            if info.filename != f"{key}.npy":
                start = (
                    info.header_offset
                    + 30
                    + sum(struct.unpack_from("<2H", data, info.header_offset + 26))
                )
                made[info.filename] = (
                    info.comment, info.external_attr, data[info.header_offset : start], data[start : start + info.compress_size],
                )  # fmt: skip
        return made


def beside_safetensors(path, key):
    header, begin, data = parts_of_safetensors(path)
    start, stop = (begin + each for each in header[key]["data_offsets"])
    return {"before": data[:start], "behind": data[stop:], "size": stop - start}


def beside_zarr(path, key):
    opened = zarr.open(path, mode="r")
    version = (opened[key] if key else opened).metadata.zarr_format
    chunk = re.compile(
        re.escape(f"{key}/" if key else "") + (r"c(/\d+)*" if version == 3 else r"\d+([./]\d+)*")
    )
    names = {each.relative_to(path).as_posix(): each for each in path.rglob("*")}
    return {
        name: each.read_bytes() if each.is_file() else None
        for name, each in names.items()
        if not chunk.fullmatch(name)
    }


def beside_h5(path, key):
    """Of each object its attributes, type and storage; of other datasets also the values."""
    made = {}

    def note(name, each):
        attributes = {
            a: (each.attrs.get_id(a).get_type().encode(), repr(each.attrs[a])) for a in each.attrs
        }
        if "revseq" in attributes.get("history", ("", ""))[1]:
            del attributes["history"]
        made[name] = attributes
        if isinstance(each, h5py.Dataset):
            plist = each.id.get_create_plist()
            filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
            made[name] |= {
                "/type": each.id.get_type().encode(),
                "/storage": (each.maxshape, each.chunks, filters),
            }
            if name != key:
                made[name]["/values"] = each[()].tobytes()

    with h5py.File(path) as f:
        note("", f["/"])
        f.visititems(note)
    return made


# Options of a file that is given, which are drawn. What is rare in files is frequent here.


def few_chunks(rng, sizes, most=1000, *, beyond=False):
    """Sizes of chunks, of which there are not too many: each takes time. With `beyond`, some are larger than the tensor."""
    chunks = tuple(
        rng.choice(
            (
                size,
                rng.randint(1, size),
                min(size, rng.choice((1, 2, 3, 8, 64))),
                size + 3 if beyond else size,
            )
        )
        for size in sizes
    )
    return (
        chunks
        if math.prod(-(-size // chunk) for size, chunk in zip(sizes, chunks, strict=True)) <= most
        else sizes
    )


def packed(rng, sizes):
    return {"packing": rng.choice(("", "", "", ".gz", ".xz", ".bz2"))}


_FILTERS = (
    "", "", "", "gzip", "gzip shuffle", "shuffle", "lzf", "lzf shuffle", "fletcher32", "gzip shuffle fletcher32", "zstd",
)  # fmt: skip


def h5_options(rng, sizes):
    chunked = rng.random() < 0.7
    chunks = few_chunks(rng, sizes, beyond=True)
    options = {
        "others": rng.randrange(5), "group": rng.random() < 0.3, "latest": rng.random() < 0.3,
        "chunks": chunks if chunked else None, "sparse": rng.random() < 0.15,
        "userblock": rng.random() < 0.05,
    }  # fmt: skip
    if chunked:
        filters = tuple(rng.choice(_FILTERS).split())
        options |= {"filters": filters, "skips": bool(filters) and rng.random() < 0.35}
    return options


def nc_options(rng, sizes):
    # netCDF gives an unlimited dimension chunks of one index, which may be as many as elements.
    unlimited = rng.random() < 0.3 and sizes[0] < 20_000
    return {"others": rng.randrange(5), "zlib": rng.random() < 0.5, "unlimited": unlimited,
            "chunks": few_chunks(rng, sizes) if rng.random() < 0.6 else None}  # fmt: skip


def zarr_options(rng, sizes):
    version = rng.choice((2, 3, 3))
    chunks = few_chunks(rng, sizes, 300)
    shards = (
        tuple(c * rng.choice((1, 2, 3)) for c in chunks)
        if version == 3 and rng.random() < 0.3
        else None
    )
    if shards and math.prod(-(-s // c) for s, c in zip(sizes, shards, strict=True)) > 300:
        shards = None
    return {"version": version, "chunks": chunks, "shards": shards, "group": rng.random() < 0.3,
            "codec": rng.choice(("default", "none", "gzip")), "others": rng.randrange(3),
            "fortran": version == 2 and rng.random() < 0.3, "sparse": rng.random() < 0.15}  # fmt: skip


@dataclass(frozen=True)
class Format:
    """A format of the table.

    `make` gives the bytes of a file, or writes it. `types` are the data types
    that it can hold, in at most so many elements as `most`. `beside` gives what else is in a file; `big` and `order` say
    whether elements may be big-endian, and in Fortran order, and `masks` whether a mask may stand in it: its data type is said,
    and dimensions have no names.
    """

    make: Callable
    read: Callable
    options: Callable = lambda rng, sizes: {}
    types: tuple = tuple(DTYPES)
    most: float = math.inf
    beside: Callable | None = None
    big: bool = False
    order: bool = False
    masks: bool = False

    @property
    def is_text(self):
        return self.most < math.inf

    def holds(self, data_type, sizes):
        """Whether a tensor can stand in such a file; rows have two dimensions."""
        return (
            data_type in self.types
            and math.prod(sizes) <= self.most
            and (self.make is not rows or len(sizes) == 2)
        )


FORMATS = {
    "npy": Format(
        lambda place, path, values, data_type: npy_bytes(values, data_type, place["version"] or 1),
        lambda path, *_: of_npy(path.read_bytes()), lambda rng, _: {"version": rng.choice((1, 1, 2, 3))} | packed(rng, _),
        big=True, order=True, masks=True,
    ),
    "npz": Format(
        make_npz, read_npz, lambda rng, _: {"deflated": rng.random() < 0.5, "others": rng.randrange(5)},
        beside=beside_npz, big=True, order=True, masks=True,
    ),
    "h5": Format(make_h5, read_h5, h5_options, beside=beside_h5, big=True, masks=True),
    "nc": Format(make_nc, read_nc, nc_options, tuple(NUMBERS.keys() - {"FLOAT16"}), beside=beside_h5, big=True),
    "zarr": Format(make_zarr, read_zarr, zarr_options, (*NUMBERS, *OTHERS), beside=beside_zarr, big=True, masks=True),
    "safetensors": Format(
        safetensors, read_safetensors, lambda rng, _: {"others": rng.randrange(5)}, tuple(SAFE),
        beside=beside_safetensors, masks=True,
    ),
    "pb": Format(pb, read_pb, lambda rng, _: {"how": rng.choice(("raw", "typed"))}, masks=True),
    "json": Format(
        json_text, read_text, lambda rng, _: {"bare": rng.random() < 0.5, "flat": rng.random() < 0.5} | packed(rng, _),
        tuple(NUMBERS), 3000,
    ),
    "txt": Format(txt, read_text, lambda rng, _: {"bare": rng.random() < 0.3} | packed(rng, _), tuple(NUMBERS), 3000),
    "csv": Format(rows, read_text, packed, tuple(NUMBERS), 100_000),
    "bin": Format(
        lambda place, path, values, _: little(values).tobytes(),
        lambda path, _, data_type, sizes: of_bytes(path.read_bytes(), data_type, sizes),
    ),
}  # fmt: skip
