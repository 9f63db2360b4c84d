"""What libraries raise about servers, in words.

What happened, what was expected, and what to type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from revseq_cli.core import errors
from revseq_cli.core.errors import MissingFileError, RevseqError, TensorIOError, exists_already
from revseq_cli.files.address import Address

MOST_SILENCE = 30  # seconds that a server may be silent
_LONGEST_MESSAGE = 200
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
_THERE_CODES = {"PreconditionFailed", "BlobAlreadyExists", "ConditionNotMet"}
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
    """The server does not let us."""


class ServerError(Exception):
    """A web server's answer that is no file."""

    def __init__(self, status: int, reason: str, pause: float | None = None) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.pause = pause  # seconds after which it wants to be asked again


class Fault(NamedTuple):
    """What an error is about.

    The error below it, a status of HTTP, a code of the store, its words.
    """

    cause: BaseException
    status: int
    code: str
    words: str

    @property
    def kind(self) -> str:
        """The name of the error's class."""
        return type(self.cause).__name__


def fault_of(error: BaseException) -> Fault:
    """What an error is about: s3fs and fsspec raise errors of the system for those of the store."""
    cause = error
    while isinstance(cause, OSError) and cause.__cause__ is not None:
        cause = cause.__cause__
    response: Any = getattr(cause, "response", None)
    status, code, words = getattr(cause, "status", None), "", str(cause)
    if isinstance(response, dict):  # of botocore
        code = str(response.get("Error", {}).get("Code", ""))
        words = str(response.get("Error", {}).get("Message", words))
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    for name in ("status_code", "code"):  # of azure, and of gcsfs
        status = status or getattr(cause, name, None)
    code = code or str(getattr(cause, "error_code", None) or "")
    number = status if isinstance(status, int) else 0
    if code.isdecimal():  # of a HEAD, whose answer has no body
        number, code = number or int(code), ""
    return Fault(cause, number, code, " ".join(words.split()))


def is_silence(fault: Fault) -> bool:
    """Whether the server did not answer in time."""
    return isinstance(fault.cause, TimeoutError) or "Timeout" in fault.kind


def is_passing(fault: Fault) -> bool:
    """Whether another try may help."""
    if fault.status or fault.code:
        return fault.status in _BUSY or fault.code in _BUSY_CODES
    if "Certificate" in fault.kind or "SSL" in fault.kind or "TooManyRedirects" in fault.kind:
        return False
    if isinstance(fault.cause, (ConnectionError, TimeoutError)):
        return True
    module = type(fault.cause).__module__
    is_connection = "Connect" in fault.kind or "Payload" in fault.kind or is_silence(fault)
    return module.startswith("aiohttp") or (is_connection or "Stream" in fault.kind)


@contextlib.contextmanager
def translate_errors(path: str, doing: str) -> Iterator[None]:
    """Raise a TensorIOError for what a library raises about an address.

    `doing` is "read" or "write".
    """
    try:
        yield
    except (RevseqError, MemoryError):
        raise
    except Exception as e:  # noqa: BLE001 - libraries have errors of their own
        raise _make_error(Address(path), doing, fault_of(e), e) from None


def _make_error(address: Address, doing: str, fault: Fault, error: Exception) -> TensorIOError:
    if isinstance(error, FileExistsError) or fault.status == 412 or fault.code in _THERE_CODES:
        return exists_already(address)
    is_missing = fault.status in (404, 410) or fault.code in _MISSING_CODES
    if is_missing or isinstance(fault.cause, FileNotFoundError):
        return MissingFileError("no such file, or no such bucket", where=address)
    return _about_login(address, doing, fault) or _about_server(address, doing, fault)


def _about_login(address: Address, doing: str, fault: Fault) -> TensorIOError | None:
    """The error where the fault is about credentials or rights."""
    store = address.parts.store
    login = _LOGINS.get(store, "")
    if fault.code in _EXPIRED_CODES or fault.kind in _EXPIRED_CODES:
        found = f"cannot {doing}: the credentials have expired"
        return NoRightError(found, hint=_RENEWALS.get(store, login), where=address)
    if fault.kind == "ProfileNotFound":
        found = f"cannot {doing}: {_short(fault.words)}"
        hint = "to list the profiles, type: aws configure list-profiles"
        return NoRightError(found, hint=hint, where=address)
    if store == "az" and "account" in fault.words and isinstance(fault.cause, ValueError):
        hint = "to name the account, type: export AZURE_STORAGE_ACCOUNT_NAME=ACCOUNT"
        return NoRightError(f"cannot {doing}: no storage account", hint=hint, where=address)
    if fault.kind in _NO_CREDENTIALS:
        return NoRightError(f"cannot {doing}: there are no credentials", hint=login, where=address)
    if _is_in_other_region(store, fault):
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


def _is_in_other_region(store: str, fault: Fault) -> bool:
    """Whether the bucket is in another region than it was asked for in."""
    if fault.code in _WRONG_REGIONS:
        return True
    # A store that does not say where its bucket is, is asked by botocore without an end.
    return store == "s3" and (fault.status == 301 or fault.kind == "RecursionError")


def _about_server(address: Address, doing: str, fault: Fault) -> TensorIOError:
    """The error where the fault is about the server, or the way to it."""
    hint = ""
    if is_silence(fault):
        found = f"the server did not answer for {MOST_SILENCE} s"
        hint = "try again later"
    elif fault.kind == "TooManyRedirects":
        found = "the server redirects in a circle"
        hint = "check the address in a browser"
    elif fault.status and address.parts.store in ("http", "https"):
        found = f"the server answers {fault.status} {getattr(fault.cause, 'reason', '') or ''}"
        hint = "try again later" if fault.status in _BUSY else ""
    elif fault.status or fault.code:
        found = f"the store answers {fault.status or ''} {fault.code}: {fault.words}"
        hint = "try again later" if is_passing(fault) else ""
    elif "Payload" in fault.kind or "Stream" in fault.kind:
        found = "the connection ended in the middle of an answer"
        hint = "try again later"
    elif is_passing(fault):
        found = fault.words or "the connection failed"
        hint = "check the address and the network"
    else:
        found = fault.words or fault.kind
    return TensorIOError(f"cannot {doing}: {_short(found)}", hint=hint, where=address)


def _short(words: str) -> str:
    return errors.without_secrets(" ".join(words.split()))[:_LONGEST_MESSAGE]
