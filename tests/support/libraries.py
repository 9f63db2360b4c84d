"""Files of generated jobs, made and read by the libraries that users have, never by the package.

`make` writes a tensor where a `Place` says, `read` reads an output, and `others` gives all else that a file holds.
"""

import bz2
import gzip
import json
import lzma
import math
import re
import struct
import zipfile
from io import BytesIO

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import onnx
import zarr
from generated import DTYPES, WORDS

PACKINGS = {"": lambda data: data, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def make(place, path, values, data_type, first=0):
    """Write a tensor; what the command line calls it, and what stands on standard input.

    `first` is the dimension of the job that its first one is, where dimensions have names.
    """
    named = {"first": first} if place.format == "nc" else {}
    path = path.with_name(f"{path.name}.{place.format}{place['packing'] or ''}")
    return MAKERS[place.format](place, path, values, data_type, **named)


def npy_bytes(values, data_type, version=1):
    stream = BytesIO()
    order = values.flags.f_contiguous and not values.flags.c_contiguous
    words = f"{'>' if values.dtype.byteorder == '>' else '<'}V{values.itemsize}"
    descr = words if data_type in WORDS else values.dtype.str
    fields = {"descr": descr, "fortran_order": bool(order), "shape": values.shape}
    if version == 1:
        np.lib.format.write_array_header_1_0(stream, fields)
    else:
        header = repr(fields).encode()
        header += b" " * (-(12 + len(header) + 1) % 64) + b"\n"
        stream.write(b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<I", len(header)) + header)
    stream.write((values.T if order else values).tobytes())
    return stream.getvalue()


def make_npy(place, path, values, data_type):
    path.write_bytes(PACKINGS[place["packing"] or ""](npy_bytes(values, data_type, place["version"] or 1)))
    return path.name


def around(place):
    """The names of a file's tensors, with their numbers: the tensor `v` stands among the others, or alone."""
    count = place["others"] or 0
    names = [(f"other{i}", i) for i in range(count)]
    return [*names[: count // 2], ("v", None), *names[count // 2 :]]


def other(number):
    """The values of another tensor; the second one takes some pages."""
    return np.arange(5 + number if number != 1 else 3000)


def make_npz(place, path, values, data_type):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if place["deflated"] else zipfile.ZIP_STORED) as archive:
        for name, number in around(place):
            if name == "v":
                archive.writestr("v.npy", npy_bytes(values, data_type))
                continue
            info = zipfile.ZipInfo(f"{name}.npy", (2001 + number, 2, 3, 4, 5, 6))
            info.comment, info.external_attr = name.encode(), 0o600 << 16
            info.compress_type = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[number % 2]
            archive.writestr(info, npy_bytes(other(number), "INT64"))
        if place["others"]:
            archive.writestr("read me.txt", "no tensor")
            archive.comment = b"all of it"
    return f"{path.name}::v" if place["others"] else path.name


FILTERS = {"gzip": {"compression": "gzip", "compression_opts": 3}, "lzf": {"compression": "lzf"}, "shuffle": {"shuffle": True},
           "fletcher32": {"fletcher32": True}}  # fmt: skip


def h5_filters(names, dtype):
    options = {}
    if names == ("deflate", "shuffle"):  # in this order, which h5py itself never makes
        options["dcpl"] = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options["dcpl"].set_deflate(3)
        return options | FILTERS["shuffle"]
    for name in names or ():
        if name in FILTERS:
            options |= FILTERS[name]
        else:
            plugin = {"blosc": "Blosc", "zstd": "Zstd", "bitshuffle": "Bitshuffle", "lz4": "LZ4"}[name]
            options |= getattr(hdf5plugin, plugin)()
    return options


def skip_filters(dataset):
    """Write every other chunk that lies within the dataset past all its filters, as a writer may."""
    mask = (1 << dataset.id.get_create_plist().get_nfilters()) - 1
    for box in list(dataset.iter_chunks())[::2]:
        part = dataset[box]
        if part.shape == dataset.chunks:
            dataset.id.write_direct_chunk(tuple(each.start for each in box), part.tobytes(), mask)


def make_h5(place, path, values, data_type):
    key = "group/v" if place["group"] else "v"
    stored = values.view(f"V{values.itemsize}") if data_type in WORDS else values
    with h5py.File(
        path, "w", libver="latest" if place["latest"] else "earliest", userblock_size=512 if place["userblock"] else 0
    ) as f:
        options = {}
        if place["chunks"]:
            maxshape = tuple(max(c, s) for c, s in zip(place["chunks"], values.shape, strict=True))
            options = {"chunks": place["chunks"], "maxshape": maxshape} | h5_filters(place["filters"], values.dtype)
        if place["grows"]:
            options["maxshape"] = (None,) * values.ndim
            if not place["sparse"]:
                options["fillvalue"] = np.frombuffer(b"\1" * values.itemsize, stored.dtype)[0]
        for name, number in around(place):
            if name != "v":
                more = {"chunks": (4,), "compression": "gzip"} if number % 2 else {}
                f.create_dataset(name, data=other(number), **more).attrs["of"] = np.arange(number, dtype="u1")
                continue
            dataset = f.create_dataset(key, values.shape, stored.dtype, **options)
            dataset.attrs["units"], dataset.parent.attrs["made"] = "m/s", [1.5, number or 2]
            first = max(1, len(values) // 2) if place["sparse"] else 0
            if first < len(values):
                dataset[first:] = stored[first:]
            if place["skips"]:
                skip_filters(dataset)
    return path.name if not place["others"] and data_type not in WORDS else f"{path.name}::{key}"


def make_nc(place, path, values, data_type, first=0):
    import netCDF4  # it sets where HDF5 looks for filters, also for workers that start later, and h5py cannot use those

    with netCDF4.Dataset(path, "w") as f:
        names = [f"d{first + d}" for d in range(values.ndim)]
        for d, size in enumerate(values.shape):
            f.createDimension(names[d], None if place["unlimited"] and d == 0 else size)
        f.title = "generated"
        for name, number in around(place):
            if name != "v":
                f.createVariable(name, "f4", names[:1], zlib=number == 1)[:] = np.arange(values.shape[0])
                f[name].of = number
                continue
            made = f.createVariable("v", values.dtype, names, zlib=bool(place["zlib"]), chunksizes=place["chunks"],
                                    endian={">": "big", "<": "little"}.get(values.dtype.byteorder, "native"),
                                    fill_value=False)  # fmt: skip
            made.set_auto_maskandscale(False)
            made[:] = values
            made.units = "m/s"
    return f"{path.name}::v" if place["others"] else path.name


def make_zarr(place, path, values, data_type):
    codecs = {
        2: {"default": "auto", "none": None, "gzip": "GZip", "zstd": "Zstd", "blosc": "Blosc"},
        3: {"default": "auto", "none": None, "gzip": "GzipCodec", "zstd": "ZstdCodec", "blosc": "BloscCodec"},
    }[place["version"]]
    codec = codecs[place["codec"]]
    if codec not in ("auto", None):
        codec = getattr(numcodecs if place["version"] == 2 else zarr.codecs, codec)()
    name = "group/v" if place["group"] else "v" if place["others"] else ""
    store = zarr.storage.LocalStore(path)
    if name:
        group = zarr.create_group(store, zarr_format=place["version"])
        group.attrs["made"] = [1, 2]
        for each, number in around(place):
            if each != "v":
                group.create_array(each, data=other(number), chunks=(700,)).attrs["of"] = number
    array = zarr.create_array(
        store, name=name or None, shape=values.shape, dtype=values.dtype, chunks=place["chunks"], shards=place["shards"],
        compressors=codec, zarr_format=place["version"], order="F" if place["fortran"] else "C" if place["version"] == 2 else None,
        fill_value=0,
    )  # fmt: skip
    first = max(1, len(values) // 2) if place["sparse"] else 0
    if first < len(values):
        array[first:] = values[first:]
    return f"{path.name}::{name}" if name else path.name


SAFE = {"FLOAT64": "F64", "FLOAT32": "F32", "FLOAT16": "F16", "BFLOAT16": "BF16", "BOOL": "BOOL", "COMPLEX64": "C64",
        "FLOAT8_E4M3FN": "F8_E4M3", "FLOAT8_E5M2": "F8_E5M2", "FLOAT8_E4M3FNUZ": "F8_E4M3FNUZ",
        "FLOAT8_E5M2FNUZ": "F8_E5M2FNUZ", "FLOAT8_E8M0FNU": "F8_E8M0",
        **{f"{k}{n}": f"{k[0]}{n}" for k in ("INT", "UINT") for n in (8, 16, 32, 64)}}  # fmt: skip


def make_safetensors(place, path, values, data_type):
    header, data = {"__metadata__": {"made": "here"}}, b""
    for name, number in around(place):
        array, kind = (values, data_type) if name == "v" else (other(number).astype("i4"), "INT32")
        raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": SAFE[kind], "shape": list(array.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return f"{path.name}::v" if place["others"] else path.name


PB = {"FLOAT32": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9, "FLOAT16": 10,
      "FLOAT64": 11, "UINT32": 12, "UINT64": 13, "COMPLEX64": 14, "COMPLEX128": 15, "BFLOAT16": 16, "FLOAT8_E4M3FN": 17,
      "FLOAT8_E4M3FNUZ": 18, "FLOAT8_E5M2": 19, "FLOAT8_E5M2FNUZ": 20, "FLOAT8_E8M0FNU": 24}  # fmt: skip


# Those whose elements are numbers in a field of their own.
TYPED = "FLOAT32 FLOAT64 INT32 INT64 UINT64 INT8 UINT8 INT16 UINT16 BOOL".split()


def make_pb(place, path, values, data_type):
    proto = onnx.TensorProto(name="v", dims=values.shape, data_type=PB[data_type])
    raw = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    if place["how"] == "typed" and data_type in TYPED:
        field = {"FLOAT32": proto.float_data, "FLOAT64": proto.double_data, "INT64": proto.int64_data,
                 "UINT64": proto.uint64_data}.get(data_type, proto.int32_data)  # fmt: skip
        field.extend((raw.view("u1") if data_type == "BOOL" else raw).reshape(-1).tolist())
    else:
        proto.raw_data = raw.tobytes()
    path.write_bytes(proto.SerializeToString())
    return path.name


def token(value):
    """A number as text, so that it reads back exactly."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else ("-inf" if value < 0 else "inf") if math.isinf(value) else repr(value)
    return str(value)


def nested(values, quote='"'):
    """An array as text, in brackets."""
    if values.ndim == 0:
        text = token(values.item())
        return f"{quote}{text}{quote}" if text.lstrip("-") in ("nan", "inf") else text
    return "[" + ", ".join(nested(np.asarray(each), quote) for each in values) + "]"


def exact(values):
    """Floats as FLOAT64, whose decimals read back as the same float of fewer bits."""
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def make_json(place, path, values, data_type):
    text = nested(exact(values).reshape(-1) if place["flat"] and not place["bare"] else exact(values))
    if not place["bare"]:
        text = f'{{"DataType": "{data_type}", "Sizes": {list(values.shape)}, "Values": {text}}}'
    path.write_bytes(PACKINGS[place["packing"] or ""](text.encode()))
    return path.name


def make_txt(place, path, values, data_type):
    text = nested(exact(values), "")
    if not place["bare"]:
        sizes = ",".join(map(str, values.shape))
        text = f"InputTensor: (Sizes:{{{sizes}}}, DataType:{data_type})\n{text}\n"
    path.write_bytes(PACKINGS[place["packing"] or ""](text.encode()))
    return path.name


def make_csv(place, path, values, data_type):
    comma = "," if place.format == "csv" else "\t"
    rows = (comma.join(map(token, row)) for row in exact(values).tolist())
    path.write_bytes(PACKINGS[place["packing"] or ""]("\n".join(rows).encode() + b"\n"))
    return path.name


def make_bin(place, path, values, data_type):
    path.write_bytes(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes())
    return path.name


MAKERS = {
    "npy": make_npy, "npz": make_npz, "h5": make_h5, "nc": make_nc, "zarr": make_zarr, "safetensors": make_safetensors,
    "pb": make_pb, "json": make_json, "txt": make_txt, "csv": make_csv, "tsv": make_csv, "bin": make_bin,
    "typed": lambda place, path, values, data_type: nested(exact(values), ""),
    "stdin": lambda place, path, values, data_type: ("-", npy_bytes(values, data_type)),
}  # fmt: skip


# Of an input whose format has no name for it, the data type is said.
SAYS_NO_WORDS = {"npy", "npz", "h5", "stdin"}


def needs_type(place, data_type, usual):
    """Whether the file does not say the data type, so that an option must."""
    if data_type in WORDS:
        return place.format in (*SAYS_NO_WORDS, "bin")
    if place.format in ("json", "txt"):
        return bool(place["bare"]) and data_type != usual
    return place.format in ("csv", "tsv", "typed", "bin") and data_type != usual


# Outputs, read by the libraries that users have


def read(place, path, key, data_type, sizes):
    """The bytes of an output in C order and little-endian, and whether it is big-endian or in Fortran order."""
    values = READERS[place.format](place, path, key, data_type, sizes)
    assert values.shape == sizes, f"sizes {values.shape}, not {sizes}"
    assert values.itemsize == np.dtype(DTYPES[data_type]).itemsize, values.dtype
    if data_type not in WORDS and values.dtype.kind != "V":
        assert values.dtype.newbyteorder("=") == np.dtype(DTYPES[data_type]), values.dtype
    return values


def read_npy(place, path, key, data_type, sizes):
    data = path.read_bytes()
    return _named(np.load(BytesIO(data)), data)


def _named(values, data):
    """Bytes without a name lose their byte order in NumPy: it stands in the header."""
    if values.dtype.kind == "V":
        return values.view(f"{'>' if b'>V' in data[:128] else '<'}u{values.itemsize}")
    return values


def read_bin(place, path, key, data_type, sizes):
    return np.fromfile(path, np.dtype(DTYPES[data_type]).newbyteorder("<")).reshape(sizes)


def read_npz(place, path, key, data_type, sizes):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        data = archive.read(f"{key}.npy")
    with np.load(path) as archive:
        return _named(archive[key], data)


def read_h5(place, path, key, data_type, sizes):
    with h5py.File(path, "r") as f:
        dataset = f[key]
        if data_type in ("BFLOAT16", "FLOAT8_E5M2") and dataset.dtype.kind == "f":  # which h5py would widen
            kind = dataset.id.get_type()
            words = np.empty(dataset.shape, f"{'>' if kind.get_order() else '<'}u{kind.get_size()}")
            dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, words.view(f"V{kind.get_size()}"), mtype=kind)
            return words
        values = dataset[()]
        return values.view(f"u{values.itemsize}") if values.dtype.kind == "V" else values


def read_nc(place, path, key, data_type, sizes):
    import netCDF4

    with netCDF4.Dataset(path) as f:
        assert f.title == "generated"
        f[key].set_auto_maskandscale(False)
        return np.asarray(f[key][:])


def read_zarr(place, path, key, data_type, sizes):
    opened = zarr.open(path, mode="r")
    array = opened[key] if key else opened
    return np.asarray(array[...])


def read_safetensors(place, path, key, data_type, sizes):
    data = path.read_bytes()
    (count,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + count])
    entry = header[key]
    assert entry["dtype"] == SAFE[data_type]
    start, stop = entry["data_offsets"]
    body = data[8 + count :]
    assert max(each["data_offsets"] for name, each in header.items() if name != "__metadata__")[1] == len(body)
    return np.frombuffer(body[start:stop], np.dtype(DTYPES[data_type]).newbyteorder("<")).reshape(entry["shape"])


def read_pb(place, path, key, data_type, sizes):
    proto = onnx.TensorProto.FromString(path.read_bytes())
    assert proto.data_type == PB[data_type]
    return np.frombuffer(proto.raw_data, np.dtype(DTYPES[data_type]).newbyteorder("<")).reshape(tuple(proto.dims))


def _numbers(tokens, data_type):
    dtype = np.dtype(DTYPES[data_type])
    if dtype.kind == "f":
        words = [int(each[4:-1], 16) if each.startswith("nan(") else None for each in tokens]
        made = np.array([0.0 if word is not None else float(each) for each, word in zip(tokens, words, strict=True)])
        made = made.astype(dtype)
        for i, word in enumerate(words):
            if word is not None:
                made.view(f"u{dtype.itemsize}")[i] = word
        return made
    return np.array([int(each) for each in tokens], object).astype(dtype)


def read_text(place, path, key, data_type, sizes):
    text = path.read_bytes().decode()
    if place.format == "txt":
        header, _, text = text.partition("\n")
        assert header == f"OutputTensor: (Sizes:{{{','.join(map(str, sizes))}}}, DataType:{data_type})"
    elif place.format == "json":
        made = json.loads(text)
        assert (made["DataType"], tuple(made["Sizes"])) == (data_type, sizes)
        text = json.dumps(made["Values"])
    with np.errstate(over="ignore"):
        return _numbers(re.findall(r"nan\(0x[0-9a-f]+\)|[-+.\w]+", text), data_type).reshape(sizes)


READERS = {"npy": read_npy, "npz": read_npz, "h5": read_h5, "nc": read_nc, "zarr": read_zarr, "safetensors": read_safetensors,
           "pb": read_pb, "json": read_text, "txt": read_text, "csv": read_text, "tsv": read_text, "bin": read_bin}  # fmt: skip


# What stands beside the tensor


def beside(name, path, key):
    """All that a file of that format holds beside the values of its tensor `key`, to be held against that of another.

    Bytes are those that are stored, and places those in the file, as far as they do not depend on the tensor.
    """
    return BESIDE[name](path, key)


def beside_npz(path, key):
    with zipfile.ZipFile(path) as archive:
        data = path.read_bytes()
        made = {"comment": archive.comment, "names": archive.namelist()}
        for info in archive.infolist():
            about = info.date_time, info.comment, info.external_attr, info.create_system
            if info.filename != f"{key}.npy":
                start = info.header_offset + 30 + sum(struct.unpack_from("<2H", data, info.header_offset + 26))
                stored = data[start : start + info.compress_size]
                about += info.compress_type, info.CRC, info.extra, stored, data[info.header_offset : start]
            made[info.filename] = about
        return made


def beside_safetensors(path, key):
    data = path.read_bytes()
    (count,) = struct.unpack("<Q", data[:8])
    start, stop = (8 + count + each for each in json.loads(data[8 : 8 + count])[key]["data_offsets"])
    return {"before": data[:start], "behind": data[stop:], "size": stop - start}


def beside_zarr(path, key):
    names = {each.relative_to(path).as_posix(): each for each in path.rglob("*")}
    opened = zarr.open(path, mode="r")
    array = opened[key] if key else opened
    folder = f"{key}/" if key else ""
    chunk = re.compile(r"c(/\d+)*" if array.metadata.zarr_format == 3 else r"\d+([./]\d+)*")
    return {
        name: each.read_bytes() if each.is_file() else None
        for name, each in names.items()
        if not (name.startswith(folder) and chunk.fullmatch(name.removeprefix(folder)))
    }


def beside_h5(path, key):
    """Of each object its place, attributes, type and storage; of other datasets also the places and bytes of chunks."""
    made, data = {}, path.read_bytes()

    def note(name, each):
        low = each.id
        attributes = {}
        for i in range(h5py.h5a.get_num_attrs(low)):
            attribute = h5py.h5a.open(low, index=i)
            kind, values = attribute.get_type(), np.zeros(attribute.shape, f"V{attribute.get_type().get_size()}")
            is_text = isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()
            if not kind.detect_class(h5py.h5t.VLEN) and not is_text:  # bytes that are pointers differ
                attribute.read(values, mtype=kind)
            attributes[attribute.get_name()] = kind.encode(), values.tobytes()
        about = {"place": h5py.h5o.get_info(low).addr, "attributes": attributes}
        if isinstance(each, h5py.Dataset):
            plist = low.get_create_plist()
            filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
            about |= {"type": low.get_type().encode(), "sizes": (each.shape, each.maxshape), "chunks": each.chunks}
            about["filters"] = filters
            if name != key and each.chunks:
                chunks = [low.get_chunk_info(i) for i in range(low.get_num_chunks())]
                about["stored"] = [(*c, data[c.byte_offset : c.byte_offset + c.size]) for c in chunks]
            elif name != key and low.get_offset() is not None:
                about["stored"] = low.get_offset(), data[low.get_offset() :][: low.get_storage_size()]
        made[name] = about

    with h5py.File(path) as f:
        note("", f["/"])
        f.visititems(note)
        if history := made[""]["attributes"].pop(b"history", None):
            assert b"revseq" in history[1]
    return made


BESIDE = {"npz": beside_npz, "safetensors": beside_safetensors, "zarr": beside_zarr, "h5": beside_h5, "nc": beside_h5}


def is_filled_up(path, key):
    """Whether a dataset of HDF5 that grows to whole chunks has its fill value behind its old end."""
    with h5py.File(BytesIO(path.read_bytes()), "r+") as f:
        dataset = f[key]
        if not dataset.chunks or dataset.maxshape != (None,) * dataset.ndim:
            return True
        old = tuple(map(slice, dataset.shape))
        dataset.resize([-(-size // chunk) * chunk for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)])
        values, fill = dataset[...], dataset.fillvalue
        values[old] = fill
        return values.tobytes() == np.full_like(values, fill).tobytes()


def dead_bytes(path, key):
    """The bytes of an HDF5 file that are not its tensor `key`, nor the index of its chunks; and those of a chunk."""
    with h5py.File(path) as f:
        dataset = f[key]
        chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
        index = h5py.h5o.get_info(dataset.id).meta_size.obj.index_size  # which grows where chunks were not stored
        return path.stat().st_size - dataset.id.get_storage_size() - index, chunk
