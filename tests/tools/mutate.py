"""Changes a module of the package, one place at a time, and lists the changes that no test notices.

    python tests/tools/mutate.py pipeline/plan.py tests/pipeline/test_plan.py [--sample 40] [--seed 16]

It works on a copy. Each mutant runs the tests until one fails, in a fork of a process that has imported what takes
long, so that the tests of a pure module take a fraction of a second. A mutant that hangs counts as noticed.
What nobody promises is not changed: texts, annotations, and what an error says. What only chooses speed is changed, and
may survive: look at each survivor, and either write the test that its promise lacks or see that nothing can tell.
"""

import argparse
import ast
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
OTHERS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult,
}  # fmt: skip


def changes(node):
    """What a field of the node may become instead, one at a time."""
    match node:
        case ast.Compare(ops=ops):
            return [
                ("ops", [*ops[:i], OTHERS[type(op)](), *ops[i + 1 :]]) for i, op in enumerate(ops)
            ]
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() if type(node.op) in OTHERS:
            return [("op", OTHERS[type(node.op)]())]
        case ast.UnaryOp(op=ast.Not()):
            return [("operand", ast.UnaryOp(ast.Not(), node.operand))]
        case ast.Constant(value=bool()):
            return [("value", not node.value)]
        case ast.Constant(value=int() | float()):
            return [("value", node.value + 1)]
        case ast.If() | ast.IfExp():
            return [("test", ast.Constant(value)) for value in (True, False)]
        case ast.Return(value=ast.expr()) | ast.Expr(value=ast.Call()):
            return [("value", ast.Constant(None))]
    return []


def unpromised(tree):
    """The nodes that are not changed."""
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        parts += getattr(node, "decorator_list", [])
        if isinstance(node, ast.JoinedStr | ast.Raise) or (
            isinstance(node, ast.keyword) and node.arg == "strict"
        ):
            parts.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.append(node)
        for part in filter(None, parts):
            yield from map(id, ast.walk(part))


def mutants(source):
    """Each change: its line, it in words, and the whole text with it."""
    tree, texts = ast.parse(source), {ast.unparse(ast.parse(source))}
    skipped = {*unpromised(tree)}
    for node in [each for each in ast.walk(tree) if id(each) not in skipped]:
        before = ast.unparse(node).partition("\n")[0]
        for field, value in changes(node):
            kept = getattr(node, field)
            setattr(node, field, value)
            text = ast.unparse(ast.fix_missing_locations(tree))
            if text not in texts:
                texts.add(text)
                yield node.lineno, f"{before} -> {ast.unparse(node).partition(chr(10))[0]}", text
            setattr(node, field, kept)


def notices(tests, seconds):
    """Whether one of the tests fails, or hangs, in a process of its own."""
    pid = os.fork()
    if not pid:
        os.setsid()
        for fd in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
        import pytest

        unasked = [
            "-xq",
            "-n0",
            "-pno:cacheprovider",
            "-Wignore::pytest.PytestAssertRewriteWarning",
        ]
        os._exit(pytest.main([*unasked, *tests]))
    deadline = time.monotonic() + seconds
    while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # and what it started
    return (ended if ended[0] else os.waitpid(pid, 0))[1] != 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--sample", type=int, default=1 << 30)
    parser.add_argument("--seed", type=int, default=16)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns(
            ".git", ".venv", ".*_cache", ".hypothesis", "build", "__pycache__"
        )
        shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=ignored)
        os.chdir(folder)
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": folder}
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        import h5py  # noqa: F401 - for the forks
        import hypothesis

        hypothesis.settings.register_profile(
            "mutants", database=None, phases=[hypothesis.Phase.generate]
        )
        hypothesis.settings.load_profile("mutants")
        path = Path("revseq_cli", wanted.module)
        began = time.monotonic()
        assert not notices(wanted.tests, 1200), "the tests fail as it is"
        seconds = 20 + 4 * (time.monotonic() - began)  # what takes longer hangs
        found = [*mutants(path.read_text())]
        found = random.Random(wanted.seed).sample(found, min(wanted.sample, len(found)))
        survivors = 0
        for line, words, text in sorted(found):
            path.write_text(text)
            if not notices(wanted.tests, seconds):
                survivors += 1
                print(f"{wanted.module}:{line}: {words}", flush=True)
        print(f"{len(found) - survivors} of {len(found)} are noticed")


if __name__ == "__main__":
    main()
