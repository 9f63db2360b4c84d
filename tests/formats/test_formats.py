"""One contract that every format keeps: regions, round trips, types, truncation, read tasks that pickle."""

import bz2
import errno
import gzip
import itertools
import os
import pickle
import threading

import h5py
import numpy as np
import onnx
import oracle
import pytest
from folders import names
from needs import fcntl
from tensor_files import X, held, open_, write

from revseq_cli.core import dtypes
from revseq_cli.core.errors import FormatError, RevseqError, TensorIOError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats import outputs, references
from revseq_cli.formats.onnx.tensors import TYPES
from revseq_cli.pipeline.executors import dump
from revseq_cli.report.terminal import message


class Contract:
    """What each format must keep; the subclasses say its suffix and the data types that it can hold."""

    suffix = ""
    data_types = list(DataType)
    is_piped = False

    def make(self, tmp_path, values):
        path = tmp_path / f"x{self.suffix}"
        write(path, values)
        return path

    @pytest.mark.parametrize("data_type", list(DataType))
    def test_round_trip(self, tmp_path, data_type):
        values = oracle.random_values(np.random.default_rng(7), (3, 1, 4), data_type)
        if data_type not in self.data_types:
            with pytest.raises(FormatError, match="cannot be written as"):
                self.make(tmp_path, values)
            assert not list(tmp_path.iterdir())
            return
        asked = (
            data_type if data_type.kind == "minifloat" else None
        )  # most formats have no name for those
        source = open_(self.make(tmp_path, values), asked)
        assert source.desc.data_type is data_type
        assert oracle.same_bits(source.read(), values)

    @pytest.mark.parametrize(("order", "byte_order"), [("C", "<"), ("F", ">")])
    def test_every_region(self, tmp_path, order, byte_order):
        values = np.arange(24).reshape(2, 3, 4).astype(f"{byte_order}i2", order)
        source = open_(self.make(tmp_path, values))
        parts = [[slice(a, b) for a in range(n) for b in range(a + 1, n + 1)] for n in values.shape]
        for region in itertools.product(*parts):
            part = pickle.loads(dump(source.read_task(region))).read()  # as workers get it
            assert part.dtype == source.dtype
            assert oracle.same_bits(part, values[region])

    @pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0, 2)], ids=str)
    def test_scalars_and_tensors_without_elements(self, tmp_path, shape):
        values = np.full(shape, 7, np.float32)
        assert oracle.same_bits(open_(self.make(tmp_path, values)).read(), values)

    def test_an_existing_output_stays(self, tmp_path):
        path = self.make(tmp_path, X)
        before = path.read_bytes()
        with pytest.raises(TensorIOError, match="exists already") as caught:
            self.make(tmp_path, X[::-1])
        assert "--overwrite" in message(caught.value)
        assert path.read_bytes() == before

    def test_a_failed_write_leaves_nothing(self, tmp_path):
        reference = references.Reference.file(str(tmp_path / f"x{self.suffix}"))
        sink = outputs.create_sink(reference, held(X), overwrite=False)
        with pytest.raises(RuntimeError), FileTransaction(sink.file), sink:
            raise RuntimeError
        assert not list(tmp_path.iterdir())

    def test_missing_file_and_directory(self, tmp_path):
        with pytest.raises(TensorIOError, match="no such file"):
            open_(tmp_path / f"none{self.suffix}")
        (tmp_path / f"d{self.suffix}").mkdir()
        with pytest.raises(TensorIOError, match="a folder"):
            open_(tmp_path / f"d{self.suffix}")

    @pytest.mark.needs("fifos")
    def test_a_pipe(self, tmp_path):
        """It is read once where the format goes from the first byte to the last, and else refused."""
        path = self.make(tmp_path, X)
        pipe = tmp_path / f"p{self.suffix}"
        os.mkfifo(pipe)
        content = path.read_bytes() if path.is_file() else b"\xff"
        threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True).start()
        if self.is_piped:
            assert oracle.same_bits(open_(pipe).read(), X)
        else:
            with pytest.raises(FormatError):
                open_(pipe)

    def test_other_files_under_its_suffix(self, tmp_path):
        path = tmp_path / f"x{self.suffix}"
        for data in (
            b"",
            b"PK\x03\x04 zip",
            b"\x80\x04 pickle",
            bytes(range(256)),
            b"version https://git-lfs.github",
        ):
            path.write_bytes(data)
            with pytest.raises(RevseqError) as caught:
                open_(path)
            assert str(path) in message(caught.value)

    def test_truncation_at_any_byte(self, tmp_path):
        path = self.make(tmp_path, X.astype("i4"))
        whole = path.read_bytes().rstrip(b"\n")
        for length in range(0, len(whole), max(1, len(whole) // 60)):
            path.write_bytes(whole[:length])
            with pytest.raises(RevseqError):
                open_(path).read()


class TestNpy(Contract):
    suffix = ".npy"
    is_piped = True


class TestHdf5(Contract):
    suffix = ".h5"

    def test_a_type_that_h5py_would_convert(self, tmp_path):
        brain = (
            h5py.h5t.IEEE_F32LE.copy()
        )  # bfloat16 but for the exponent's bias; h5py reads it as float32
        brain.set_fields(15, 7, 8, 0, 7)
        brain.set_size(2)
        brain.set_ebias(120)
        with h5py.File(tmp_path / "x.h5", "w") as f:
            h5py.h5d.create(f.id, b"a", brain, h5py.h5s.create_simple((3,)))
        with pytest.raises(FormatError, match="its data type is "):
            open_(tmp_path / "x.h5")


class TestNpz(Contract):
    suffix = ".npz"


class TestDeflatedNpz(Contract):
    suffix = ".npz"

    test_an_existing_output_stays = None

    def make(self, tmp_path, values):
        lacking = dtypes.is_minifloat(values.dtype)
        np.savez_compressed(
            tmp_path / "x.npz", x=values.view(f"V{values.itemsize}") if lacking else values
        )
        return tmp_path / "x.npz"


class TestSafetensors(Contract):
    suffix = ".safetensors"
    data_types = [each for each in DataType if each is not DataType.COMPLEX128]


class TestZarr(Contract):
    suffix = ".zarr"

    def test_an_existing_output_stays(self, tmp_path):
        path = self.make(tmp_path, np.zeros(3, np.float32))
        before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
        for overwrite in (False, True):
            with pytest.raises(TensorIOError, match="exists already") as caught:
                outputs.create_sink(
                    references.Reference.file(str(path)), held(np.ones(3)), overwrite=overwrite
                )
            assert "a folder is never replaced" in message(caught.value)
        assert before == {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}

    def test_missing_file_and_directory(self, tmp_path):
        with pytest.raises(TensorIOError, match="no such file"):
            open_(tmp_path / "none.zarr")
        (tmp_path / "d.zarr").mkdir()
        with pytest.raises(FormatError, match="has no tensor"):
            open_(tmp_path / "d.zarr")

    def test_truncation_at_any_byte(self, tmp_path):
        store = self.make(tmp_path, np.arange(6, dtype=np.int32).reshape(2, 3))
        for path in [each for each in store.rglob("*") if each.is_file()]:
            whole = path.read_bytes()
            for length in range(0, len(whole.rstrip()), max(1, len(whole) // 60)):
                path.write_bytes(whole[:length])
                with pytest.raises(RevseqError):
                    open_(store).read()
            path.write_bytes(whole)


class TestOnnx(Contract):
    suffix = ".pb"

    @pytest.mark.parametrize("data_type", list(DataType))
    def test_its_own_package_writes_the_same_bytes(self, tmp_path, data_type):
        values = oracle.random_values(np.random.default_rng(3), (3, 4), data_type)
        write(f"{tmp_path / 'x.pb'}::x", np.asfortranarray(values))
        number = next(number for number, each in TYPES.items() if each is data_type)
        proto = onnx.TensorProto(name="x", dims=(3, 4), data_type=number, raw_data=values.tobytes())
        assert (tmp_path / "x.pb").read_bytes() == proto.SerializeToString()


class TestJson(Contract):
    suffix = ".json"
    is_piped = True

    @pytest.mark.parametrize(
        ("text", "name", "expected"),
        [
            ('\ufeff["inf", -Infinity, NaN]\r\n', "FLOAT32", [np.inf, -np.inf, np.nan]), ("[[],[]]", "FLOAT32", [[], []]),
            ('{"DataType":"int8","Sizes":[1,2],"Values":[1,2]}', "INT8", [[1, 2]]), ('{"Values":[1.0]}', "FLOAT32", [1]),
            ('{"Sizes":[2,0],"Values":[[],[]]}', "FLOAT32", [[], []]), ('{"Values":3,"Sizes":[]}', "FLOAT32", 3),
        ],
    )  # fmt: skip
    def test_accepted(self, tmp_path, text, name, expected):
        (tmp_path / "x.json").write_text(text)
        source = open_(tmp_path / "x.json")
        assert source.desc.data_type.name == name
        np.testing.assert_array_equal(source.read(), expected)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("[[1, 2], [3]]", "column 10: this row has 1 element, the others have 2"), ("[1, [2]]", "a number 2 brackets deep, but the first one is 1 deep"),
            ("[[[1]], [[2, 3]]]", "column 3: this row has 1 element, the others have 2"), ("[[], 1]", "column 3: an empty row"), ("[[], [[]]]", "row"),
            ('{"Sizes":[' + "9" * 5000 + '],"Values":[1]}', "Sizes is not a list of sizes"), ('["2"]', "column 2: '\"2\"' is not a number"),
            ("{}", "not a tensor"), ('{"Values":[1],"Extra":2}', "not a tensor"), ('{"Values":[1],"Values":[2]}', "a key twice"),
            ('{"DataType":"FLOAT99","Values":[1]}', "'FLOAT99' is not a data type"), ('{"Values":null}', "column 11: 'null' is not a number"),
            ('{"Sizes":[3],"Values":[1]}', "the values have {1}, but {3} is stated"), ('{"Values":[1],\n"Sizes":[1}', "line 2, column 11: not JSON"),
            (" ", "empty"), ("[1\x0b2]", "line 1, column 3: '\\x0b' is not allowed"), ("[1,,]", "line 1, column 4: a number is missing"),
            ('{"DataType":"UINT8","Values":[[1],[300]]}', "line 1, column 36: 300 does not fit UINT8"), ('["]"]', "not JSON"),
            ("[" * 100_000, "100000 brackets deep"), ('{"Values":[1],"Sizes":' + "[" * 100_000, "nested too deep"), ("[" * 70 + "1" + "]" * 70, "70 brackets deep"),
            ("[" + "1" * 2000 + "]", "a number of 2000 characters"), ("[nan(0x7f800000)]", "not the bits of a NaN"), ("[[1], {}]", "column 7: a number 1 brackets deep"),
            ('{"DataType":"INT8 \\"Values\\": [1","Values":[300]}', "is not a data type"), ('{"Sizes":[-1],"Values":[]}', "Sizes is not a list of sizes"),
        ],
    )  # fmt: skip
    def test_refused(self, tmp_path, text, problem):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(RevseqError) as caught:
            open_(tmp_path / "x.json")
        assert problem in message(caught.value)


class Packed(Contract):
    """A format that is only read where it is packed."""

    test_an_existing_output_stays = test_a_failed_write_leaves_nothing = None
    inner, pack = ".npy", gzip.compress

    def make(self, tmp_path, values):
        plain, path = tmp_path / f"x{self.inner}", tmp_path / f"x{self.suffix}"
        write(plain, values)
        path.write_bytes(type(self).pack(plain.read_bytes()))
        plain.unlink()
        return path


class TestGzip(Packed):
    suffix = ".npy.gz"


class TestBzip2(Packed):
    suffix, inner, pack = ".json.bz2", ".json", bz2.compress


class TestNotation(Contract):
    suffix = ".txt"
    is_piped = True

    def test_scalars_and_none_as_people_type_them(self, tmp_path):
        for text, values in (
            ("{ }, DataType:FLOAT32) nan // none\n", np.float32("nan")),
            ("{0}, DataType:FLOAT64)\n[]", np.empty(0)),
        ):
            (tmp_path / "x.txt").write_text(f"T: (Sizes:{text}")
            assert oracle.same_bits(open_(tmp_path / "x.txt").read(), np.asarray(values))

    def test_json_in_a_text_file(self, tmp_path):
        (tmp_path / "x.txt").write_text('{"DataType":"INT8","Values":[1]}')
        assert open_(tmp_path / "x.txt").desc.data_type is DataType.INT8


del Contract


@pytest.mark.parametrize("columns", [1 << 18, (1 << 18) + 1, (3 << 18) - 1000])
@pytest.mark.parametrize(
    "refuses", [False, pytest.param(True, marks=pytest.mark.needs("positioned calls"))]
)
def test_every_byte_of_large_writes_is_in_its_place(tmp_path, monkeypatch, columns, refuses):
    """Whole pages go straight to the disk, unless the file system refuses that, and the edges are gathered."""
    if refuses:
        pwrite = os.pwrite

        def buffered(fd, data, offset):
            if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
                raise OSError(errno.EINVAL, "Invalid argument")
            return pwrite(fd, data, offset)

        monkeypatch.setattr(os, "pwrite", buffered)
    values = np.random.default_rng(1).integers(0, 256, (3, 4 * columns), np.uint8)
    write(tmp_path / "x.npy", values)
    np.save(tmp_path / "expected.npy", values)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()


@pytest.mark.parametrize("suffix", ["json", "txt", "csv"])
def test_no_text_is_written_that_is_too_large_to_be_read(revseq, tmp_path, suffix):
    np.save(tmp_path / "x.npy", np.arange(100, dtype=np.float64).reshape(10, 10))
    code = "import revseq_cli.formats.text_files as files; files.LARGEST = 100"
    done = revseq("convert", "x.npy", f"y.{suffix}", code=code)
    done.refused(
        f"y.{suffix}: a text of ", "at most 100 bytes", "keep large tensors in .npy or .h5"
    )
    assert names(tmp_path) == {"x.npy"}


NO_NAMES = {
    "h5": ("dataset", ["/", "a//b", "./a", "a/..", ".."]),
    "npz": (
        "member",
        ["", "..", "a/../b", "/a", "a//b", "a\\b", "c:", "a\0b", "\udcff", "x" * 40_000],
    ),
    "safetensors": ("tensor", ["", "__metadata__", "\udcff"]),
    "zarr": ("array", ["..", "a/../b", ".", "a//b", "__a", "a/__b", "a/zarr.json", "a\\b", "a\0"]),
}


@pytest.mark.parametrize("suffix", NO_NAMES)
def test_names_that_no_tensor_gets(tmp_path, suffix):
    kind, refused = NO_NAMES[suffix]
    for name in refused:
        with pytest.raises(UsageError, match=f"not a valid {kind} name"):
            write(f"{tmp_path / 'x'}.{suffix}::{name}", np.zeros((3, 4), np.float32))
        assert not list(tmp_path.iterdir())


def test_diff_of_scalars(revseq, tmp_path):
    for name, value in {"a": 1.0, "b": 1.5}.items():
        np.save(tmp_path / f"{name}.npy", np.array(value))
    assert (
        "1 of 1 elements differ\n  index  A    B\n     []  1  1.5"
        in revseq("diff", "a.npy", "b.npy").failed().out
    )
