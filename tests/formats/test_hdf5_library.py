"""HDF5's library starts as in an empty environment: no variable loads code, crashes the start or changes what is read."""

import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import oracle
import pytest
from oracle import expected

VALUES = np.random.default_rng(1).random((64, 32))
LENGTHS = np.full((64, 1), 9, "u4")
RUN = ("run", "x.h5", "n.npy", "--axis", 1, "--feature-level", "none", "-o", "y.h5")
PLUGIN = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
    FILE *file = fopen(getenv("MARK"), "a");
    if (file) { fputs("loaded", file); fclose(file); }
}
int H5PLget_plugin_type(void) { return %d; }
const void *H5PLget_plugin_info(void) { return 0; }
"""
GARBAGE = [
    {"HDF5_DRIVER": "garbage"},
    {"HDF5_DRIVER": "core", "HDF5_DRIVER_CONFIG": "\x1b[31m"},
    {"HDF5_DRIVER": "family"},
    {"HDF5_VOL_CONNECTOR": "garbage under_vol=0;under_info={}"},
    {"HDF5_VOL_CONNECTOR": "99999"},
    {"HDF5_PLUGIN_PATH": ":::", "HDF5_PLUGIN_PRELOAD": "x"},
    {"HDF5_DEBUG": "all trace 2"},
]


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    np.save(tmp_path / "x.npy", VALUES)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=VALUES, chunks=(8, 32), compression="gzip")
    return tmp_path


def right(path):
    with h5py.File(path) as f:
        (name,) = f
        assert oracle.same_bits(f[name][()], expected(VALUES, LENGTHS, 1))


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """Folders of shared objects that leave a mark when they are loaded, each with the variable that makes HDF5 do so."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or os.name == "nt":
        pytest.skip("there is no C compiler to build a shared object with")
    found = {}
    for variable, kind in (("HDF5_VOL_CONNECTOR", 1), ("HDF5_DRIVER", 2)):
        folder = tmp_path_factory.mktemp("plugins")
        (folder / "plugin.c").write_text(PLUGIN % kind)
        built = [compiler, "-shared", "-fPIC", "-o", folder / "libplugin.so", folder / "plugin.c"]
        subprocess.run(built, check=True)
        env = {variable: "own", "HDF5_PLUGIN_PATH": str(folder), "MARK": str(folder / "mark")}
        subprocess.run([sys.executable, "-c", "import h5py"], env=os.environ | env, capture_output=True, check=False)
        if not (folder / "mark").exists():
            pytest.skip(f"this HDF5 loads nothing for {variable}")
        found[variable] = env
    return found


COMMANDS = {
    "show": ("show", "x.h5"),
    "run": (*RUN, "--verify"),
    "processes": (*RUN, "--engine", "processes", "--jobs", 2, "--memory", "20K", "--verify"),
    "dask": (*RUN, "--engine", "dask", "--jobs", 2, "--memory", "20K"),
    "output": ("run", "x.npy", *RUN[2:], "--compression", "gzip", "--engine", "processes", "--memory", "60K"),
    "batch": ("batch", "jobs.jsonl", "--feature-level", "none", "--engine", "processes", "--memory", "20K"),
}


@pytest.mark.long
@pytest.mark.parametrize("variable", ["HDF5_VOL_CONNECTOR", "HDF5_DRIVER"])
@pytest.mark.parametrize("command", COMMANDS)
def test_h66_no_code_is_loaded_when_the_library_starts(folder, revseq, plugins, command, variable):
    if command == "dask":
        pytest.importorskip("distributed")
    job = {"input": "x.h5", "lengths": "n.npy", "axis": 1, "output": "y.h5"}
    (folder / "jobs.jsonl").write_text(json.dumps(job) + "\n")
    mark = folder / "mark"
    done = revseq(*COMMANDS[command], env=plugins[variable] | {"MARK": str(mark)}).ok()
    assert not mark.exists()
    for name in (variable, "HDF5_PLUGIN_PATH"):
        assert done.err.count(f"Note: the variable {name} is ignored") == 1
    if command != "show":
        right(folder / "y.h5")


@pytest.mark.long
@pytest.mark.parametrize(("env", "command"), [*((env, "show") for env in GARBAGE), (GARBAGE[1], "processes")])
def test_garbage_in_the_environment(folder, revseq, env, command):
    done = revseq(*COMMANDS[command], env=env).ok()
    assert done.err.splitlines() == [
        f"Note: the variable {name} is ignored, since it can load code or change how HDF5 files are read"
        for name in sorted(env)
    ]
    assert revseq(*COMMANDS[command], *(["--overwrite"] * (command != "show")), "-q", env=env).ok().err == ""
    if command != "show":
        right(folder / "y.h5")


def test_what_needs_no_hdf5_says_nothing_of_it(folder, revseq):
    assert revseq("show", "x.npy", env=GARBAGE[0]).ok().err == ""


def test_locks_are_the_users_choice(folder, revseq):
    """HDF5_USE_FILE_LOCKING is heeded: a file that a writer has locked can be read on the user's own account."""
    with h5py.File(folder / "x.h5", "a", locking=True):
        revseq("show", "x.h5").refused("is being written by another process")
        assert revseq("show", "x.h5", env={"HDF5_USE_FILE_LOCKING": "FALSE"}).ok().err == ""


def test_a_worker_of_another_machine():
    """It has an environment of its own, and meets HDF5 when it is handed a task."""
    code = "import os, revseq_cli.formats.hdf5.source; print(sorted(each for each in os.environ if each.startswith('HDF5_')))"
    command, env = [sys.executable, "-c", code], {name: "garbage" for each in GARBAGE for name in each}
    done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n")
