"""The man pages are those that their sources give, free of warnings, and installed where `man` finds them."""

import json
import shutil
import subprocess
import tomllib

import manpages
import pytest
from conftest import ROOT

NAMES = sorted(manpages.pages())


@pytest.fixture(scope="session", autouse=True)
def rewritten(request):
    if request.config.getoption("--rewrite-samples"):
        manpages.write()


def test_every_page_is_current():
    found = {f"{path.parent.name}/{path.name}": path.read_text() for path in (ROOT / "man").glob("man?/*")}
    assert found == manpages.pages(), "run pytest --rewrite-samples, and review what changed"


def test_the_wheel_puts_them_where_man_looks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {f"man/man{n}": f"share/man/man{n}" for n in (1, 7)}
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"] == folders
    assert {path.name for path in (ROOT / "man").iterdir() if path.is_dir()} == {"man1", "man7"}
    assert all(name.startswith(f"man{name[-1]}/") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "tool", [("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"), ("mandoc", "-Tlint", "-W", "style")]
)
def test_no_warnings(name, tool):
    if not shutil.which(tool[0]):
        pytest.skip(f"{tool[0]} is not installed")
    done = subprocess.run([*tool, ROOT / "man" / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if tool[0] == "mandoc":
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("args", "without"),
    [
        (("run", "samples/example1.txt", "-o", "y.npy", "--sha256"), {"plan", "tensors"}),
        (("run", "samples/example1.txt", "--dry-run"), {"tensors", "output", "bytes", "verified", "clamped", "notes", "sha256"}),
        (("check", "samples/example1.txt"), {"levels", "answer", "nodes", "exit_status"}),
        (("check", "samples/example1.txt", "--feature-level", "all"), {"constraints", "answer", "nodes", "exit_status"}), (("verify", "samples/page.md"), set()),
        (("show", "samples/example1.npy", "--stats"), set()), (("levels",), set()),
        (("convert", "samples/example1.npy", "y.h5", "--sha256"), set()),
        (("diff", "samples/example1.npy", "samples/example2.npy"), {"version", "providers", "devices", "ok", "error", "line", "errors", "a"}),
        (("export", "samples/example1.txt", "-o", "m.json"), set()), (("batch", "samples/batch.jsonl", "--sha256"), {"plan", "file_systems"}),
    ],
)  # fmt: skip
def test_json_has_the_members_that_the_page_says(revseq, tmp_path, args, without):
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    done = revseq(*args, "--json")
    for line in done.out.splitlines():
        assert set(json.loads(line)) == set(manpages.JSON[args[0]]) - without
    assert done.out.count("schema") == (3 if args[0] == "batch" else 1)
