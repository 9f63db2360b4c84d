"""Worker processes, and messages to and from them over sockets. No wait lasts long, so that signals take effect.

The pools and queues of multiprocessing can wait without end where no signal interrupts them: for a manager thread that
has ended, or for a process that is stopped.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import pickle
import select
import selectors
import shutil
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from revseq_cli.ground import allocator, stages, stopping, system
from revseq_cli.ground.errors import EngineError, Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.process import BaseProcess

_LENGTH = struct.Struct("<Q")  # before each message: how many bytes it has
_SMALL = 1 << 14  # bytes; to copy them is cheaper than a second send
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
        raise EngineError(found, wanted, Words.of("add {}", engine="serial")) from None


class Line:
    """The worker's end of its connection to the parent. A message is any object that pickles.

    `come` has the messages that have come and that nobody has received yet, as bytes.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end, self._sending, self._reading = end, _thread.allocate_lock(), _thread.allocate_lock()
        self.come: deque[bytearray] = deque()
        self._closed = False

    def receive(self) -> Any:  # noqa: ANN401 - any object
        """Wait for the next message; EOFError when the parent is gone, and Stopped after a signal."""
        while not self.come:
            if self.is_closed() and not self.come:
                raise EOFError
            self.wait()
        return pickle.loads(self.come.popleft())  # noqa: S301 - from our own process

    def wait(self) -> None:
        """Wait until a message may have come, but at most `stopping.PATIENCE`; Stopped after a signal."""
        stopping.check()
        if not self.come:
            select.select([self._end], [], [], stopping.PATIENCE)

    def send(self, message: object) -> None:
        """Send a message; OSError when the parent is gone."""
        parts = _framed(message)
        with self._sending:  # several threads may send
            for part in parts:
                self._end.sendall(part)

    def is_closed(self) -> bool:
        """Whether the parent has closed its end; messages that have come before are in `come` then."""
        with self._reading:
            while not self._closed and select.select([self._end], [], [], 0)[0]:
                try:
                    (length,) = _LENGTH.unpack(self._bytes(_LENGTH.size))
                    self.come.append(self._bytes(length))
                except (EOFError, OSError):
                    self._closed = True
        return self._closed

    def _bytes(self, count: int) -> bytearray:
        data = bytearray(count)
        view, done = memoryview(data), 0
        while done < count:
            received = self._end.recv_into(view[done:])
            if not received:
                raise EOFError
            done += received
        return data


def _framed(message: object) -> list[bytes]:
    """The bytes to send for a message, with its length in front, in one or two parts."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    length = _LENGTH.pack(len(data))
    return [length + data] if len(data) < _SMALL else [length, data]


def start_tracker() -> None:
    """Start multiprocessing's resource tracker, which otherwise starts with the first process.

    To start it unblocks signals in this thread, so call this before signals are blocked.
    """
    with starting(), system.masked():
        system.start_tracker()


def fastest_method() -> str:
    """The fastest safe way to start a worker: fork if no other thread is in the process, else spawn.

    A forked worker has all that is imported, and shares its memory: 16 start in 0.1 s, where spawning takes 0.3 s.
    It would also inherit locks that other threads hold. HDF5 files that the parent has open do no harm: the worker
    opens what it reads itself, and it ends by a signal or os._exit, so that HDF5 never writes the parent's file there.
    """
    return "fork" if system.can_fork() else "spawn"


class Process:
    """A worker that runs `serve` with its Line and `args`. It ignores all signals but SIGTERM, and ends by SIGKILL.

    No method here waits, but `end`. The method "forkserver" would start it no faster, and leaves its folder in TMPDIR
    when a signal ends the parent.
    """

    def __init__(self, serve: Callable[..., None], *args: object) -> None:
        import multiprocessing

        method = fastest_method()
        if method == "spawn":
            start_tracker()
        ours, theirs = socket.socketpair()
        _our_ends.add(ours)
        context: Any = multiprocessing.get_context(method)
        self._process: BaseProcess = context.Process(target=_begin, args=(serve, theirs, args))
        try:
            # The worker inherits the mask, so no signal ends it before it can ignore them.
            with starting(), stopping.deferred(), system.masked(), theirs:
                self._process.start()
        except BaseException:  # Stopped is one: it goes on, and our end must not stay open
            _close(ours)
            raise
        stopping.at_once[self] = self._process.kill
        ours.setblocking(False)
        self._end, self._unsent = ours, deque[memoryview]()
        # The message under way: its length, then its bytes, and how many bytes of either have come.
        self._header, self._received = bytearray(_LENGTH.size), 0
        self._body: bytearray | None = None

    @property
    def sends(self) -> bool:
        """Whether some bytes are still to be sent."""
        return bool(self._unsent)

    def fileno(self) -> int:
        """The descriptor of the socket, for selectors."""
        return self._end.fileno()

    def send(self, message: object) -> None:
        """Queue a message; `exchange` sends it."""
        self._unsent.extend(map(memoryview, _framed(message)))

    def exchange(self) -> Iterator[Any]:
        """Send and receive what needs no waiting; yield each message. EOFError when the worker is gone.

        What a worker has sent before it died is received, also where nothing can be sent to it any more.
        """
        with contextlib.suppress(OSError):
            while self._unsent:
                part = self._unsent[0]
                count = self._end.send(part)
                self._unsent[0] = part[count:]
                if count == len(part):
                    self._unsent.popleft()
        yield from self._messages()

    def _messages(self) -> Iterator[Any]:
        with contextlib.suppress(BlockingIOError):
            while True:
                into = self._header if self._body is None else self._body
                while self._received < len(into):
                    count = self._end.recv_into(memoryview(into)[self._received :])
                    if not count:
                        raise EOFError
                    self._received += count
                self._received = 0
                if self._body is None:
                    (length,) = _LENGTH.unpack(into)
                    self._body = bytearray(length)
                else:
                    self._body = None
                    yield pickle.loads(into)  # noqa: S301 - from our own process

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

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

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
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if each.sends else 0)
            selector.register(each, events)
        ready = {key.fileobj for key, _ in selector.select(seconds)}
    for each in [each for each in processes if each in ready]:
        try:
            for message in each.exchange():
                yield each, message
        except (EOFError, OSError):
            yield each, EOFError()


def end_children(folder: str, settled: Callable[[], bool] = lambda: True) -> None:
    """Kill all child processes, even stopped ones, and remove the folder to which they wrote, for some seconds at most.

    Until `settled`, a thread may still start a process or make the folder anew: both must stay away for a while then.
    """
    import multiprocessing

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


def _begin(serve: Callable[..., None], end: socket.socket, args: tuple[Any, ...]) -> None:
    """The main function of a worker: set up signals and memory, then run `serve`, until the parent is gone."""
    for inherited in [*_our_ends]:  # after a fork: while one is open, its worker does not see that the parent is gone
        _close(inherited)
    stages.unwatch()
    stopping.leave_to_parent()
    allocator.keep_freed()
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        serve(Line(end), *args)
