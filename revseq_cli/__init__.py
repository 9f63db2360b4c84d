"""DirectML's operator DML_REVERSE_SUBSEQUENCES for NumPy arrays.

The command `revseq` runs it on tensor files.

>>> import numpy as np, revseq_cli
>>> revseq_cli.reverse_subsequences(np.arange(1, 9).reshape(2, 4), [3, 0], axis=1)
array([[3, 2, 1, 4],
       [5, 6, 7, 8]])
"""

from __future__ import annotations

# The command begins here, too. A signal during an import gives a traceback, so that nothing is
# imported now, not even typing.
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

_CLASSES = {"RevseqError": "core.errors", "FormatError": "core.errors", "UsageError": "core.errors"}
_CLASSES |= {"Constraint": "operator.spec", "SpecError": "operator.spec"}


def __getattr__(name: str) -> object:
    """A name of `__all__`, whose module is imported now; AttributeError for any other name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = _CLASSES.get(name, "arrays")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    """What `help()` and completion list."""
    return [*globals(), *__all__]
