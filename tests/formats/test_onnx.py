"""Tensors of ONNX: what its own package makes goes in, and what lies about itself is refused by name."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import onnx
import oracle
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.node import reversesequence  # noqa: F401 - its tests are made as it is loaded
from tensor_files import open_, write

from revseq_cli.core.errors import TensorIOError
from revseq_cli.formats.onnx import source
from revseq_cli.formats.onnx import source as onnx_source

X = np.arange(12, dtype=np.float32).reshape(3, 4)
X_BYTES = X.tobytes()
NAN = np.array([0x7F800001, 0xFFC01234, 0x80000000, 1], "<u4").view("<f4")  # a signalling one, payloads, -0.0
NODE_TESTS = [each for each in node._NodeTestCases if "reversesequence" in each.name]


def save(path, **fields):
    path.write_bytes(TensorProto(**{"dims": [3, 4], "data_type": 1, **fields}).SerializeToString())
    return path


class TestTypedFields:
    """Elements outside of raw_data, as onnx.helper writes them."""

    @pytest.mark.parametrize("number", sorted(onnx_source.TYPES))
    def test_every_data_type(self, tmp_path, number):
        data_type = onnx_source.TYPES[number]
        values = oracle.random_values(np.random.default_rng(5), (3, 4), data_type)
        proto = TensorProto(dims=(3, 4), data_type=number)
        floats = {"FLOAT32": 4, "COMPLEX64": 4, "FLOAT64": 10, "COMPLEX128": 10}
        if field := floats.get(data_type.name):
            proto.MergeFromString(onnx_source.message((field, values.tobytes())))
        else:
            kind = data_type.kind in ("float", "minifloat", "bool")
            words = values.view(f"u{data_type.size}") if kind else values
            fields = {"INT64": proto.int64_data, "UINT32": proto.uint64_data, "UINT64": proto.uint64_data}
            fields.get(data_type.name, proto.int32_data).extend(words.ravel().tolist())
        (tmp_path / "x.pb").write_bytes(proto.SerializeToString())
        source = open_(tmp_path / "x.pb")
        assert source.desc.data_type is data_type
        assert oracle.same_bits(source.read(), values)
        source.recheck()

    def test_bits_of_nan(self, tmp_path):
        data = b"\x08\x04\x10\x01" + b"".join(b"\x25" + NAN[i : i + 1].tobytes() for i in range(2))  # one at a time,
        (tmp_path / "x.pb").write_bytes(data + b"\x22\x08" + NAN[2:].tobytes())  # then together
        assert oracle.same_bits(open_(tmp_path / "x.pb").read(), NAN)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"raw_data": bytes(47)}, "has 47 bytes of elements"), ({"raw_data": bytes(49)}, "has 49 bytes of elements"),
        ({}, "has 0 bytes of elements"), ({"data_type": 0, "raw_data": bytes(48)}, "has no data type"),
        ({"data_type": 8, "string_data": [b"a"] * 12}, "its data type is STRING"), ({"data_type": 8}, "its data type is STRING"),
        ({"data_type": 22, "raw_data": bytes(6)}, "its data type is INT4"), ({"data_type": 21}, "its data type is UINT4"),
        ({"data_type": 99}, "its data type is 99"),
        ({"data_type": -5}, "its data type is -5"), ({"dims": [3, -4]}, "Sizes is {3,-4}"),
        ({"dims": [1 << 62, 1 << 62], "raw_data": b"x"}, "has 1 bytes of elements"),
        ({"dims": [1] * 65, "raw_data": bytes(4)}, "dimension count 65"),
        ({"segment": TensorProto.Segment(begin=0, end=3), "raw_data": bytes(48)}, "is not a single tensor"),
        ({"data_type": 2, "int32_data": [0] * 11 + [256]}, "256, its element 11, does not fit UINT8"),
        ({"data_type": 2, "int32_data": [-1] * 12}, "-1, its element 0, does not fit UINT8"),
        ({"data_type": 9, "int32_data": [0, 2] * 6}, "2, its element 1, does not fit BOOL"),
        ({"data_type": 10, "int32_data": [65536] * 12}, "does not fit FLOAT16"),
        ({"data_type": 12, "uint64_data": [1 << 32] * 12}, "does not fit UINT32"),
        ({"data_type": 12, "uint64_data": [(1 << 64) - 1] * 12}, "does not fit UINT32"),
        ({"data_type": 7, "int64_data": [1] * 11}, "has 11 elements, and (Sizes:{3,4}, DataType:INT64) has 12"),
        ({"data_type": 7, "int32_data": [1] * 12}, "has its elements in int32_data"),
        ({"data_type": 1, "float_data": [1] * 12, "raw_data": bytes(48)}, "has its elements in float_data, raw_data"),
        ({"data_type": 1, "float_data": [1] * 13}, "has 52 bytes of elements"),
    ],
)  # fmt: skip
def test_tensors_that_are_none(refused, tmp_path, fields, problem):
    save(tmp_path / "x.pb", **fields)
    refused("x.pb", "x.pb: ", problem)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "x.pb"), (b"\xff" * 40, "has an unfinished number at byte 0"), (b"\x03" * 9, "a field of wire type 3"),
        (b"\x00\x01", "a field of number 0"), (b"\x08\x03\x12\x01x", "its field 2 is not a data_type"),
        (b"\x08\x03\x4a\x7f", "is truncated: 4 bytes, and a field at byte 2 ends at 131"),
        (b"\x10\x01\x4a\x01a\x4a\x01b", "raw_data twice"), (b"\x10\x01\x42\x01\xff\x4a\x04abcd", "not UTF-8"),
        (b"\x10\x01\x6a\x02\x0a\x7f", "is damaged"), (b"\x38\x01" * 70_000, "more than 65536 protobuf fields"),
        (b"\x1f\x8b and on", "gzip"), (b"a text, no message", "x.pb"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_tensor(refused, tmp_path, data, problem):
    (tmp_path / "x.pb").write_bytes(data)
    refused("x.pb", "x.pb", problem)


MIB = 1 << 20
_MEASURED = """
import resource, sys
import onnx
from revseq_cli.formats.onnx.source import open_tensor
from revseq_cli.core.errors import FormatError
open_tensor(sys.argv[1])
for path in sys.argv[2:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        open_tensor(path)
    except FormatError as e:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, e)
"""
# Files of some 8 MiB of packed numbers of a byte, or of many that are not packed; parsed, each number takes eight bytes.
LONG = source.varint(8 * MIB) + b"\x01" * (8 * MIB)
GRAPH = b"\x0a\x02\x22\x00" + source.head(5, 8 * MIB + 5) + b"\x0a" + LONG
NUMBERS = [
    (b"\x0a" + LONG + b"\x10\x01", "has dimension count 8388608"),
    (b"\x0a\x3f" + b"\x01" * 63 + b"\x08\x01\x0a\x02\x01\x01\x10\x01", "has dimension count 66"),
    (b"\x08\x01" * 30_000 + b"\x10\x01", "has dimension count 30000"),
    (b"\x08\x03\x10\x06\x2a" + LONG, "has 8388608 elements"),
    (b"\x08\x03\x10\x07\x3a" + source.varint(8 * MIB) + b"\x81\x01" * (4 * MIB), "has 4194304 elements"),
    (b"\x08\x03\x10\x0d\x5a" + LONG, "has 8388608 elements"),
    (b"\x08\x03\x10\x06" + b"\x28\x01" * 30_000, "has 30000 elements"),
    (b"\x08\x03\x10\x01\x92\x06" + LONG, "has 0 bytes of elements"),
    (b"\x08\x07" + source.head(7, len(GRAPH)) + GRAPH, "is a model, not a tensor"),
]


@pytest.mark.needs("peak")
def test_numbers_are_counted_before_they_are_parsed(tmp_path):
    save(tmp_path / "x.pb", raw_data=X_BYTES)
    paths = [tmp_path / f"{i}.pb" for i in range(len(NUMBERS))]
    for path, (data, _) in zip(paths, NUMBERS, strict=True):
        path.write_bytes(data)
    command = [sys.executable, "-c", _MEASURED, tmp_path / "x.pb", *paths]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(NUMBERS)
    for line, (_, problem) in zip(lines, NUMBERS, strict=True):
        grown, message = line.split(" ", 1)
        assert problem in message
        assert int(grown) < 24 << 10, line  # KiB: about twice the file


def test_a_model_that_would_take_much_memory_is_not_parsed(revseq, tmp_path):
    """Many times its bytes: numbers of one byte, or messages of two."""
    (tmp_path / "test_data_set_0").mkdir()
    less = "from revseq_cli.formats.onnx import models; models._MOST_MORE = 1 << 20"
    long = source.message((5, source.message((7, b"\x01" * ((1 << 17) + 1)))))
    many = source.message((1, b"")) * 1000
    deep = b""
    for _ in range(5):
        deep = source.message((1, source.message((5, source.message((6, many + deep))))))
    for graph, problem, code in (
        (GRAPH, "its nodes: none", ""), (b"\x0a" + LONG, "is not an ONNX model", ""), (long, "bytes of memory", less),
        (deep, "bytes of memory", less), (source.message((1, b"")) * 70_000, "more than 65536 protobuf fields", ""),
    ):  # fmt: skip
        (tmp_path / "model.onnx").write_bytes(b"\x08\x07" + source.head(7, len(graph)) + graph)
        revseq("show", "model.onnx", code=code).refused("model.onnx: ", problem)


def test_other_messages_of_onnx(refused, tmp_path):
    tensor = numpy_helper.from_array(X, "x")
    case = NODE_TESTS[0].model
    for producer in ("", "me"):
        case.producer_name = producer
        onnx.save(case, tmp_path / "x.pb")
        refused("x.pb", "is a model, not a tensor", "revseq verify")
    for name in ("", "x"):
        (tmp_path / "x.pb").write_bytes(helper.make_sequence(name, 1, [tensor]).SerializeToString())
        refused("x.pb", "x.pb: ", "wanted: a TensorProto")
        (tmp_path / "x.pb").write_bytes(helper.make_optional(name, 1, tensor).SerializeToString())
        refused("x.pb", "x.pb: ", "wanted: a TensorProto")
    (tmp_path / "x.pb").write_bytes(tensor.SerializeToString())
    assert oracle.same_bits(open_(tmp_path / "x.pb").read(), X)


def test_more_than_protobuf_can_hold(revseq, refused, tmp_path):
    with open(tmp_path / "large.pb", "wb") as f:
        f.truncate(1 << 31)
    refused("large.pb", "large.pb: has 2147483648 bytes", "protobuf's limit")
    with open(tmp_path / "large.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "|u1", "fortran_order": False, "shape": (1 << 31,)})
        f.truncate(f.tell() + (1 << 31))
    revseq("convert", "large.npy", "y.pb").refused("a protobuf message of 2147483662 bytes", "such as out.npy")
    assert not (tmp_path / "y.pb").exists()


def test_the_name_and_texts_stay(revseq, tmp_path):
    proto = numpy_helper.from_array(X, "the/name")
    proto.doc_string = "über"
    proto.metadata_props.add(key="a", value="\x1b")
    onnx.save_tensor(proto, tmp_path / "x.pb")
    for name in ("x.pb", "x.pb::the/name"):
        revseq("run", name, "[[2], [4], [3]]", "--axis", 1, "-o", "y.pb", "--overwrite", "--verify").ok()
    found = onnx.load_tensor(tmp_path / "y.pb")
    assert (found.name, found.doc_string, found.metadata_props[0].value) == ("the/name", "über", "\x1b")
    assert oracle.same_bits(numpy_helper.to_array(found), oracle.reverse(X, np.array([[2], [4], [3]]), 1))
    revseq("convert", "x.pb", "x.npz").ok()
    assert np.load(tmp_path / "x.npz").files == ["the/name"]
    revseq("convert", "x.pb", "z.pb::z").ok()
    assert onnx.load_tensor(tmp_path / "z.pb").name == "z"
    revseq("convert", "x.npz", "w.pb").ok()
    assert onnx.load_tensor(tmp_path / "w.pb").name == "the/name"
    revseq("show", "x.pb::other").refused("no such tensor", "the/name", "try x.pb::the/name")
    write(tmp_path / "n.pb", X)
    assert not onnx.load_tensor(tmp_path / "n.pb").HasField("name")
    revseq("show", "n.pb::other").refused("no such tensor")


@pytest.mark.needs("names of bytes")
def test_a_name_that_is_no_text(revseq, tmp_path):
    write(tmp_path / "x.pb", X)
    revseq("convert", "x.pb", b"u.pb::\xff").refused("is not a valid tensor name")


def test_in_and_out_of_pipes(revseq, tmp_path):
    onnx.save_tensor(numpy_helper.from_array(np.asfortranarray(X), "x"), tmp_path / "x.pb")
    piped = revseq("run", "x.pb", "[[2], [4], [3]]", "--axis", 1, "-f", "onnx").ok().raw
    revseq("run", "x.pb", "[[2], [4], [3]]", "--axis", 1, "-o", "y.pb").ok()
    assert (
        numpy_helper.to_array(TensorProto.FromString(piped)).tolist()
        == numpy_helper.to_array(onnx.load_tensor(tmp_path / "y.pb")).tolist()
    )


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 129, 16383, 16384])
def test_lengths_of_fields_are_as_short_as_onnx_has_them(tmp_path, count):
    values = np.arange(count, dtype=np.uint8)
    write(tmp_path / "x.pb", values)
    assert (tmp_path / "x.pb").read_bytes() == numpy_helper.from_array(values).SerializeToString()


def test_a_file_that_changes_is_refused(tmp_path):
    for proto in (numpy_helper.from_array(X), helper.make_tensor("x", TensorProto.INT32, (2,), [1, 2])):
        onnx.save_tensor(proto, tmp_path / "x.pb")
        source = open_(tmp_path / "x.pb")
        os.utime(tmp_path / "x.pb", ns=(1, 1))
        with pytest.raises(TensorIOError, match="changed while it was read"):
            source.recheck()


def test_without_the_package(revseq, tmp_path):
    onnx.save_tensor(numpy_helper.from_array(X), tmp_path / "x.pb")
    (tmp_path / "model.onnx").write_bytes(b"")
    code = "import sys; sys.modules['onnx'] = None"
    for args in (("show", "x.pb"), ("convert", "[1, 2]", "y.pb")):
        (tmp_path / "test_data_set_0").mkdir(exist_ok=True)
        revseq(*args, code=code).refused("the package onnx", "pip install onnx\n")
    assert not (tmp_path / "y.pb").exists()


class TestExternalData:
    """Elements in a file of their own, which is in the folder of the tensor's file or below it."""

    def make(self, folder, location="x.bin", data=X_BYTES, **entries):
        proto = TensorProto(dims=[3, 4], data_type=1, name="x", data_location=TensorProto.EXTERNAL)
        entries = {"location": location} | entries
        for key, value in entries.items():
            if value is not None:
                proto.external_data.add(key=key, value=str(value))
        onnx.save_tensor(proto, folder / "x.pb")
        if data is not None:
            (folder / "x.bin").write_bytes(data)
        return proto

    @pytest.mark.parametrize(
        "entries", [{}, {"offset": 0}, {"length": 48}, {"offset": "0", "length": "48", "other": "a"}]
    )
    def test_read_in_place(self, done, tmp_path, entries):
        self.make(tmp_path, **entries)
        assert oracle.same_bits(done("x.pb"), oracle.reverse(X, np.array([[2], [4], [3]]), 1))

    def test_at_an_offset_in_a_folder_below(self, revseq, tmp_path):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "all").write_bytes(b"!" * 4096 + X.tobytes() + b"!" * 9)
        self.make(tmp_path, "data/all", offset=4096, length=48)
        revseq("convert", "x.pb", "y.pb").ok()
        assert oracle.same_bits(open_(tmp_path / "y.pb").read(), X)
        shown = revseq("show", "x.pb").ok().out
        assert "storage          onnx, tensor x, elements data/all, offset 4096" in shown

    @pytest.mark.needs("links")
    def test_behind_a_link(self, tmp_path):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "all").write_bytes(X.tobytes())
        (tmp_path / "link").symlink_to("data")
        self.make(tmp_path, "link/all", length=48)
        assert oracle.same_bits(open_(tmp_path / "x.pb").read(), X)

    @pytest.mark.parametrize(
        ("entries", "problem"),
        [
            ({"length": 47}, "has 47 bytes at 0 of x.bin"), ({"length": 49}, "has 49 bytes at 0 of x.bin, which has 48"),
            ({"offset": 1}, "has 47 bytes at 1"), ({"offset": 49}, "at 49 of x.bin, which has 48"),
            ({"offset": 9, "length": 48}, "at 9 of x.bin, which has 48"), ({"offset": -1}, "the number -1"),
            ({"offset": "9" * 30}, "the number 999"), ({"length": "0x30"}, "the number 0x30"), ({"length": "٣"}, "the number"),
            ({"checksum": "abc"}, "its checksum is abc"),
        ],
    )  # fmt: skip
    def test_numbers_that_lie(self, refused, tmp_path, entries, problem):
        self.make(tmp_path, **entries)
        refused("x.pb", "x.pb: ", problem)

    @pytest.mark.parametrize(
        "location",
        ["", None, "/etc/passwd", "../x.bin", "a/../x.bin", "a/../../x.bin", "..", ".", "a\\x.bin", "C:x.bin", "a\0b",
         "link", "up/secret", "\x1b[31m"],
    )  # fmt: skip
    def test_other_files_are_never_read(self, refused, tmp_path, tmp_path_factory, location):
        outside = tmp_path_factory.mktemp("outside")
        (outside / "secret").write_bytes(X.tobytes())
        (tmp_path / "link").symlink_to(outside / "secret")
        (tmp_path / "up").symlink_to(outside)
        self.make(tmp_path, location)
        refused("x.pb", "Error: ")

    def test_the_same_key_twice_and_elements_twice(self, refused, tmp_path):
        proto = self.make(tmp_path)
        proto.external_data.add(key="location", value="x.bin")
        onnx.save_tensor(proto, tmp_path / "x.pb")
        refused("x.pb", "its external_data has location twice")
        proto = self.make(tmp_path)
        proto.raw_data = X.tobytes()
        onnx.save_tensor(proto, tmp_path / "x.pb")
        refused("x.pb", "says that they are in another file")

    def test_a_missing_file(self, refused, tmp_path):
        self.make(tmp_path, data=None)
        refused("x.pb", "x.bin: no such file")

    def test_both_files_are_inputs(self, revseq, tmp_path):
        self.make(tmp_path)
        for name in ("x.bin", "x.pb"):
            before = (tmp_path / name).read_bytes()
            done = revseq("run", "x.pb", "[[2], [4], [3]]", "--axis", 1, "-o", f"{name}", "-f", "npy", "--overwrite")
            done.refused(name, "input")
            assert (tmp_path / name).read_bytes() == before

    def test_a_change_of_either_file_is_noticed(self, tmp_path):
        for name in ("x.bin", "x.pb"):
            self.make(tmp_path)
            source = open_(tmp_path / "x.pb")
            source.recheck()
            os.utime(tmp_path / name, ns=(1, 1))
            with pytest.raises(TensorIOError, match=f"{name}: changed while it was read"):
                source.recheck()

    def test_the_checksum_is_that_of_the_whole_file(self, revseq, tmp_path):
        data = X.tobytes() + b"!" * (1 << 21)
        for digest, status in ((hashlib.sha1(data).hexdigest().upper(), 0), ("0" * 40, 2)):
            self.make(tmp_path, data=data, length=48, checksum=digest)
            done = revseq("convert", "x.pb", "y.npy", "--overwrite")
            assert done.status == status, done.err
        done.refused("x.bin: is damaged: its SHA-1 is", "x.pb says 0000")
