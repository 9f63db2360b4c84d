"""Storage that goes along: chunks and fill values between formats, types of attributes from HDF5 to HDF5."""

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs

JOB = ("[3, 1]", "--axis", 1, "--batch-axis", 0)
DATA = np.arange(8, dtype="f4").reshape(2, 4)


def array_of(path, name="x"):
    return zarr.open_group(path, mode="r")[name]


def test_chunks_and_fill_value_of_hdf5_in_zarr(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=DATA, chunks=(1, 3), compression="gzip", fillvalue=-9)
    for command in (("run", "x.h5", *JOB, "-o", "y.zarr"), ("convert", "x.h5", "z.zarr")):
        assert revseq(*command).ok().err == ""
        array = array_of(tmp_path / command[-1])
        assert (array.chunks, array.fill_value) == ((1, 3), -9)
    assert np.array_equal(array[...], DATA)
    revseq("convert", "z.zarr::x", "back.h5").ok()
    with h5py.File(tmp_path / "back.h5") as file:
        assert (file["x"].chunks, file["x"].fillvalue) == ((1, 3), -9)


def codec_of_3(name, **configuration):
    return {"compressors": {"name": f"numcodecs.{name}", "configuration": configuration}}


NOT_COMPRESSED = [
    (2, {"filters": [numcodecs.Shuffle(4)]}),
    (2, {"filters": [numcodecs.Base64()]}),
    (2, {"filters": [numcodecs.Delta("<i4")]}),
    (2, {"compressors": numcodecs.Adler32()}),
    (2, {"compressors": numcodecs.CRC32()}),
    (2, {"compressors": numcodecs.Fletcher32()}),
    (2, {"compressors": numcodecs.JenkinsLookup3()}),
    (3, codec_of_3("adler32")),
    (3, codec_of_3("crc32")),
    (3, codec_of_3("fletcher32")),
    (3, codec_of_3("jenkins_lookup3")),
    (3, codec_of_3("shuffle", elementsize=4)),
    (3, {"compressors": zarr.codecs.Crc32cCodec()}),
    (3, {"shards": (2, 4)}),
]
COMPRESSED = [
    (2, {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib()}),
    (2, {"compressors": numcodecs.LZMA()}),
    (3, codec_of_3("bz2")),
    (3, {"shards": (2, 4), "compressors": zarr.codecs.ZstdCodec()}),
]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize(("version", "options"), NOT_COMPRESSED + COMPRESSED)
def test_only_what_zarr_compresses_is_compressed_in_hdf5(revseq, tmp_path, version, options):
    stored = {"compressors": None, **options}
    values = DATA.astype("i4")
    zarr.create_array(
        str(tmp_path / "x.zarr"), data=values, chunks=(1, 2), zarr_format=version, **stored
    )
    revseq("convert", "x.zarr", "y.h5::x").ok()
    with h5py.File(tmp_path / "y.h5") as file:
        dataset = file["x"]
        assert dataset.chunks == (1, 2)
        is_compressed = (version, options) in COMPRESSED
        assert dataset.compression == ("gzip" if is_compressed else None)
        assert dataset.shuffle == is_compressed
        assert np.array_equal(dataset[...], values)


def test_a_chunk_that_is_larger_than_its_tensor(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=DATA, chunks=(10, 100), maxshape=(None, None))
        file.create_dataset("empty", (0, 4), "f4", chunks=(10, 2), maxshape=(None, 4))
    revseq("convert", "x.h5::x", "y.zarr").ok()
    revseq("convert", "x.h5::empty", "z.zarr").ok()
    assert array_of(tmp_path / "y.zarr").chunks == (2, 4)
    assert array_of(tmp_path / "z.zarr", "empty").chunks == (1, 2)


def test_a_file_for_each_of_too_many_chunks_is_not_made(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (1000, 1000), "i1", chunks=(1, 1))
    assert "1,000,000 files" in revseq("convert", "x.h5", "y.zarr").ok().err


ATTRIBUTES = {
    "text": "K", "fixed": np.bytes_(b"K"), "true": np.True_, "number": 1.5, "list": np.array([1.5]), "half": np.float16(2),
    "matrix": np.arange(4, dtype="i2").reshape(2, 2), "big": np.array([1], ">i4"), "names": np.array(["a", "bc"], object),
}  # fmt: skip


@pytest.mark.parametrize("command", ["run", "convert"])
def test_attributes_keep_type_and_rank_from_hdf5_to_hdf5(revseq, tmp_path, command):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["g/x"] = DATA
        file["g/t"] = np.arange(4.0)
        file["g/t"].make_scale("t")
        file["g/x"].dims[1].attach_scale(file["g/t"])
        file["g/x"].dims[0].label = "batch"
        for item in (file, file["g"], file["g/x"], file["g/t"]):
            for name, value in ATTRIBUTES.items():
                item.attrs[name] = value
    job = {
        "run": ("run", "x.h5::g/x", *JOB, "--only", "-o", "y.h5"),
        "convert": ("convert", "x.h5::g/x", "y.h5"),
    }
    revseq(*job[command]).ok()
    with h5py.File(tmp_path / "x.h5") as old, h5py.File(tmp_path / "y.h5") as new:
        for name in ("/", "g", "g/x", "g/t"):
            for attribute in ATTRIBUTES:
                kinds = [file[name].attrs.get_id(attribute) for file in (old, new)]
                assert kinds[0].get_type() == kinds[1].get_type()
                assert kinds[0].shape == kinds[1].shape
                assert np.array_equal(old[name].attrs[attribute], new[name].attrs[attribute])
        assert {*new["g"]} == {"t", "x"}
        assert [dim.label for dim in new["g/x"].dims] == ["batch", ""]
