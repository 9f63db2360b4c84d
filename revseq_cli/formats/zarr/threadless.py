"""The package zarr without its threads: what it would hand to them is done in the thread that asks.

Its own way starts a thread for its event loop, and more for files and codecs; where one cannot be started, or ends for
want of memory, whoever waits for it waits for ever. Blocks are done side by side by our own workers.
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
    """An event loop that has no threads to hand work to."""

    def run_in_executor(self, _: object, function: Callable[..., Any], *arguments: object) -> asyncio.Future[Any]:
        """What the function gives, which is known when this returns."""
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(e)
        return future


def done(work: Coroutine[Any, Any, _Result]) -> _Result:
    """What the work gives; what it has left undone when it fails is cancelled."""
    with contextlib.closing(work), asyncio.Runner(loop_factory=_Here) as runner:
        return runner.run(work)


class Array:
    """An array of zarr's, read and written region by region."""

    def __init__(self, array: Any) -> None:  # noqa: ANN401 - zarr's AsyncArray
        self._array, self.dtype = array, array.dtype

    def __getitem__(self, region: tuple[slice, ...]) -> Any:  # noqa: ANN401 - zarr's kinds of arrays
        return done(self._array.getitem(region))

    def __setitem__(self, region: tuple[slice, ...], values: NDArray[Any]) -> None:
        done(self._array.setitem(region, values))
