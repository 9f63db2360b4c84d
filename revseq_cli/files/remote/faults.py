"""What libraries raise about servers: what to try again, and the errors in words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from revseq_cli.core import errors
from revseq_cli.core.errors import MissingFileError, RevseqError, TensorIOError, make_exists_error
from revseq_cli.files.address import Address

_Result = TypeVar("_Result")
MOST_SILENCE = 30  # seconds that a server may be silent
LONGEST_CONNECT = 10  # seconds
BAD_RANGE = 416  # the status for a range that the file does not have
_LONGEST_MESSAGE = 200
# Seconds before the second try and the third.
_PAUSES = (0.3, 1.0)
_LONGEST_PAUSE = 60.0  # seconds that a server may ask us to wait
_PRECONDITION_FAILED = 412
_BUSY = {408, 429, 500, 502, 503, 504}
_BUSY_CODES = {
    "SlowDown",
    "InternalError",
    "RequestTimeout",
    "ServiceUnavailable",
    "ServerBusy",
    "ConditionalRequestConflict",
}
_MISSING_CODES = {"NoSuchKey", "NoSuchBucket", "NoSuchVersion", "ContainerNotFound", "BlobNotFound"}
_TAKEN_CODES = {"PreconditionFailed", "BlobAlreadyExists", "ConditionNotMet"}
_EXPIRED_CODES = {
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "TokenRefreshRequired",
    "UnauthorizedSSOTokenError",
    "SSOTokenLoadError",
    "TokenRetrievalError",
    "RefreshError",
}
_NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "DefaultCredentialsError",
    "CredentialUnavailableError",
}
_WRONG_KEYS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "AuthenticationFailed",
}
_WRONG_REGIONS = {
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}
# How a store without a login gets one, or is read without.
_LOGINS = {
    "s3": "run aws configure, or for a public bucket type: export FSSPEC_S3_ANON=true",
    "gs": "run gcloud auth application-default login, "
    "or for a public bucket type: export FSSPEC_GS_TOKEN=anon",
    "az": "run az login, or for a public container type: export AZURE_STORAGE_ANON=true",
    "http": "put the login into ~/.netrc",
    "https": "put the login into ~/.netrc",
}
_RENEWALS = {
    "s3": "to log in again, type: aws sso login",
    "gs": "to log in again, type: gcloud auth application-default login",
    "az": "to log in again, type: az login",
}


class NoRightError(TensorIOError):
    """The server refuses access."""


class ServerError(Exception):
    """A web server's answer that is not a file.

    `pause` is the number of seconds after which the server wants to be asked again.
    """

    def __init__(self, status: int, reason: str, pause: float | None = None) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.pause = pause


@dataclass(frozen=True)
class Fault:
    """What a library's error says: the HTTP status (or 0), the store's own code, and its message.

    `cause` is the first error, for which s3fs and fsspec raise an OSError.
    """

    cause: BaseException
    status: int
    code: str
    words: str

    @property
    def kind(self) -> str:
        """The name of the error's class: that of a library that need not be installed."""
        return type(self.cause).__name__

    @property
    def is_missing(self) -> bool:
        """Whether the server says that there is no such file or bucket."""
        return self.status in (404, 410) or self.code in _MISSING_CODES

    @property
    def is_silence(self) -> bool:
        """Whether the server did not answer in time."""
        return isinstance(self.cause, TimeoutError) or "Timeout" in self.kind

    @property
    def is_broken_answer(self) -> bool:
        """Whether the connection ended in the middle of an answer."""
        return "Payload" in self.kind or "Stream" in self.kind

    @property
    def may_pass(self) -> bool:
        """Whether another try may help."""
        if self.status or self.code:
            return self.status in _BUSY or self.code in _BUSY_CODES
        if any(part in self.kind for part in ("Certificate", "SSL", "TooManyRedirects")):
            return False
        if isinstance(self.cause, (ConnectionError, TimeoutError)):
            return True
        if type(self.cause).__module__.startswith("aiohttp"):
            return True
        return self.is_silence or self.is_broken_answer or "Connect" in self.kind


def fault_of(error: BaseException) -> Fault:
    """What an error says, in whichever attributes its library keeps that."""
    cause = error
    while isinstance(cause, OSError) and cause.__cause__ is not None:
        cause = cause.__cause__
    response: Any = getattr(cause, "response", None)
    if isinstance(response, dict):
        return _fault_of_botocore(cause, response)
    status = 0
    for name in ("status", "status_code", "code"):  # of aiohttp, of azure, and of gcsfs
        number = getattr(cause, name, None)
        if not status and isinstance(number, int):
            status = number
    code = str(getattr(cause, "error_code", None) or "")  # of azure
    return Fault(cause, status, code, _join_lines(str(cause)))


def _fault_of_botocore(cause: BaseException, response: dict[str, Any]) -> Fault:
    said = response.get("Error", {})
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0
    code = str(said.get("Code", ""))
    if code.isdecimal():  # the status of a HEAD, whose answer has no body
        status = status or int(code)
        code = ""
    return Fault(cause, status, code, _join_lines(str(said.get("Message", cause))))


def _join_lines(words: str) -> str:
    return " ".join(words.split())


async def retry(call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """The result of a call, which is tried up to three times while the server is busy.

    After a silence, which takes half a minute, it is tried only once more.
    """
    was_silent = False
    for pause in _PAUSES:
        try:
            return await call()
        except Exception as e:
            fault = fault_of(e)
            if was_silent or not fault.may_pass:
                raise
            was_silent = fault.is_silence
            asked = fault.cause.pause if isinstance(fault.cause, ServerError) else None
        await asyncio.sleep(min(asked or pause, _LONGEST_PAUSE))
    return await call()


@contextlib.contextmanager
def wrap_remote_errors(path: str, doing: str) -> Iterator[None]:
    """Raise a TensorIOError for what a library raises about an address.

    `doing` is "read" or "write".
    """
    try:
        yield
    except (RevseqError, MemoryError):
        raise
    except Exception as e:  # noqa: BLE001 - libraries have errors of their own
        raise _make_error(Address(path), doing, e) from None


def _make_error(address: Address, doing: str, error: Exception) -> TensorIOError:
    fault = fault_of(error)
    is_taken = fault.status == _PRECONDITION_FAILED or fault.code in _TAKEN_CODES
    if is_taken or isinstance(error, FileExistsError):
        return make_exists_error(address)
    if fault.is_missing or isinstance(fault.cause, FileNotFoundError):
        return MissingFileError("no such file, or no such bucket", where=address)
    return _about_login(address, doing, fault) or _about_server(address, doing, fault)


def _about_login(address: Address, doing: str, fault: Fault) -> TensorIOError | None:
    """The error if the fault is about credentials or rights."""
    scheme = address.parts.scheme
    login = _LOGINS.get(scheme, "")
    if fault.code in _EXPIRED_CODES or fault.kind in _EXPIRED_CODES:
        found = f"cannot {doing}: the credentials have expired"
        return NoRightError(found, hint=_RENEWALS.get(scheme, login), where=address)
    if fault.kind == "ProfileNotFound":
        found = f"cannot {doing}: {_short(fault.words)}"
        hint = "to list the profiles, type: aws configure list-profiles"
        return NoRightError(found, hint=hint, where=address)
    asks_for_account = "account" in fault.words and isinstance(fault.cause, ValueError)
    if scheme == "az" and asks_for_account:
        hint = "to name the account, type: export AZURE_STORAGE_ACCOUNT_NAME=ACCOUNT"
        return NoRightError(f"cannot {doing}: no storage account", hint=hint, where=address)
    if fault.kind in _NO_CREDENTIALS:
        return NoRightError(f"cannot {doing}: there are no credentials", hint=login, where=address)
    if _is_in_other_region(scheme, fault):
        found = f"cannot {doing}: the bucket is in another region"
        if "expecting" in fault.words:  # "the region 'a' is wrong; expecting 'b'"
            found += f" ({_short(fault.words)})"
        hint = "to name it, type: export AWS_DEFAULT_REGION=REGION"
        return TensorIOError(found, hint=hint, where=address)
    if fault.code in _WRONG_KEYS:
        found = f"cannot {doing}: the credentials are wrong ({fault.code})"
        return NoRightError(found, hint=login, where=address)
    if fault.status in (401, 403) or isinstance(fault.cause, PermissionError):
        return NoRightError(f"cannot {doing}: access denied", hint=login, where=address)
    return None


def _is_in_other_region(scheme: str, fault: Fault) -> bool:
    """Whether the bucket is in another region than the one that was asked."""
    if fault.code in _WRONG_REGIONS:
        return True
    # Botocore asks without an end if a store does not say in which region its bucket is.
    return scheme == "s3" and (fault.status == 301 or fault.kind == "RecursionError")


def _about_server(address: Address, doing: str, fault: Fault) -> TensorIOError:
    """The error for a fault of the server, or of the way to it."""
    hint = ""
    if fault.is_silence:
        found = f"the server did not answer for {MOST_SILENCE} s"
        hint = "try again later"
    elif fault.kind == "TooManyRedirects":
        found = "the server redirects in a circle"
        hint = "check the address in a browser"
    elif fault.status and address.parts.scheme in ("http", "https"):
        found = f"the server answers {fault.status} {getattr(fault.cause, 'reason', '') or ''}"
        hint = "try again later" if fault.status in _BUSY else ""
    elif fault.status or fault.code:
        found = f"the store answers {fault.status or ''} {fault.code}: {fault.words}"
        hint = "try again later" if fault.may_pass else ""
    elif fault.is_broken_answer:
        found = "the connection ended in the middle of an answer"
        hint = "try again later"
    elif fault.may_pass:
        found = fault.words or "the connection failed"
        hint = "check the address and the network"
    else:
        found = fault.words or fault.kind
    return TensorIOError(f"cannot {doing}: {_short(found)}", hint=hint, where=address)


def _short(words: str) -> str:
    return errors.without_secrets(_join_lines(words))[:_LONGEST_MESSAGE]
