"""Jobs that end as they say and leave the same bytes on every system; what each left is a line of digests.

`pytest --golden-jobs FOLDER` writes what the jobs left to a folder, or holds it against what another system wrote there.
`SECTIONS` has command lines by subject. Those of one section run one after another in a folder with the same inputs.
The first word is the exit status where that is not 0. A last word `<file` is what the command reads from its input.
"""

import hashlib
import json
import shlex
import shutil

import h5py
import numpy as np
import pytest
from conftest import SAMPLES

from revseq_cli.commands.groups import COMMANDS

TYPES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()
SUFFIXES = ("npy", "npz", "h5", "safetensors", "zarr", "json", "txt")

SECTIONS = {
    "data types": [f"run {t}.npy m.npy --axis 1 -o y-{t}.{SUFFIXES[(i + j) % 7]}" for i, t in enumerate(TYPES) for j in (0, 3)],
    "texts": [
        *(f"{command} {t}.npy {options}" for t in TYPES for command, options in (("run", "m.npy --axis 1"), ("show", "--stats"))),
        *(f"run {t}.npy m.npy --axis 1 -f json" for t in ("f2", "f8", "u8")), "show f2.npy --stats --json",
        "run f8.npy m.npy --axis 1 --example", "run f4.npy m.npy --axis 1 --full", "run c.npy n.npy --axis 1",
    ],
    "orders and engines": [
        *(f"run {x}.npy {n}.npy --axis {axis} -o {x}-{axis}.{suffix}"
          for x, suffix in (("c", "npy"), ("fortran", "npy"), ("big", "h5"), ("fortran", "zarr"), ("big", "json"))
          for axis, n in enumerate(("n0", "n", "n2"))),
        *(f"run c.npy n.npy --axis 1 -o serial.{suffix} --engine serial --memory 400K" for suffix in SUFFIXES),
        *(f"run c.npy n.npy --axis 1 -o processes.{suffix} --engine processes --jobs 2" for suffix in ("npy", "h5", "zarr")),
    ],
    "conversions": [
        *(f"convert c.npy from.{suffix}" for suffix in SUFFIXES),
        *(f"convert from.{a} {a}-to.{b}" for a in SUFFIXES for b in SUFFIXES if (len(a) + len(b)) % 2 or a == b),
        *(f"diff c.npy {a}-to.{a}" for a in SUFFIXES),
        "1 diff c.npy big.npy", "1 diff c.npy fortran.npy --json",
    ],
    "HDF5": [
        "run c.npy n.npy --axis 1 -o a.nc", "show a.nc --json",
        "run samples/example1.h5::input samples/example1.h5::lengths --axis 3 -o copy.h5",
        "run samples/example1.h5::input samples/example1.h5::lengths --axis 3 -o alone.h5 --only",
    ],
    "pipes": [
        "run c.npy n.npy --axis 1 -o - -f npy", "convert - y.npy -f npy <c.npy", "run - n.npy --axis 1 -f npy <c.npy",
        "convert c.npy - -f json", "show - <c.npy", "verify - <samples/page.md", "run - <samples/example1.txt",
        "batch - --json <samples/batch.jsonl",
    ],
    "samples": [
        *(f"{command} samples/example{n}.txt" for n in (1, 2) for command in ("run", "check", "verify")),
        "check samples/example1.txt --json", "1 check f8.npy m.npy --axis 1 --feature-level 4_0",
        'run "[[1, 2, 3, 4], [5, 6, 7, 8]]" "[[3], [9]]" --axis 1', "verify samples/page.md --json",
        "run samples/page.md::1 --picture page.svg", "run samples/page.md::2 --picture page2.svg --color always",
        "export samples/example1.npy samples/example1-lengths.npy --axis 3 -o model.json",
        "run samples/example2.txt --dry-run --json", "run c.npy n.npy --axis 1 --json -o s.npy",
        "check c.npy n.npy --axis 1 --color always",
    ],
    "refusals": [
        '2 run "[[1, 2], [3]]" "[[1]]" --axis 1', '2 run "[[1, 16777217]]" "[[1]]" --axis 1',
        "2 run absent.npy n.npy --axis 1", "2 run c.npy n.npy --axis 7", "2 run c.npy n0.npy --axis 1", "2 convert c.npy c.npy",
        "2 convert c.npy samples/", "2 show c.npy::a", "2 show ü.npy", "2 run", "2 nothing",
    ],
    "help": ["--help", "--version", "levels", "levels --json", *(f"{name} --help" for name in COMMANDS), "completion zsh"],
}  # fmt: skip


def make_inputs(folder):
    """The same bytes on every system."""
    sizes = (4, 33, 17)
    for name in TYPES:
        kind = np.dtype(f"<{name}")
        small = (np.arange(12).reshape(3, 4) * 5 % 23).astype(kind)
        np.save(folder / f"{name}.npy", small / kind.type(4) if kind.kind == "f" else small)
    values = (np.arange(4 * 33 * 17) * 2654435761 % 2**24).astype("<f4").reshape(sizes)
    np.save(folder / "c.npy", values)
    np.save(folder / "fortran.npy", np.asfortranarray(values + 1))
    np.save(folder / "big.npy", values.astype(">f4") * 2)
    for name, axis in (("n0", 0), ("n", 1), ("n2", 2)):
        wanted = [1 if i == axis else size for i, size in enumerate(sizes)]
        np.save(
            folder / f"{name}.npy",
            (np.arange(np.prod(wanted)) * 7 % 36).astype("<u4").reshape(wanted),
        )
    np.save(folder / "m.npy", np.array([[2], [9], [3]], "<u4"))
    shutil.copytree(SAMPLES, folder / "samples")


def left_by(folder, line, revseq):
    """What one command left: its exit status, and digests of both outputs and of the new files."""
    words = shlex.split(line)
    expected = int(words.pop(0)) if words[0].isdigit() else 0
    stdin = (folder / words.pop()[1:]).read_bytes() if words[-1].startswith("<") else b""
    before = set(folder.rglob("*"))
    done = revseq(
        *words, stdin=stdin, cwd=folder, env={"SOURCE_DATE_EPOCH": "0"}
    )  # in the history of NetCDF files
    assert done.status == expected, (line, done.err)
    new = sorted((path for path in set(folder.rglob("*")) - before if path.is_file()), key=str)
    files = [f"{path.relative_to(folder).as_posix()}={digest_of(path)}" for path in new]
    return " ".join(
        [str(done.status), f"out={_digest(done.raw)}", f"err={_digest(done.err.encode())}", *files]
    )


def _digest(data):
    return hashlib.sha256(data).hexdigest()[:16] if data else "nothing"


def digest_of(path):
    """The digest of a file's bytes; of HDF5's those of what it holds, since each version of HDF5 lays it out anew."""
    if path.suffix not in (".h5", ".nc"):
        return _digest(path.read_bytes())
    kept = []

    def keep(name, item):
        names = [
            each for each in sorted(item.attrs) if "REFERENCE" not in each and "_LIST" not in each
        ]  # no addresses
        kept.append((name, [(each, str(item.attrs[each])) for each in names]))
        if isinstance(item, h5py.Dataset):
            plain = (
                item.dtype.str,
                item.shape,
                item.maxshape,
                item.chunks,
                item.compression,
                item.shuffle,
            )
            kept.append((*plain, repr(item.fillvalue), item[()].tobytes().hex()))

    with h5py.File(path) as file:
        keep("/", file)
        file.visititems(keep)
    return _digest(json.dumps(kept).encode())


@pytest.mark.parametrize("section", SECTIONS)
def test_the_golden_jobs(revseq, tmp_path, request, section):
    kept = request.config.getoption("--golden-jobs")
    if not kept:
        pytest.skip("only with --golden-jobs: one system says nothing of another")
    make_inputs(tmp_path)
    left = {line: left_by(tmp_path, line, revseq) for line in SECTIONS[section]}
    file = kept / f"{section}.json"
    if not file.exists():
        file.write_text(json.dumps(left, indent=1))
    there = json.loads(file.read_text())
    assert {line: left[line] for line in left if left[line] != there[line]} == {}
