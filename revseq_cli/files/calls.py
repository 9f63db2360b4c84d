"""Calls of servers through fsspec, which the extra `remote` installs; their errors in words, tries, and signals.

All is done in the calling thread, on an event loop without threads: workers can be forked, and a signal ends a wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from revseq_cli.core import errors, platform, signals
from revseq_cli.core.errors import (
    FormatError,
    MissingFileError,
    RevseqError,
    TensorIOError,
    UsageError,
    exists_already,
)
from revseq_cli.files.address import Address, is_web, scheme_of

_Result = TypeVar("_Result")
# The package of each scheme. All but that of the web try again by themselves, and put a file in one step.
PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
    "http": "aiohttp", "https": "aiohttp",
}  # fmt: skip
_PAUSES = (0.3, 1.0)  # seconds before the second try and the third
_TOO_MANY = 429
_LONGEST_FAREWELL = (
    10.0  # seconds for what undoes work after an error or a signal, such as to abort an upload
)


class NoRightError(TensorIOError):
    """The server does not let us."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop without threads: work for another thread is done at once, in this one."""

    def run_in_executor(
        self, _: object, function: Callable[..., Any], *arguments: object
    ) -> asyncio.Future[Any]:
        """Call the function; the future has its result already."""
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(e)
        return future


class Session:
    """The loop and the file systems of one thread of one process: a fork can use none of its parent."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.loop.set_exception_handler(
            lambda *_: None
        )  # sessions are left to the end of the process
        self.systems: dict[object, Any] = {}


def thread() -> tuple[int, int]:
    """What tells this thread from others, in whatever process."""
    return os.getpid(), threading.get_ident()


@functools.cache  # what is a parent's stays, since to close it would disturb the parent
def _session_of(_: tuple[int, int]) -> Session:
    return Session()


def session() -> Session:
    """The session of this thread."""
    return _session_of(thread())


# Calls


def file_system(path: str) -> tuple[Any, str]:
    """The filesystem of an address, whose methods are coroutines, and the path in it."""
    address = Address(path)
    scheme = scheme_of(path)
    try:
        import fsspec
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

        kind = fsspec.get_filesystem_class(scheme)
    except ImportError:
        packages = f"fsspec {PACKAGES.get(scheme, '')}".strip()
        hint = platform.pip(f"install {packages}")
        raise FormatError(
            f"an address of {scheme}", f"the packages {packages}", hint, address
        ) from None
    except ValueError:
        raise UsageError(
            f"fsspec knows no {scheme}", "s3, gs, az, https or another", where=address
        ) from None
    options = kind._get_kwargs_from_urls(address.full)
    if kind.async_impl:
        options |= {"asynchronous": True, "use_listings_cache": False, "skip_instance_cache": True}
    systems = session().systems
    key = (scheme, repr(options))
    if key not in systems:
        system = kind(**options)
        system.auto_mkdir = True  # of local:// alone
        systems[key] = (
            system if kind.async_impl else AsyncFileSystemWrapper(system, asynchronous=True)
        )
    return systems[key], kind._strip_protocol(address.full)


def run(*works: Coroutine[Any, Any, _Result], most: int = 0, stops: bool = True) -> list[_Result]:
    """Run coroutines together, at most so many at once, to their ends; Stopped after a signal.

    After an error or a signal, all that were begun are cancelled, and have ended where this returns.
    """

    async def watch() -> list[_Result]:
        room = asyncio.Semaphore(most or len(works) or 1)

        async def wait_for_room(work: Coroutine[Any, Any, _Result]) -> _Result:
            async with room:
                return await work

        tasks = [asyncio.ensure_future(wait_for_room(work)) for work in works]
        task = asyncio.gather(*tasks)
        try:
            while not (await asyncio.wait({task}, timeout=signals.PATIENCE))[0]:
                if stops:
                    signals.check()
            return task.result()
        except BaseException:
            for each in tasks:
                each.cancel()
            await asyncio.wait(tasks, timeout=_LONGEST_FAREWELL)
            raise
        finally:
            task.cancel()

    return session().loop.run_until_complete(watch())


async def retry(path: str, call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """The result of a call, which is tried three times on the web."""
    for pause in _PAUSES if is_web(path) else ():
        try:
            return await call()
        except Exception as e:
            cause, status = _cause(e)
            is_lost = isinstance(cause, (ConnectionError, TimeoutError)) or type(
                cause
            ).__module__.startswith("aiohttp")
            if not (status >= 500 or status == _TOO_MANY if status else is_lost):
                raise
        await asyncio.sleep(pause)
    return await call()


def _cause(error: BaseException) -> tuple[BaseException, int]:
    """What an error is about, and a web server's status: fsspec calls any refusal a file that is not there."""
    cause = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error
    return cause, getattr(cause, "status", None) or 0


def ask(
    path: str,
    *questions: Callable[[Any, str], Coroutine[Any, Any, _Result]],
    most: int = 0,
    stops: bool = True,
    doing: str = "read",
) -> list[_Result]:
    """Ask the file system of an address, at most so many at once; each question gets it, and the path in it.

    A TensorIOError says what is wrong; Stopped after a signal, unless `stops` is false.
    """
    with translate_errors(path, doing):
        fs, inside = file_system(path)
        return run(
            *(retry(path, functools.partial(question, fs, inside)) for question in questions),
            most=most,
            stops=stops,
        )


@contextlib.contextmanager
def translate_errors(path: str, doing: str) -> Iterator[None]:
    """Raise a TensorIOError for what a library raises about an address."""
    address = Address(path)
    scheme = scheme_of(path)
    try:
        yield
    except (RevseqError, MemoryError):
        raise
    except Exception as e:  # noqa: BLE001 - libraries have errors of their own
        cause, status = _cause(e)
        user = (
            address.full.partition("://")[2].partition("/")[0].rpartition("@")[0]
        )  # which is no part of a bucket
        words = " ".join(str(cause).split())
        words = words.replace(f"{user}@", "") if user else words
        kind, words = type(cause).__name__, errors.without_secrets(words)[:200]
        if (
            isinstance(cause, FileNotFoundError)
            or status in (404, 410)
            or "NoSuchBucket" in words
            or "(404)" in words
        ):
            raise MissingFileError("no such file, or no such bucket", where=address) from None
        is_refused = "PreconditionFailed" in words or "At least one of the pre-conditions" in words
        if (
            isinstance(cause, FileExistsError)
            or kind in ("AlreadyExistsError", "ResourceExistsError")
            or is_refused
        ):
            raise exists_already(address) from None
        wanted, hint, kind_of_error = "a server that answers", "try again later", TensorIOError
        if isinstance(cause, PermissionError) or status in (401, 403) or "Credentials" in kind:
            words = "there are no credentials" if kind == "NoCredentialsError" else "no right to"
            kind_of_error = NoRightError
            wanted, hint = (
                "credentials that may",
                f"set those that {PACKAGES.get(scheme, scheme)} looks for",
            )
        elif status:
            words = f"the server answers {status} {getattr(cause, 'message', '')}".strip()
        raise kind_of_error(f"cannot {doing}: {words or kind}", wanted, hint, address) from None
