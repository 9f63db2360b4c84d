"""The package ONNX Runtime: found, kept quiet, and asked. What it says where it fails is told in our errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from revseq_cli.formats.contract import extra
from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from revseq_cli.ground.errors import RevseqError

NAME, PACKAGE = "ONNX Runtime", "onnxruntime"
# What is wanted where it says such words.
_WANTED = {
    "No Op registered|No opset import|not a registered": f"operators of {NAME}; libraries of others are never loaded",
    "No corresponding Numpy": "a given tensor, or computed FLOAT16 to FLOAT64, INT8 to INT64, UINT8 to UINT64, BOOL",
}
_QUIET = 4  # ONNX Runtime prints only what ends the process


def package(name: str = PACKAGE) -> ModuleType:
    """The package, which prints nothing; FormatError where it is missing, with what to install, or damaged."""
    try:
        found = extra(PACKAGE, "is not installed", NAME, name)
    except ImportError as e:  # as on a Windows without the libraries of Visual C++
        wanted = "a package that Python can load"
        raise FormatError(f"cannot be loaded: {e}", wanted, where=NAME) from None
    found.set_default_logger_severity(_QUIET)
    return found


def asked(where: str, error: type[RevseqError], ask: Callable[[], Any], it: str = "it") -> Any:  # noqa: ANN401
    """What ONNX Runtime answers; that error, with its own words, where it fails. `it` is what messages call it."""
    try:
        return ask()
    except Exception as e:  # noqa: BLE001 - its errors have no class in common
        wanted = next((right for words, right in _WANTED.items() if re.search(words, str(e))), "")
        raise error(f"{it} says {' '.join(str(e).split())[:400]}", wanted, where=where) from None
