"""Processes that we start and talk to over sockets. No call waits without a bound, so that signals are looked at.

multiprocessing's own pools and queues wait in places where no signal is heard: for a thread that manages processes and
is gone, for a process that is stopped.
"""

from __future__ import annotations

import _thread
import contextlib
import pickle
import selectors
import signal
import socket
import struct
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from revseq_cli.ground import allocator, stopping
from revseq_cli.ground.errors import EngineError, Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.process import BaseProcess

_LENGTH = struct.Struct("<Q")  # the bytes of a message, before it
_SMALL = 1 << 14  # bytes that are copied sooner than sent apart
_LONGEST_END = 5.0  # seconds until the system has ended a process that was killed


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """EngineError where the system gives no more threads or processes."""
    try:
        yield
    except (RuntimeError, OSError) as e:
        found, wanted = f"cannot start a worker: {e}", "threads and processes, as ulimit -u allows them"
        raise EngineError(found, wanted, Words.of("add {}", engine="serial")) from None


class Line:
    """A process's end of its connection to the one that started it: messages are what pickles."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._sending = end, _thread.allocate_lock()

    def receive(self) -> Any:  # noqa: ANN401 - whatever is sent
        """The next message; EOFError when the other process is gone."""
        (length,) = _LENGTH.unpack(self._bytes(_LENGTH.size))
        return pickle.loads(self._bytes(length))  # noqa: S301 - of our own process

    def send(self, message: object) -> None:
        """Send a message; OSError when the other process is gone."""
        parts = _framed(message)
        with self._sending:  # several threads may have something to say
            for part in parts:
                self._end.sendall(part)

    def _bytes(self, count: int) -> bytearray:
        data = bytearray(count)
        view, done = memoryview(data), 0
        while done < count:
            got = self._end.recv_into(view[done:])
            if not got:
                raise EOFError
            done += got
        return data


def _framed(message: object) -> list[bytes]:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    length = _LENGTH.pack(len(data))
    return [length + data] if len(data) < _SMALL else [length, data]


def start_tracker() -> None:
    """Start Python's tracker of semaphores, which comes with the first process.

    Whoever starts it hears signals again afterwards, whatever was set before: so it comes before that is set.
    """
    if sys.platform != "win32":
        from multiprocessing import resource_tracker

        with starting(), stopping.masked():
            resource_tracker.ensure_running()


class Process:
    """A process that runs `serve` with its line to us; it hears no signal but SIGTERM, and SIGKILL at the end.

    What is sent and received here never waits. Not fork, unless nothing is loaded that it would break: a process must
    inherit neither an open HDF5 file nor a lock that a thread holds. Not a server that forks either: it starts no
    faster, and leaves its folder in TMPDIR when we end by a signal.
    """

    def __init__(self, serve: Callable[..., None], *args: object, method: str = "spawn") -> None:
        import multiprocessing

        if method == "spawn":
            start_tracker()
        ours, theirs = socket.socketpair()
        # A copy of our end, which a fork has, would keep a process from noticing that we are gone.
        entry = (serve, theirs, ours if method == "fork" else None, args)
        context: Any = multiprocessing.get_context(method)
        self._process: BaseProcess = context.Process(target=_begin, args=entry)
        try:
            with starting(), stopping.shielded(), theirs:
                self._process.start()
        except BaseException:  # whatever it is, it goes on; only our end must not stay open
            ours.close()
            raise
        stopping.at_once[self] = self._process.kill
        ours.setblocking(False)
        self._end, self._unsent = ours, deque[memoryview]()
        # Of the message that comes: its length, then its bytes, and how much of either is here.
        self._header, self._got = bytearray(_LENGTH.size), 0
        self._body: bytearray | None = None

    @property
    def sends(self) -> bool:
        """Whether there is something to send yet."""
        return bool(self._unsent)

    def fileno(self) -> int:
        """For selectors."""
        return self._end.fileno()

    def send(self, message: object) -> None:
        """Send a message, or keep it until the process takes it."""
        self._unsent.extend(map(memoryview, _framed(message)))

    def exchange(self) -> Iterator[Any]:
        """Send and receive what goes without waiting; the messages that have come. EOFError when it is gone."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                part = self._unsent[0]
                count = self._end.send(part)
                self._unsent[0] = part[count:]
                if count == len(part):
                    self._unsent.popleft()
        yield from self._received()

    def _received(self) -> Iterator[Any]:
        with contextlib.suppress(BlockingIOError):
            while True:
                into = self._header if self._body is None else self._body
                while self._got < len(into):
                    count = self._end.recv_into(memoryview(into)[self._got :])
                    if not count:
                        raise EOFError
                    self._got += count
                self._got = 0
                if self._body is None:
                    (length,) = _LENGTH.unpack(into)
                    self._body = bytearray(length)
                else:
                    self._body = None
                    yield pickle.loads(into)  # noqa: S301 - of our own process

    @property
    def ended_by(self) -> str:
        """What ended it, for a person."""
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"exit status {code}"
        return next((each.name for each in signal.Signals if each == -code), f"signal {-code}")

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it."""
        self._process.kill()

    def end(self) -> None:
        """Return when it is gone, or when the system does not end it; it is killed, since it may be stopped."""
        stopping.at_once.pop(self, None)
        self._end.close()
        self._process.kill()
        self._process.join(_LONGEST_END)


def exchange(processes: Iterable[Process], seconds: float) -> Iterator[tuple[Process, Any]]:
    """The messages that come within so many seconds, or none; EOFError in the place of one when a process is gone."""
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


def _begin(serve: Callable[..., None], end: socket.socket, other: socket.socket | None, args: tuple[Any, ...]) -> None:
    """In a process that has just started: signals are for the parent to act on, and its end is ours."""
    if other:
        other.close()
    stopping.leave_to_parent()
    allocator.keep_freed()
    with contextlib.suppress(EOFError, OSError):  # there is nobody left to work for
        serve(Line(end), *args)
