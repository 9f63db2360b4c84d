"""The shape of the package: what imports what, what --help loads, and what README and the manual say of it."""

import ast
import doctest
import json
import re
import subprocess
import sys

import pytest
from conftest import COMMAND, ROOT

import revseq_cli.arrays
from revseq_cli.commands.groups import COMMANDS

PACKAGE = ROOT / "revseq_cli"
README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")
}


def imports(path):
    """The modules that a file imports, but for types alone."""
    tree = ast.parse(path.read_text())
    blocks = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"
    ]
    skipped = {child for block in blocks for child in ast.walk(block)}
    for node in {*ast.walk(tree)} - skipped:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                name if name in MODULES or f"{name}.__init__" in MODULES else node.module
                for name in names
            )


def package(module):
    """The folder at the top of the package; for the files there, their own names."""
    return module.split(".")[1] if "." in module else "__init__"


def test_packages_import_what_the_table_of_the_guide_allows():
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", GUIDE, re.MULTILINE))
    for module, path in MODULES.items():
        ours = {package(name) for name in imports(path) if name.partition(".")[0] == "revseq_cli"}
        assert ours - {package(module), "__init__"} <= {
            *re.findall(r"\w+", rows[package(module)])
        }, module


def test_no_modules_of_a_package_import_each_other_in_a_circle():
    """Imports inside functions count, too."""
    arrows = {}
    for module, path in MODULES.items():
        names = {name if name in MODULES else f"{name}.__init__" for name in imports(path)}
        arrows[module] = {
            name for name in names if package(name) == package(module) and name in MODULES
        }
    while leaves := [module for module, names in arrows.items() if not names - {module}]:
        for leaf in leaves:
            del arrows[leaf]
        for names in arrows.values():
            names.difference_update(leaves)
    assert not arrows


def functions_of(module):
    """The functions of a module of `files`, by their names."""
    tree = ast.parse((PACKAGE / "files" / module).read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_what_is_left_to_a_function_for_addresses_takes_the_same_arguments():
    count = 0
    for name, function in functions_of("__init__.py").items():
        for branch in function.body:
            first = getattr(branch, "body", [None])[0]
            if isinstance(branch, ast.If) and isinstance(first, ast.ImportFrom):
                module = first.names[0].name
                if ast.unparse(branch.test).startswith("is_address("):
                    twin = functions_of(f"remote/{module}.py")[name]
                    assert ast.dump(twin.args) == ast.dump(function.args), name
                    count += 1
    assert count > 10


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
        heavy = {
            "h5py",
            "rich",
            "dask",
            "shutil",
            "tempfile",
            "hashlib",
            "secrets",
            "xml",
            "concurrent",
            "logging",
        }
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
    done = subprocess.run(
        [*COMMAND, *command.split()[1:]], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == printed


def test_every_hazard_has_its_test():
    """What a test is called says which of the list it guards."""
    modes = (ROOT / "tests" / "failure_modes.md").read_text()
    listed = [int(n) for n in re.findall(r"^\| (\d+) \|", modes, re.MULTILINE)]
    assert listed == sorted({*listed})
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"^ *def test_((?:h\d+_)+)", text, re.MULTILINE)
    assert {int(n) for name in named for n in re.findall(r"\d+", name)} == set(listed)


def test_the_guide_names_files_that_exist():
    names = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.\w+)[`, ]", GUIDE)
    assert len(names) > 30
    assert [n for n in names if not (ROOT / n).exists() and not (PACKAGE / n).exists()] == []
