"""DirectML's operator DML_REVERSE_SUBSEQUENCES for NumPy arrays.

The command `revseq` runs it on tensor files.

>>> import numpy as np, revseq_cli
>>> revseq_cli.reverse_subsequences(np.arange(1, 9).reshape(2, 4), [3, 0], axis=1)
array([[3, 2, 1, 4],
       [5, 6, 7, 8]])
"""

from __future__ import annotations

# The command imports this module, too, and Ctrl-C during an import would print a traceback. So
# nothing is imported here, not even typing's TYPE_CHECKING.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from revseq_cli.arrays import Explanation, explain, reverse_subsequences, violations
    from revseq_cli.core.errors import FormatError, RevseqError, UsageError
    from revseq_cli.operator.spec import Constraint, SpecError

__version__ = "1.0.0"
__all__ = [
    "Constraint", "Explanation", "FormatError", "RevseqError", "SpecError", "UsageError", "explain",
    "reverse_subsequences", "violations",
]  # fmt: skip

# The modules of the public names.
_MODULES = {
    "Constraint": "operator.spec",
    "Explanation": "arrays",
    "FormatError": "core.errors",
    "RevseqError": "core.errors",
    "SpecError": "operator.spec",
    "UsageError": "core.errors",
    "explain": "arrays",
    "reverse_subsequences": "arrays",
    "violations": "arrays",
}


def __getattr__(name: str) -> object:
    """A public name, whose module is imported now; AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """What `help()` and completion list."""
    return [*globals(), *__all__]
