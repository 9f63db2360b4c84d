"""Raw buffers, as GPU tools dump them: their sizes and data types are those that the user names."""

import gzip

import numpy as np
import oracle
import pytest

RNG = np.random.default_rng(11)
KINDS = {
    "FLOAT32": "<f4",
    "FLOAT16": "<f2",
    "INT64": "<i8",
    "UINT8": "u1",
    "COMPLEX64": "<c8",
    "BFLOAT16": "<u2",
}


@pytest.mark.parametrize("name", KINDS)
def test_any_data_type_is_read_and_written(revseq, tmp_path, name):
    sizes = (5, 7, 3)
    data = RNG.integers(0, 256, 105 * np.dtype(KINDS[name]).itemsize, np.uint8)
    data.tofile(tmp_path / "x.bin")
    lengths = RNG.integers(0, 9, (5, 1, 3)).astype("u4")
    lengths.tofile(tmp_path / "n.bin")
    for engine in ((), ("--engine", "processes", "--jobs", 2, "--memory", "64K")):
        args = (
            "--axis",
            1,
            "--dtype",
            name,
            "--sizes",
            "5x7x3",
            "--feature-level",
            "none",
            "--overwrite",
        )
        revseq("run", "x.bin", "n.bin", *args, "-o", "y.bin", *engine).ok()
        found = np.fromfile(tmp_path / "y.bin", KINDS[name]).reshape(sizes)
        assert oracle.same_bits(
            found, oracle.expected(data.view(KINDS[name]).reshape(sizes), lengths, 1)
        )


@pytest.mark.needs("shell")
def test_into_a_pipe(shell, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6, dtype=">u2").reshape(2, 3))
    assert (
        shell("revseq convert x.npy - -f raw | od -An -tx1").out
        == " 00 00 01 00 02 00 03 00 04 00 05 00\n"
    )


def test_lengths_have_the_sizes_that_the_job_needs(revseq, tmp_path):
    values = np.arange(24, dtype="<f4").reshape(2, 3, 4)
    values.tofile(tmp_path / "x.bin")
    job = ["run", "x.bin", "n.bin", "--sizes", "2,3,4", "--axis", 1, "-o", "y.npy", "--overwrite"]
    for options, dtype, lengths, counts in (
        ((), "u4", [[[3, 1, 0, 2]], [[2, 2, 2, 2]]], [[[3, 1, 0, 2]], [[2, 2, 2, 2]]]),
        (("--batch-axis", 0), "u4", [3, 2], [[[3]], [[2]]]),
        (("--batch-axis", 2), "u8", [3, 2, 0, 1], [[[3, 2, 0, 1]]]),
        (("--like", "onnx"), "i8", [3, 2], [[[3]], [[2]]]),
        (("--mask",), "u1", np.arange(24).reshape(2, 3, 4) % 12 < 8, np.full((2, 1, 4), 2)),
        (("--mask",), "u4", np.arange(24).reshape(2, 3, 4) % 12 < 8, np.full((2, 1, 4), 2)),
    ):
        np.array(lengths, dtype).tofile(tmp_path / "n.bin")
        revseq(*job, *options).ok()
        expected = oracle.expected(values, np.broadcast_to(counts, (2, 1, 4)), 1)
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), expected)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("x.bin: raw data of 96 bytes need --sizes", "add --sizes 24\n")),
        (("--sizes", "2x3"), ("x.bin: has 96 bytes", "expected 24: FLOAT32 {2,3}")),
        (("--sizes", "2x3x4", "--dtype", "FLOAT16"), ("has 96 bytes", "expected 48: FLOAT16 {2,3,4}")),
        (("--sizes", "0x3"), ("x.bin: has 96 bytes", "expected 0: FLOAT32 {0,3}")),
        (("--sizes", "2x-3"), ("'2x-3' is not one number for each dimension",)),
        (("--sizes", "24" + "x1" * 64), ("x.bin: has dimension count 65", "expected at most 64")),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_buffer(revseq, tmp_path, options, words):
    np.zeros(24, "<f4").tofile(tmp_path / "x.bin")
    done = revseq("run", "x.bin", "n.bin", "--axis", 1, "-o", "y.bin", *options)
    done.refused(*words)
    assert not (tmp_path / "y.bin").exists()


def test_first_bytes_say_nothing_of_a_buffer(revseq, tmp_path):
    for first in (b"[", b"\x1f\x8b", b"PK\x03\x04", b"\x93NUMPY", b"\x89HDF\r\n\x1a\n"):
        (tmp_path / "x.bin").write_bytes(data := first + bytes(12 - len(first)))
        revseq("convert", "x.bin", "y.npy", "--dtype", "UINT8", "--sizes", "12", "--overwrite").ok()
        assert np.load(tmp_path / "y.npy").tobytes() == data


def test_a_packed_buffer_is_no_buffer(revseq, tmp_path):
    (tmp_path / "x.bin.gz").write_bytes(gzip.compress(bytes(96)))
    revseq("show", "x.bin.gz", "--sizes", "24", "--dtype", "UINT8").refused(
        "is compressed raw data", "decompress it first: gunzip x.bin.gz"
    )


def test_a_raw_buffer_is_float32_also_where_text_is_written(revseq, tmp_path):
    np.arange(6, dtype="<f4").tofile(tmp_path / "x.bin")
    revseq("run", "x.bin", "[2]", "--sizes", "2x3", "--axis", 1, "-o", "y.csv").ok()
    assert np.loadtxt(tmp_path / "y.csv", delimiter=",").tolist() == [[1, 0, 2], [4, 3, 5]]
