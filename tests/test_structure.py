"""The shape of the package: what imports what, what --help loads, and what README and the manual say of it."""

import ast
import doctest
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import COMMAND, ROOT, environment

import revseq_cli
from revseq_cli.commands.cli import COMMANDS

PACKAGE = ROOT / "revseq_cli"
README = (ROOT / "README.md").read_text()
PROSE = ["README.md", *(f"man/{path.name}" for path in sorted((ROOT / "man").glob("*.md")))]
OURS = {path.stem for path in PACKAGE.glob("*.py")} | {"formats", "commands"}
OTHERS = {"numpy", "h5py", "rich", "click"}


def imports(path):
    """Our modules and the runtime packages that a file imports, but for type checking."""
    tree = ast.parse(path.read_text())
    skipped = type_checking(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "revseq_cli" and len(parts) > 1 and parts[1] in OURS:
                yield parts[1]
            elif parts[0] in OTHERS:
                yield parts[0]


def type_checking(tree):
    """Every node below an `if TYPE_CHECKING`."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    return {child for block in blocks for child in ast.walk(block)}


def options_of(name):
    """The long options of a command."""
    command = importlib.import_module(f"revseq_cli.commands.{name}").command
    return {option for each in command.params for option in (*each.opts, *each.secondary_opts)}


def table():
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", README, re.MULTILINE)
    return {
        module: set(OURS | OTHERS) if allowed == "everything" else set(re.split(r", ", allowed))
        for module, allowed in rows
    }


def files(module):
    path = PACKAGE / f"{module}.py"
    return [path] if path.exists() else sorted((PACKAGE / module).glob("*.py"))


def test_the_table_has_every_module():
    assert set(table()) == OURS


@pytest.mark.parametrize("module", sorted(OURS))
def test_imports_are_those_of_the_table(module):
    found = {name for path in files(module) for name in imports(path)} - {module}
    assert found <= table()[module]


def test_only_commands_and_the_boundary_know_click():
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "commands" and path.stem != "__main__":
            assert "click" not in set(imports(path)), path


def test_only_one_module_knows_the_operating_system():
    for path in PACKAGE.rglob("*.py"):
        if path.stem != "positioned":
            assert not re.search(r"\bos\.(pread|pwrite|preadv|posix_\w+|ftruncate)\b", path.read_text()), path


def test_only_one_module_imports_h5py():
    """It is the one that looks at the environment first."""
    found = [path.stem for path in PACKAGE.rglob("*.py") if "h5py" in set(imports(path))]
    assert found == ["hdf5_library"]


def test_every_file_says_what_lives_there():
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_no_test_imports_another():
    """What they share stands in modules of its own beside them."""
    for path in (ROOT / "tests").glob("*.py"):
        found = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            )
        }
        assert not [name for name in found if name.startswith("test_")], path


@pytest.mark.parametrize(
    "args",
    [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)],
)
def test_help_loads_nothing_heavy(args):
    code = (
        "import sys, atexit, json; sys.argv[1:] = json.loads(sys.argv[1]);"
        "import revseq_cli.__main__ as m, os; exit = os._exit;"
        "os._exit = lambda status: (print(json.dumps(sorted(sys.modules))), sys.stdout.flush(), exit(status)); m.main()"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(args)], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert "click" in loaded
    assert not loaded & {"numpy", "h5py", "rich", "multiprocessing", "concurrent", "dask"}


def test_a_run_on_text_loads_neither_h5py_nor_rich(tmp_path):
    code = "import revseq_cli.passes.jobs, revseq_cli.passes.reversal, revseq_cli.report.objects, revseq_cli.report.tables, sys; print('h5py' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "False False\n"


def test_the_docstring_of_the_package():
    assert doctest.testmod(revseq_cli).failed == 0


def test_the_python_of_the_readme():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(code, names)
    assert revseq_cli.reverse_subsequences(names["values"], names["lengths"], 1).tolist() == [
        [3, 2, 1, 4],
        [5, 6, 7, 8],
    ]


@pytest.mark.parametrize("page", PROSE)
def test_the_sessions_of_readme_and_manual(tmp_path, page):
    """Every `$ revseq ...` prints what stands below it."""
    sessions = "".join(re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.DOTALL))
    commands = re.findall(r"^\$ (revseq (?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", sessions, re.MULTILINE)
    assert len(commands) == sessions.count("$ ") > 0
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    for command, expected in commands:
        done = subprocess.run(
            command, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment({"PATH": path}), check=False,
        )  # fmt: skip
        assert done.stdout + done.stderr == expected, command


@pytest.mark.parametrize("page", PROSE)
def test_every_command_and_option_in_the_prose_exists(page):
    """Those in code; the options of dask and pip have names of their own."""
    code = " ".join(re.findall(r"```.*?```|`[^`]+`", (ROOT / page).read_text(), re.DOTALL))
    ours = {"--help", "--version"}.union(*map(options_of, COMMANDS))
    theirs = {"--port", "--nthreads", "--nworkers"}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code)) <= ours | theirs
    assert set(re.findall(r"\brevseq ([a-z]+)", code)) <= set(COMMANDS)


def test_the_first_block_of_the_readme_prints_what_it_says(tmp_path):
    first, printed = re.findall(r"```(?:sh)?\n(.*?)```", README, re.DOTALL)[:2]
    command = first.strip().rpartition(" && .venv/bin/")[2]
    done = subprocess.run([COMMAND, *command.split()[1:]], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == printed


@pytest.mark.parametrize("name", [*COMMANDS, None])
def test_the_example_of_every_help_runs(tmp_path, name):
    args = [name, "--help"] if name else ["--help"]
    text = subprocess.run([COMMAND, *args], capture_output=True, text=True, check=True).stdout
    command = re.sub(r"\s+", " ", text[text.index("Example: revseq") :]).split()[2:]
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    done = subprocess.run([COMMAND, *command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_the_runtime_packages_are_four():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.match(r"\w+", each)[0] for each in project["dependencies"]} == OTHERS
    assert (PACKAGE / "py.typed").exists()


def test_every_hazard_has_its_test():
    """What a test is called says which of the list it guards."""
    listed = [int(n) for n in re.findall(r"^\| (\d+) \|", (ROOT / "tests" / "hazards.md").read_text(), re.MULTILINE)]
    assert listed == list(range(1, len(listed) + 1))
    text = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    named = re.findall(r"^ *def test_((?:h\d+_)+)", text, re.MULTILINE)
    assert {int(n) for name in named for n in re.findall(r"\d+", name)} == set(listed)
