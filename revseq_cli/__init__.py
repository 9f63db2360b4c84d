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
if TYPE_CHECKING:  # for editors and mypy
    from revseq_cli.arrays import Explanation as Explanation
    from revseq_cli.arrays import explain as explain
    from revseq_cli.arrays import reverse_subsequences as reverse_subsequences
    from revseq_cli.arrays import violations as violations
    from revseq_cli.core.errors import FormatError as FormatError
    from revseq_cli.core.errors import RevseqError as RevseqError
    from revseq_cli.core.errors import UsageError as UsageError
    from revseq_cli.operator.spec import Constraint as Constraint
    from revseq_cli.operator.spec import SpecError as SpecError

__version__ = "1.0.0"

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
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    """A public name, whose module is imported now; AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """What `help()` and completion list."""
    return [*globals(), *__all__]
