"""The shape of the package: what imports what, what --help loads, and what README and the manual say of it."""

import ast
import doctest
import functools
import json
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import COMMAND, ROOT

import revseq_cli.arrays
from revseq_cli.commands.cli import COMMANDS
from revseq_cli.formats import table as formats_table

PACKAGE = ROOT / "revseq_cli"
README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
OTHERS = {"numpy", "h5py", "rich", "click"}


@functools.cache
def parsed(path):
    """The syntax tree of a file, which several tests look at."""
    return ast.parse(path.read_text())


def imports(path, *, typing=False, later=True):
    """The modules of ours and the packages that a file imports; with `typing` also those for type checking alone.

    Without `later`, what functions import when they are called is left out.
    """
    tree = parsed(path)
    skipped = set() if typing else type_checking(tree)
    if not later:
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        skipped |= {child for function in functions for child in ast.walk(function)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES or f"{name}.__init__" in MODULES else node.module for name in names)


def type_checking(tree):
    """Every node below an `if TYPE_CHECKING`."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    return {child for block in blocks for child in ast.walk(block)}


def packages(path):
    return {name.partition(".")[0] for name in imports(path)}


def package(module):
    """The folder at the top of the package; for the two files there, their own names."""
    return module.split(".")[1] if "." in module else "__init__"


def allowed_imports():
    """The table of the guide: what each package may import, beside itself."""
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", GUIDE, re.MULTILINE)
    return {name: set(re.findall(r"\w+", allowed)) for name, allowed in rows if name in {package(m) for m in MODULES}}


def test_the_table_has_every_package():
    assert set(allowed_imports()) == {package(module) for module in MODULES}


@pytest.mark.parametrize("name", sorted({package(module) for module in MODULES}))
def test_packages_import_what_the_table_allows(name):
    found = {package(each) for module, path in MODULES.items() if package(module) == name for each in imports(path)
             if each.partition(".")[0] == "revseq_cli"}  # fmt: skip
    assert found - {name, "__init__"} <= allowed_imports()[name]


def test_no_module_imports_itself_by_way_of_others():
    """Not even for type checking; a format's module may load its sink where one is made."""
    found = {
        name: {each for each in imports(path, typing=True, later=False) if each in MODULES} - {name}
        for name, path in MODULES.items()
    }
    while leaves := {name for name, needs in found.items() if not needs & found.keys()}:
        found = {name: needs for name, needs in found.items() if name not in leaves}
    assert not found


def test_every_module_is_used():
    used = {each for name, path in MODULES.items() for each in imports(path, typing=True) if each != name}
    used |= {f"revseq_cli.commands.{name}" for name in COMMANDS}
    used |= {f"revseq_cli.formats.{each.module.partition(':')[0]}" for each in formats_table.FORMATS}
    begins = {name for name in MODULES if name.endswith(("__init__", "__main__"))}
    assert set(MODULES) - used - begins == set()


def test_only_commands_and_the_boundary_know_click():
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "commands" and path.stem != "__main__":
            assert "click" not in packages(path), path


SYSTEM = re.compile(
    r"\bos\.(pread|pwrite|preadv|posix_\w+|ftruncate|fsync|fchown|fchmod|link|statvfs|copy_file_range|name\b|O_(?!RDONLY|WRONLY))"
    r"|\bsys\.platform|\bhasattr\((os|signal)\b|\b(import|from) (fcntl|ctypes|msvcrt|shlex)\b|\bpthread_sigmask|\bsetitimer"
)


def test_only_the_modules_of_the_system_know_it():
    for path in PACKAGE.rglob("*.py"):
        if path.stem != "platform":
            assert not SYSTEM.search(path.read_text()), path


# Asks for one help after another, and says on standard error what is loaded after each.
_MODULES = """
import json, os, sys
class Ended(BaseException):
    pass
def end(status):
    raise Ended
from revseq_cli.__main__ import main
asked, os._exit = json.loads(sys.argv[1]), end
for args in asked:
    sys.argv[1:] = args
    sys.stdout, sys.stderr = (open(fd, "w", closefd=False) for fd in (1, 2))
    try:
        main()
    except Ended:
        os.write(2, " ".join([*sys.modules, "\\n"]).encode())
"""


def test_help_loads_nothing_heavy():
    asked = [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
    command = [sys.executable, "-c", _MODULES, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for args, names in zip(asked, done.stderr.splitlines(), strict=True):
        loaded = {name.split(".")[0] for name in names.split()}
        assert "click" in loaded
        assert not loaded & {"numpy", "h5py", "rich", "multiprocessing", "concurrent", "dask"}, args


def test_a_run_on_text_loads_no_package_that_it_does_not_need(tmp_path):
    code = "import revseq_cli.pipeline.suggest, revseq_cli.report.objects, revseq_cli.report.view, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not {"h5py", "rich", "zarr", "numcodecs"} & {*done.stdout.split()}


def test_a_small_job_loads_only_what_it_needs(tmp_path):
    """What others need took a tenth of its time."""
    peer = [sys.executable, "-c", "import click, numpy, sys; print(*sys.modules)"]
    needed = {*subprocess.run(peer, capture_output=True, text=True, check=True).stdout.split()}
    example = str(ROOT / "samples" / "example1.txt")
    asked = [["run", example], ["run", example, "-o", str(tmp_path / "y.npy")]]
    command = [sys.executable, "-c", _MODULES, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    for args, names in zip(asked, done.stderr.splitlines(), strict=True):
        loaded = {name.split(".")[0] for name in {*names.split()} - needed}
        assert "revseq_cli" in loaded
        heavy = {"h5py", "rich", "dask", "shutil", "tempfile", "hashlib", "secrets", "xml", "concurrent", "logging"}
        assert not loaded & heavy, args


@pytest.mark.parametrize("module", [revseq_cli, revseq_cli.arrays])
def test_the_examples_of_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert failed == 0 < tried


def test_the_python_of_the_readme():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(code, names)
    found = names["revseq_cli"].reverse_subsequences(names["values"], axis=1, padding=0)
    assert found.tolist() == [[3, 2, 1, 0], [6, 5, 0, 0]]


def test_the_first_block_of_the_readme_prints_what_it_says(tmp_path):
    first, printed = re.findall(r"```(?:sh)?\n(.*?)```", README, re.DOTALL)[:2]
    command = first.strip().rpartition(" && .venv/bin/")[2]
    done = subprocess.run([*COMMAND, *command.split()[1:]], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == printed


def test_the_runtime_packages_are_four():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.match(r"\w+", each)[0] for each in project["dependencies"]} == OTHERS
    assert (PACKAGE / "py.typed").exists()


def test_every_hazard_has_its_test():
    """What a test is called says which of the list it guards."""
    modes = (ROOT / "tests" / "failure_modes.md").read_text()
    listed = [int(n) for n in re.findall(r"^\| (\d+) \|", modes, re.MULTILINE)]
    assert listed == sorted({*listed})
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"^ *def test_((?:h\d+_)+)", text, re.MULTILINE)
    assert {int(n) for name in named for n in re.findall(r"\d+", name)} == set(listed)


@pytest.mark.needs("shell")
def test_the_files_that_ci_names_are_there():
    names = re.findall(r"(?<![\w/])tests/[\w/*{},.]+", (ROOT / ".ci/run").read_text())
    done = subprocess.run(
        ["bash", "-c", f"ls -d {' '.join(names)}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(names) > 5
