"""The server of each address.

fsspec has a file system for it, which the extra `remote` installs.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from revseq_cli.core import errors, platform
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.files import s3, web
from revseq_cli.files.address import Address
from revseq_cli.files.calls import retry, run, session
from revseq_cli.files.faults import MOST_SILENCE, translate_errors
from revseq_cli.files.s3 import S3Object
from revseq_cli.files.store import Store
from revseq_cli.files.web import WebFile

_Result = TypeVar("_Result")
# The package of each kind of store.
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "http": "aiohttp", "https": "aiohttp"}
# The kinds that put a file in one step. Others show it while it is put.
WRITTEN = ("s3", "gs", "az")
_SECRET_VARIABLE = re.compile("SECRET|TOKEN|PASSWORD|ACCOUNT_KEY|SAS|CONNECTION_STRING")
_LEAST_SECRET = 8  # characters


def server_of(path: str) -> Store:
    """The server of an address, bound to it."""
    address = Address(path)
    store = address.parts.store
    kind = _find_class(address)
    url = _usual(address)
    try:
        system = _system(kind, url, store)
    except ImportError:
        raise _lacks_package(address) from None
    inside = str(kind._strip_protocol(url))
    servers = {"s3": S3Object, "http": WebFile, "https": WebFile}
    return servers.get(store, Store)(system, inside, address)


def _find_class(address: Address) -> Any:
    store = address.parts.store
    if store == "gs":  # gcsfs would ask for more by gRPC, whose threads let a forked worker hang
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        import fsspec

        return fsspec.get_filesystem_class(store)
    except ImportError:
        raise _lacks_package(address) from None
    except ValueError:
        raise UsageError(
            f"unknown scheme {store}://", "s3, gs, az, https or another of fsspec", where=address
        ) from None


def _lacks_package(address: Address) -> FormatError:
    store = address.parts.store
    packages = f"fsspec {PACKAGES.get(store, '')}".strip()
    hint = platform.pip(f"install {packages}")
    return FormatError(f"an address of {store}", f"the packages {packages}", hint, address)


def _usual(address: Address) -> str:
    """The whole address with the scheme's usual name."""
    rest = address.full.partition("://")[2]
    store = address.parts.store
    if store == "az" and address.parts.user:
        store = "abfss"
    return f"{store}://{rest}"


def _system(kind: Any, url: str, store: str) -> Any:
    """The file system of this thread for an address; those of one server share it."""
    options = kind._get_kwargs_from_urls(url)
    systems = session().systems
    key = (store, repr(options))
    if key in systems:
        return systems[key]
    _hide_variables()
    if not kind.async_impl:
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

        systems[key] = AsyncFileSystemWrapper(kind(**options), asynchronous=True)
        return systems[key]
    options |= {"asynchronous": True, "use_listings_cache": False, "skip_instance_cache": True}
    system = kind(**options, **_patience(kind, store))
    if store == "s3":
        system.retries = 1
    systems[key] = system
    return system


def _patience(kind: Any, store: str) -> dict[str, Any]:
    """How long a file system waits."""
    if store == "s3":
        return s3.options()
    if store in ("http", "https"):
        return web.options()
    takes = inspect.signature(kind.__init__).parameters
    names = ("connection_timeout", "read_timeout", "requests_timeout")
    return {name: MOST_SILENCE for name in names if name in takes}


def _hide_variables() -> None:
    """Keep credentials of the environment out of messages."""
    for name, value in os.environ.items():
        if _SECRET_VARIABLE.search(name) and len(value) >= _LEAST_SECRET:
            errors.hide(value)


def ask(
    path: str,
    *questions: Callable[[Store], Coroutine[Any, Any, _Result]],
    most: int = 0,
    stops: bool = True,
    again: bool = True,
    doing: str = "read",
) -> list[_Result]:
    """Ask the server of an address, at most so many questions at once.

    A TensorIOError says what is wrong; Stopped after a signal, unless `stops` is false. What fails
    is asked `again` where that may help.
    """
    with translate_errors(path, doing):
        server = server_of(path)
        calls_of_server = [functools.partial(question, server) for question in questions]
        works = (retry(call) if again else call() for call in calls_of_server)
        return run(*works, most=most, stops=stops)


def ask_each(
    paths: Iterable[str], question: Callable[[Store], Coroutine[Any, Any, _Result]]
) -> list[_Result]:
    """Ask the servers of several addresses the same, together.

    A TensorIOError says what is wrong.
    """

    async def ask_one(path: str) -> _Result:
        with translate_errors(path, "read"):
            server = server_of(path)
            return await retry(lambda: question(server))

    return run(*map(ask_one, paths))
