"""HDF5's data types that NumPy has under other names: no bit changes, in a copy the type stays, and alone it is plain."""

import h5py
import numpy as np
import oracle
import pytest
import tables
from h5py import h5d, h5p, h5s, h5t
from oracle import expected
from tensor_files import open_

from revseq_cli.core.tensors import DataType

SHAPE, CHUNKS, AXIS = (5, 30, 17), (2, 8, 5), 1
LENGTHS = np.random.default_rng(2).integers(0, 35, (5, 1, 17)).astype("u4")
RUN = ("run", "x.h5", "n.npy", "--axis", AXIS, "-o", "y.h5", "--verify")


def enumeration(base, **members):
    kind = h5t.enum_create(base)
    for name, value in members.items():
        kind.enum_insert(name.encode(), value)
    return kind


def compound(part, *names):
    kind = h5t.create(h5t.COMPOUND, 2 * part.get_size())
    for i, name in enumerate(names):
        kind.insert(name.encode(), i * part.get_size(), part)
    return kind


BOOL = {"FALSE": 0, "TRUE": 1}
TYPES = {
    "B8BE": (h5t.STD_B8BE, "UINT8"),
    "B16LE": (h5t.STD_B16LE, "UINT16"),
    "B16BE": (h5t.STD_B16BE, "UINT16"),
    "B64BE": (h5t.STD_B64BE, "UINT64"),
    "bool BE": (enumeration(h5t.STD_I8BE, **BOOL), "BOOL"),
    "bool, unsigned": (enumeration(h5t.STD_U8BE, TRUE=1, FALSE=0), "BOOL"),
    "bool, the other way": (enumeration(h5t.STD_I8LE, FALSE=1, TRUE=0), "INT8"),
    "bool, wide": (enumeration(h5t.STD_I32BE, **BOOL), "INT32"),
    "enumeration BE": (enumeration(h5t.STD_I16BE, RED=-3, BLUE=300), "INT16"),
    "r, i": (compound(h5t.IEEE_F32LE, "r", "i"), "COMPLEX64"),
    "real, imag": (compound(h5t.IEEE_F64BE, "real", "imag"), "COMPLEX128"),
}
if hasattr(h5t, "COMPLEX_IEEE_F64BE"):  # since HDF5 2.0
    TYPES["native BE"] = (h5t.COMPLEX_IEEE_F64BE, "COMPLEX128")
STORED_AS = {
    h5t.TypeBitfieldID: "bitfield",
    h5t.TypeEnumID: "enumeration of ",
    h5t.TypeCompoundID: "compound of r",
}


def layout(name):
    made = h5p.create(h5p.DATASET_CREATE)
    if name == "compact":
        made.set_layout(h5d.COMPACT)
    if name in ("chunks", "gzip"):
        made.set_chunk(CHUNKS)
    if name == "gzip":
        made.set_shuffle()
        made.set_deflate(3)
    return made


def raw_of(path, dtype, name="x"):
    """The dataset's bytes, and its type."""
    with h5py.File(path) as f:
        found = np.empty(f[name].shape, dtype)
        kind = f[name].id.get_type()
        f[name].id.read(h5s.ALL, h5s.ALL, found, kind)
        return found, kind.copy()


def in_file_order(values, kind):
    """The same values in the byte order of the type, so that their bytes are those in the file."""
    part = kind.get_super() if isinstance(kind, h5t.TypeEnumID) else kind
    part = part.get_member_type(0) if isinstance(part, h5t.TypeCompoundID) else part
    order = part.get_order() if hasattr(part, "get_order") else part.dtype.byteorder
    big = order in (h5t.ORDER_BE, ">")
    return values.astype(values.dtype.newbyteorder(">")) if big else values


@pytest.mark.parametrize(
    ("name", "storage"),
    [
        *((name, "gzip") for name in TYPES),
        ("B16BE", "contiguous"),
        ("B16BE", "compact"),
        ("B16BE", "chunks"),
    ],
)
def test_bits_and_type_stay(tmp_path, revseq, name, storage):
    kind, data_type = TYPES[name]
    values = in_file_order(
        oracle.random_values(np.random.default_rng(7), SHAPE, DataType[data_type]), kind
    )
    np.save(tmp_path / "n.npy", LENGTHS)
    with h5py.File(tmp_path / "x.h5", "w") as f:  # whose bytes are those of the values
        made = h5d.create(f.id, b"x", kind, h5s.create_simple(SHAPE), layout(storage))
        made.write(h5s.ALL, h5s.ALL, values, made.get_type())
    source = open_(tmp_path / "x.h5")
    assert source.desc.data_type is DataType[data_type]
    assert oracle.same_bits(source.read(), values)  # values, and not only bytes
    revseq(*RUN, "--engine", "serial", "--memory", "200K").ok()
    revseq(*RUN, "-o", "z.h5::new").ok()
    if words := STORED_AS.get(type(kind)):
        assert f"stored as {words}" in revseq("show", "x.h5").ok().out
    for path, name in (("y.h5", "x"), ("z.h5", "new")):
        found, same = raw_of(tmp_path / path, values.dtype, name)
        assert oracle.same_bits(found, expected(values, LENGTHS, AXIS))
        assert same.equal(raw_of(tmp_path / "x.h5", values.dtype)[1])
    revseq(*RUN, "-o", "w.h5", "--only").ok()
    with h5py.File(tmp_path / "w.h5") as f:
        assert oracle.same_bits(f["x"][()], expected(values, LENGTHS, AXIS))
    revseq("convert", "x.h5", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), values)
    assert revseq("diff", "x.h5", "y.npy").ok()


@pytest.mark.parametrize(
    ("size", "bits", "signed", "order", "filters"),
    [(4, 17, True, ">", "none"), (8, 40, True, "<", "N-bit and gzip"), (1, 3, False, "<", "none")],
)  # fmt: skip
def test_integers_of_fewer_bits_than_their_bytes(
    tmp_path, revseq, size, bits, signed, order, filters
):
    """As climate and detector data have them; HDF5 itself makes plain integers of them, and the other way round."""
    native = np.dtype(f"{order}{'i' if signed else 'u'}{size}")
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    values = np.random.default_rng(4).integers(low, high, SHAPE, "i8").astype(native)
    kind = h5t.py_create(native).copy()
    kind.set_precision(bits)
    kind.set_offset(0 if bits == 3 else 2)
    properties = layout("contiguous" if filters == "none" else "chunks")
    if filters != "none":
        properties.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
    if "gzip" in filters:
        properties.set_deflate(4)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        h5d.create(f.id, b"x", kind, h5s.create_simple(SHAPE), properties).write(
            h5s.ALL, h5s.ALL, values
        )
    np.save(tmp_path / "n.npy", LENGTHS)
    assert f"integers of {bits} bits" in " ".join(revseq("show", "x.h5").ok().out.split())
    for name, *more in (
        ("x", "--engine", "processes", "--jobs", 2),
        ("new", "-o", "y.h5::new"),
        ("x", "--only"),
    ):
        revseq(*RUN, "--memory", "200K", *more).ok()
        with h5py.File(tmp_path / "y.h5") as f:
            assert f[name].dtype == native
            assert f[name].id.get_type().get_precision() == (8 * size if "--only" in more else bits)
            assert (f[name].compression == "gzip") == ("gzip" in filters)
            assert oracle.same_bits(f[name][...], expected(values, LENGTHS, AXIS))
        (tmp_path / "y.h5").unlink()
    revseq("convert", "x.h5", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), values)


def test_pytables(tmp_path, revseq):
    """Its booleans are bitfields, its complex numbers are compounds, its enumerations are committed to the group."""
    rng = np.random.default_rng(3)
    arrays = {
        "flags": (tables.BoolAtom(), rng.integers(0, 2, SHAPE).astype(bool)),
        "waves": (tables.ComplexAtom(16), rng.random(SHAPE) + 1j * rng.random(SHAPE)),
        "colours": (
            tables.EnumAtom(["r", "g", "b"], "r", "int16"),
            rng.integers(0, 3, SHAPE).astype("i2"),
        ),
    }
    np.save(tmp_path / "n.npy", LENGTHS)
    with tables.open_file(tmp_path / "x.h5", "w", filters=tables.Filters(5, shuffle=True)) as f:
        for name, (atom, values) in arrays.items():
            made = f.create_earray(
                "/group", name, atom, (0, *SHAPE[1:]), createparents=True, chunkshape=CHUNKS
            )
            made.append(values)
    for name, (_, values) in arrays.items():
        revseq("run", f"x.h5::/group/{name}", *RUN[2:], "--overwrite").ok()
        with tables.open_file(tmp_path / "x.h5") as f, tables.open_file(tmp_path / "y.h5") as g:
            old, new = (each.get_node(f"/group/{name}") for each in (f, g))
            assert (type(new), new.atom, new.filters) == (type(old), old.atom, old.filters)
            assert oracle.same_bits(new[...], expected(values, LENGTHS, AXIS))


def test_complex_numbers_with_the_imaginary_part_first_are_no_complex_numbers(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = np.zeros(SHAPE, [("imag", "f4"), ("real", "f4")])
    revseq("convert", "x.h5", "none.npy").refused("compound of imag, real")
