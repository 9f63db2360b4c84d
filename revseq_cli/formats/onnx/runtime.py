"""The package onnxruntime, an extra: it is imported, runs models, and its errors become ours."""

# ruff: noqa: ANN401 - the package onnxruntime has no types

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.formats.refusals import import_extra

RUNTIME = "ONNX Runtime"
CPU = "CPUExecutionProvider"
_WRITES_EMPTY = (1, 28)  # the first version whose CPU provider writes sequences of length 0
_QUIET = 4  # the level of its log at which it prints only what ends the process


def import_runtime(package: str = "onnxruntime") -> ModuleType:
    """ONNX Runtime, which prints nothing; FormatError if it is missing or damaged.

    `package` is the name of the package to install, which may have other providers.
    """
    try:
        runtime = import_extra("onnxruntime", "not installed", RUNTIME, package)
    except ImportError as e:  # as on a Windows without the libraries of Visual C++
        found = f"cannot be loaded: {e}"
        raise FormatError(found, "a package that Python can load", where=RUNTIME) from None
    runtime.set_default_logger_severity(_QUIET)
    return runtime


@contextlib.contextmanager
def quote_errors(where: str, error: type[RevseqError]) -> Iterator[None]:
    """Turn every error of ONNX Runtime into one of the class `error`, which quotes it.

    Its own errors have no class in common.
    """
    try:
        yield
    except RevseqError:
        raise
    except Exception as e:  # noqa: BLE001
        raise error(f"{RUNTIME} says {' '.join(str(e).split())[:400]}", where=where) from None


def require_empty_written(runtime: ModuleType, where: str, found: str) -> None:
    """FormatError for a version that does not write sequences of length 0.

    See microsoft/onnxruntime#28490. `found` begins the message: what depends on such sequences.
    """
    version = tuple(map(int, runtime.__version__.split(".")[:2]))
    if version < _WRITES_EMPTY:
        raise FormatError(
            f"{found}, and {RUNTIME} {runtime.__version__} leaves lines of length 0 unwritten",
            f"{RUNTIME} {'.'.join(map(str, _WRITES_EMPTY))} or newer",
            platform.pip("install --upgrade onnxruntime"),
            where,
        )


def open_session(runtime: ModuleType, model: bytes) -> Any:
    """A session that runs a model as it is, on the CPU."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model, options, providers=[CPU], enable_fallback=0)
