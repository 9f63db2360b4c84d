"""The way from an address to its server, and questions to one or several servers.

fsspec has a file system for each kind of server, which the extra `remote` installs.
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
from revseq_cli.files.address import Address
from revseq_cli.files.event_loop import once_per_thread, run_together
from revseq_cli.files.remote.faults import MOST_SILENCE, retry, wrap_remote_errors
from revseq_cli.files.remote.path import RemotePath
from revseq_cli.files.remote.s3 import S3Path, make_s3_options
from revseq_cli.files.remote.web import WebPath, make_web_options

_Result = TypeVar("_Result")
_Question = Callable[[RemotePath], Coroutine[Any, Any, _Result]]
# The package of each kind of store.
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "http": "aiohttp", "https": "aiohttp"}
_CLASSES = {"s3": S3Path, "http": WebPath, "https": WebPath}
_SECRET_VARIABLE = re.compile("SECRET|TOKEN|PASSWORD|ACCOUNT_KEY|SAS|CONNECTION_STRING")
_LEAST_SECRET = 8  # characters


def connect(path: str) -> RemotePath:
    """The address, bound to the file system that asks its server."""
    address = Address(path)
    scheme = address.parts.scheme
    kind = _find_class(address)
    url = _make_url(address)
    try:
        system = _open_system(kind, url, scheme)
    except ImportError:
        raise _make_package_error(address) from None
    inside = str(kind._strip_protocol(url))
    return _CLASSES.get(scheme, RemotePath)(system, inside, address)


def _find_class(address: Address) -> Any:
    """The class of fsspec for the kind of store."""
    scheme = address.parts.scheme
    if scheme == "gs":  # gcsfs would ask for more by gRPC, whose threads let a forked worker hang
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        import fsspec

        return fsspec.get_filesystem_class(scheme)
    except ImportError:
        raise _make_package_error(address) from None
    except ValueError:
        raise UsageError(
            f"unknown scheme {scheme}://", "s3, gs, az, https or another of fsspec", where=address
        ) from None


def _make_package_error(address: Address) -> FormatError:
    scheme = address.parts.scheme
    packages = f"fsspec {_PACKAGES.get(scheme, '')}".strip()
    hint = platform.pip(f"install {packages}")
    return FormatError(f"an address of {scheme}", f"the packages {packages}", hint, address)


def _make_url(address: Address) -> str:
    """The whole address under the scheme by which fsspec knows it."""
    rest = address.full.partition("://")[2]
    scheme = address.parts.scheme
    if scheme == "az" and address.parts.user:
        scheme = "abfss"
    return f"{scheme}://{rest}"


@once_per_thread
def _systems_of_thread() -> dict[object, Any]:
    return {}


def _open_system(kind: Any, url: str, scheme: str) -> Any:
    """The file system of this thread for an address; those of one server share it."""
    systems = _systems_of_thread()
    options = kind._get_kwargs_from_urls(url)
    key = (scheme, repr(options))
    if key not in systems:
        _hide_variables()
        systems[key] = _make_system(kind, options, scheme)
    return systems[key]


def _make_system(kind: Any, options: dict[str, Any], scheme: str) -> Any:
    if not kind.async_impl:
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

        return AsyncFileSystemWrapper(kind(**options), asynchronous=True)
    options |= {"asynchronous": True, "use_listings_cache": False, "skip_instance_cache": True}
    system = kind(**options, **_choose_timeouts(kind, scheme))
    if scheme == "s3":
        system.retries = 1
    return system


def _choose_timeouts(kind: Any, scheme: str) -> dict[str, Any]:
    """The options that say how long a file system waits."""
    if scheme == "s3":
        return make_s3_options()
    if scheme in ("http", "https"):
        return make_web_options()
    takes = inspect.signature(kind.__init__).parameters
    names = ("connection_timeout", "read_timeout", "requests_timeout")
    return {name: MOST_SILENCE for name in names if name in takes}


def _hide_variables() -> None:
    """Keep credentials of the environment out of messages."""
    for name, value in os.environ.items():
        if _SECRET_VARIABLE.search(name) and len(value) >= _LEAST_SECRET:
            errors.hide(value)


def ask(path: str, question: _Question[_Result], doing: str = "read") -> _Result:
    """The server's answer to a question about an address; a TensorIOError says what is wrong.

    `doing` is "read" or "write". A question that fails is asked again if that may help.
    """
    (answer,) = ask_all(path, [question], doing=doing)
    return answer


def ask_all(
    path: str,
    questions: Iterable[_Question[_Result]],
    *,
    most: int = 0,
    doing: str = "read",
    stops: bool = True,
) -> list[_Result]:
    """The answers to several questions about an address, of which at most this many wait together.

    A signal ends the wait, unless `stops` is false, as when work is undone.
    """
    with wrap_remote_errors(path, doing):
        remote = connect(path)
        works = [retry(functools.partial(question, remote)) for question in questions]
        return run_together(*works, most=most, stops=stops)
