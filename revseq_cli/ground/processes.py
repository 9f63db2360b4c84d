"""Worker processes, and messages to and from them over sockets. No wait lasts long, so that signals take effect.

The pools and queues of multiprocessing can wait without end where no signal interrupts them: for a manager thread that
has ended, or for a process that is stopped.

A message is any object that pickles. An array travels as its bytes, with data type, sizes and memory order. NumPy's own
pickles are not used: of an array that is not contiguous they make one of this machine's byte order, with equal values
and other bytes.
"""

from __future__ import annotations

import _thread
import contextlib
import copyreg
import io
import os
import pickle
import select
import selectors
import socket
import struct
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from revseq_cli.ground import allocator, stages, stopping, system, thresholds
from revseq_cli.ground.errors import Advice, EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.process import BaseProcess

    import numpy as np
    from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")  # before each message: how many bytes it has
_LONGEST_END = 5.0  # seconds to wait until the system has ended a killed process
_LOOKS, _QUIET_LOOKS = 30, 5  # at most to see that nothing is left; so many in a row that found nothing say so
_our_ends: set[socket.socket] = set()  # of all lines to workers


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Raise EngineError if the system refuses to start a thread or a process."""
    try:
        yield
    except (RuntimeError, OSError) as e:
        found, wanted = f"cannot start a worker: {e}", "threads and processes, as ulimit -u allows them"
        raise EngineError(found, wanted, Advice.of("add {}", engine="serial")) from None


def packed(message: object) -> bytes:
    """The bytes of a message; PicklingError, TypeError or AttributeError for an object that does not pickle."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, pickle.HIGHEST_PROTOCOL)
    if numpy := sys.modules.get("numpy"):  # else there is no array
        pickler.dispatch_table = copyreg.dispatch_table | {numpy.ndarray: _reduced}
    pickler.dump(message)
    return stream.getvalue()


def unpacked(data: bytes | bytearray | memoryview) -> Any:  # noqa: ANN401 - any object
    """The message of bytes that `packed` made in a process of our own."""
    return pickle.loads(data)  # noqa: S301 - from our own process


def _reduced(values: NDArray[Any]) -> tuple[Callable[..., NDArray[Any]], tuple[Any, ...]]:
    """How an array pickles: a function, and its arguments."""
    whole = values if values.flags.forc else values.copy("C")
    order = "C" if whole.flags.c_contiguous else "F"
    buffer = pickle.PickleBuffer((whole.T if order == "F" else whole).reshape(-1).view("u1").data)
    return _array, (buffer, values.dtype, values.shape, order)


def _array(data: bytearray, dtype: np.dtype[Any], shape: tuple[int, ...], order: Literal["C", "F"]) -> NDArray[Any]:
    """The array of these bytes, which it does not copy."""
    import numpy as np  # not every process has arrays

    return np.ndarray(shape, dtype, data, order=order)


class Line:
    """One end of the connection between the parent and a worker. A message is any object that pickles.

    `come` has the messages that have come and that nobody has received yet, and `unsent` those that are still to be
    sent, as bytes. Only `receive` and `send` wait, which workers call; the parent, whose end is a `Process`, waits for
    all of them in `exchange`.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end, self._lock = end, _thread.allocate_lock()
        self.come, self.unsent = deque[bytearray](), deque[memoryview]()
        # The part of a message under way, which is its length or its body, and how many bytes of it have come.
        self._part, self._is_body, self._done = bytearray(_LENGTH.size), False, 0
        self._closed = False

    def fileno(self) -> int:
        """The descriptor of the socket, for selectors."""
        return self._end.fileno()

    def send(self, message: object) -> None:
        """Send a message, and wait until it is sent; EOFError when the parent is gone."""
        self._queue(message)
        while self.unsent:
            if self.is_closed():
                raise EOFError
            if self.unsent:
                select.select([], [self], [], stopping.PATIENCE)

    def receive(self) -> Any:  # noqa: ANN401 - any object
        """Wait for the next message; EOFError when the parent is gone, and Stopped after a signal."""
        while not self.come:
            if self.is_closed() and not self.come:
                raise EOFError
            self.wait()
        return unpacked(self.come.popleft())

    def wait(self) -> None:
        """Wait until a message may have come, but at most `stopping.PATIENCE`; Stopped after a signal."""
        stopping.check()
        if not self.come:
            select.select([self], [], [], stopping.PATIENCE)

    def is_closed(self) -> bool:
        """Whether the other end is closed, after all is sent and received that needs no waiting.

        What was sent before the other end was closed is received, also where nothing can be sent to it any more.
        """
        with self._lock:  # several threads may send
            with contextlib.suppress(OSError):
                while self.unsent:
                    part = self.unsent.popleft()
                    try:
                        part = part[self._end.send(part) :]
                    finally:
                        if part:
                            self.unsent.appendleft(part)
            with contextlib.suppress(BlockingIOError):
                while not self._closed:
                    self._take_in()
        return self._closed

    def _queue(self, message: object) -> None:
        """Send a message with the next bytes, with its length in front, in one or two parts."""
        data = packed(message)
        length = _LENGTH.pack(len(data))
        parts = [length + data] if len(data) < thresholds.SMALL_MESSAGE else [length, data]
        with self._lock:
            self.unsent.extend(map(memoryview, parts))

    def _take_in(self) -> None:
        """Receive bytes of the part under way; BlockingIOError if none have come."""
        try:
            count = self._end.recv_into(memoryview(self._part)[self._done :])
        except BlockingIOError:
            raise
        except OSError:
            count = 0
        self._closed = not count
        self._done += count
        if self._done < len(self._part):
            return
        if self._is_body:
            self.come.append(self._part)
        self._part = bytearray(_LENGTH.size if self._is_body else _LENGTH.unpack(self._part)[0])
        self._is_body, self._done = not self._is_body, 0


def start_tracker() -> None:
    """Start multiprocessing's resource tracker, which otherwise starts with the first process.

    To start it unblocks signals in this thread, so call this before signals are blocked.
    """
    with starting(), system.masked():
        system.start_tracker()


class Process(Line):
    """A worker that runs `serve` with its Line. It ignores all signals but SIGTERM, and ends by SIGKILL.

    No method here waits, but `end`. The method "forkserver" would start it no faster, and leaves its folder in TMPDIR
    when a signal ends the parent.
    """

    def __init__(self, serve: Callable[[Line], None]) -> None:
        import multiprocessing

        # The fastest safe way. A forked worker has all that is imported, and shares its memory: 16 start in 0.1 s, and
        # spawning takes 0.3 s. It would also inherit locks that other threads hold. HDF5 files that the parent has open
        # do no harm: the worker opens what it reads itself, and it ends by a signal or os._exit, so that HDF5 never
        # writes the parent's file there.
        method = "fork" if system.can_fork() else "spawn"
        if method == "spawn":
            start_tracker()
        ours, theirs = socket.socketpair()
        _our_ends.add(ours)
        context: Any = multiprocessing.get_context(method)
        self._process: BaseProcess = context.Process(target=_begin, args=(serve, theirs))
        try:
            # The worker inherits the mask, so no signal ends it before it can ignore them.
            with starting(), stopping.deferred(), system.masked(), theirs:
                self._process.start()
        except BaseException:  # Stopped is one: it goes on, and our end must not stay open
            _close(ours)
            raise
        stopping.at_once[self] = self._process.kill
        super().__init__(ours)

    def send(self, message: object) -> None:
        """Queue a message; `exchange` sends it."""
        self._queue(message)

    @property
    def ended_by(self) -> str:
        """How the worker ended, for a message: "SIGKILL", or "exit status 1"."""
        return system.how_ended(self._process.exitcode)

    def terminate(self) -> None:
        """Ask the worker to undo its work and to end, which one with `stopping.obey_parent` does."""
        if system.CAN_SIGNAL:
            self._process.terminate()
        else:
            self._end.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        """Kill the worker, which may be stopped, and wait until it has ended, for at most 5 seconds."""
        stopping.at_once.pop(self, None)
        self._process.kill()
        try:
            self._process.join(_LONGEST_END)
        finally:  # later, since Wine's server may stay busy with a line that ends just when its process is killed
            _close(self._end)


def exchange(processes: Iterable[Process], seconds: float) -> Iterator[tuple[Process, Any]]:
    """Wait up to `seconds` for messages; yield each with its process, or an EOFError instead if that is gone."""
    with selectors.DefaultSelector() as selector:
        for each in processes:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if each.unsent else 0)
            selector.register(each, events)
        ready = {key.fileobj for key, _ in selector.select(seconds)}
    for each in [each for each in processes if each in ready]:
        is_gone = each.is_closed()
        while each.come:
            yield each, each.receive()
        if is_gone:
            yield each, EOFError()


def end_children(folder: str, settled: Callable[[], bool] = lambda: True) -> None:
    """Kill all child processes, even stopped ones, and remove the folder to which they wrote, for some seconds at most.

    Until `settled`, a thread may still start a process or make the folder anew: both must stay away for a while then.
    """
    import multiprocessing
    import shutil  # it takes 2 ms with what it imports, and few processes write to a folder

    quiet = 0  # looks that found neither
    for _ in range(_LOOKS):
        for each in (children := multiprocessing.active_children()):
            each.kill()
        for each in children:
            each.join(1)
        quiet = 0 if children or os.path.lexists(folder) else quiet + 1
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder) and (quiet == _QUIET_LOOKS or settled()):
            break
        time.sleep(stopping.PATIENCE)


def _close(end: socket.socket) -> None:
    """Close our end of a line."""
    _our_ends.discard(end)
    end.close()


def _begin(serve: Callable[[Line], None], end: socket.socket) -> None:
    """The main function of a worker: set up signals and memory, then run `serve`, until the parent is gone."""
    for inherited in [*_our_ends]:  # after a fork: while one is open, its worker does not see that the parent is gone
        _close(inherited)
    stages.unwatch()
    stopping.leave_to_parent()
    allocator.keep_freed()
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        serve(Line(end))
