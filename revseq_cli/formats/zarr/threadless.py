"""The package zarr without threads of its own: all its work is done in the calling thread.

By itself it starts a thread for its event loop, and more for files and codecs; where one cannot be started, or ends
because memory is out, the caller waits for ever. Blocks are done in parallel by this program's own workers.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from numpy.typing import NDArray

_Result = TypeVar("_Result")


class _Here(asyncio.SelectorEventLoop):
    """An event loop without threads: work for another thread is done at once, in this one."""

    def run_in_executor(self, _: object, function: Callable[..., Any], *arguments: object) -> asyncio.Future[Any]:
        """Call the function; the future has its result already."""
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(e)
        return future


def done(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end and return its result; its other tasks are cancelled if it fails."""
    with contextlib.closing(work), asyncio.Runner(loop_factory=_Here) as runner:
        return runner.run(work)


class Array:
    """An array of the package zarr, read and written by region in the calling thread."""

    def __init__(self, array: Any) -> None:  # noqa: ANN401 - zarr's AsyncArray
        self._array, self.dtype = array, array.dtype

    def __getitem__(self, region: tuple[slice, ...]) -> Any:  # noqa: ANN401 - zarr's kinds of arrays
        return done(self._array.getitem(region))

    def __setitem__(self, region: tuple[slice, ...], values: NDArray[Any]) -> None:
        done(self._array.setitem(region, values))
