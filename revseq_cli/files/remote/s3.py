"""Objects of S3, through the calls of s3fs.

A read is one request, and an upload that fails leaves no parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any, cast

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.files.budget import choose_piece, count_parallel_requests
from revseq_cli.files.input_file import require_bytes
from revseq_cli.files.remote.faults import (
    BAD_RANGE,
    LONGEST_CONNECT,
    MOST_SILENCE,
    fault_of,
    retry,
)
from revseq_cli.files.remote.path import (
    Answer,
    ContentRange,
    RemotePath,
    State,
    make_folder_error,
    make_state,
)

_MOST_PARTS = 10_000  # of an object
_LEAST_PART = 5 << 20  # bytes of all parts but the last
_NOT_IMPLEMENTED = 501
_MUST_BE_NEW = {"IfNoneMatch": "*"}
# The statuses of a HEAD that do not say what is wrong, as its answers have no words.
_SILENT_REFUSALS = {400, 403}


def make_s3_options() -> dict[str, Any]:
    """Options that make a client wait as long as we do, and leave all repetition to `retry`."""
    from fsspec.config import conf

    config = {
        "connect_timeout": LONGEST_CONNECT,
        "read_timeout": MOST_SILENCE,
        "retries": {"max_attempts": 0},
    }
    return {"config_kwargs": config | conf.get("s3", {}).get("config_kwargs", {})}


class S3Path(RemotePath):
    """An object of a bucket, or of a version of it."""

    async def ask_state(self) -> State:
        try:
            answer = await self._call("head_object")
        except Exception as e:
            if fault_of(e).status not in _SILENT_REFUSALS:
                raise
            _, state = await self._get(0, 1)  # its answer has words
            return state
        return make_state(answer["ContentLength"], answer["ETag"], answer["LastModified"])

    async def read_start(self, most: int) -> tuple[bytes, State]:
        try:
            return await self._get(0, most)
        except Exception as e:
            if fault_of(e).status != BAD_RANGE:
                raise
            return b"", await self.ask_state()  # it is empty

    async def read_range(self, start: int, stop: int) -> Answer:
        data, state = await self._get(start, stop)
        require_bytes(len(data), stop - start, self.name)
        return Answer(data, state)

    async def read_whole(self) -> bytes:
        answer = await self._call("get_object")
        return await _read_body(answer["Body"], answer["ContentLength"])

    async def read_end(self, count: int) -> bytes:
        answer = await self._call("get_object", Range=f"bytes=-{count}")
        return await _read_body(answer["Body"], count)

    async def has_file(self) -> bool:
        """Whether the object is there; an error if its bucket is not, which no HEAD tells."""
        try:
            await self._get(0, 1)
        except Exception as e:
            fault = fault_of(e)
            if fault.status == BAD_RANGE:  # it is empty
                return True
            if fault.status != 404 or fault.code == "NoSuchBucket":
                raise
            return False
        return True

    async def has_files_below(self) -> bool:
        answer = await self._list_page(MaxKeys=1)
        return bool(answer.get("Contents"))

    async def list_states(self) -> dict[str, State]:
        states: dict[str, State] = {}
        next_page: dict[str, str] = {}
        while True:
            answer = await self._list_page(**next_page)
            for item in answer.get("Contents", ()):
                name = item["Key"].removeprefix(self._prefix())
                if name and not name.endswith("/"):  # such objects stand for folders
                    states[name] = make_state(item["Size"], item["ETag"], item["LastModified"])
            if not answer.get("NextContinuationToken"):
                return states
            next_page = {"ContinuationToken": answer["NextContinuationToken"]}

    async def put_bytes(self, data: bytes) -> None:
        await self._call("put_object", Body=data)

    async def put_file(self, path: str, *, creates: bool, advance: Callable[[int], None]) -> None:
        """Upload a file in parts, a few at once, which are removed after an error or a signal."""
        size = os.path.getsize(path)
        if size <= max(thresholds.REMOTE_PIECE, _LEAST_PART):
            data = Path(path).read_bytes()
            call = _LastCall("put_object", {"Body": data}, _etag_of(data))
            await retry(lambda: self._finish_upload(call, creates=creates))
            advance(size)
            return
        answer = await retry(lambda: self._call("create_multipart_upload"))
        upload = {"UploadId": answer["UploadId"]}
        try:
            parts = await self._put_parts(path, upload, advance)
            arguments = {**upload, "MultipartUpload": {"Parts": parts}}
            call = _LastCall("complete_multipart_upload", arguments, _etag_of_parts(parts))
            await retry(lambda: self._finish_upload(call, creates=creates))
        except BaseException:  # a signal, too: each part that is kept costs money
            with contextlib.suppress(Exception):
                await self._call("abort_multipart_upload", **upload)
            raise

    async def _put_parts(
        self, path: str, upload: dict[str, Any], advance: Callable[[int], None]
    ) -> list[dict[str, Any]]:
        """Upload all parts, and return the number and the ETag of each, by which S3 joins them."""
        size = os.path.getsize(path)
        step = max(choose_piece(size), _LEAST_PART, -(-size // _MOST_PARTS))
        room = asyncio.Semaphore(count_parallel_requests())

        async def put(number: int) -> dict[str, Any]:
            async with room:
                with open(path, "rb") as file:
                    file.seek((number - 1) * step)
                    data = file.read(step)
                arguments = {"PartNumber": number, "Body": data, **upload}
                answer = await retry(lambda: self._call("upload_part", **arguments))
                advance(len(data))
            return {"PartNumber": number, "ETag": answer["ETag"]}

        count = -(-size // step)
        parts = [asyncio.ensure_future(put(number)) for number in range(1, count + 1)]
        try:
            return [*await asyncio.gather(*parts)]
        except BaseException:  # also of a signal: the upload is aborted when none goes on
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
            raise

    async def _finish_upload(self, call: _LastCall, *, creates: bool) -> None:
        """Do the last call of an upload, which makes the object.

        With `creates`, the store refuses it if an object is there. Some stores know no such
        condition, and answer 501: there we look for the object first.
        """
        condition = _MUST_BE_NEW if creates else {}
        try:
            await self._call(call.method, **call.arguments, **condition)
        except Exception as e:
            if creates and _has_no_conditions(e):
                if await self.has_file():
                    raise FileExistsError(self.name) from e
                await self._call(call.method, **call.arguments)
                return
            # An earlier try may have made the object, if only its answer was lost.
            is_made = await self._has_content(call.etag)
            if not is_made:
                raise

    async def _has_content(self, etag: str) -> bool:
        """Whether the object has the content with that ETag."""
        try:
            answer = await self._call("head_object")
        except Exception:  # noqa: BLE001 - the error before it counts
            return False
        return bool(answer["ETag"].strip('"') == etag)

    async def _get(self, start: int, stop: int) -> tuple[bytes, State]:
        """The bytes from `start` to `stop`, or to the end of the file, and its state."""
        answer = await self._call("get_object", Range=f"bytes={start}-{stop - 1}")
        text = answer.get("ContentRange", "")
        sent = ContentRange.parse_header(text) or ContentRange(0, stop, answer["ContentLength"])
        if sent.start != start:
            found = f"its store answers with other bytes than were asked for: {text[:60]}"
            raise FormatError(found, f"bytes {start}-{stop - 1}", where=self.name)
        count = min(stop, sent.total) - start
        data = await _read_body(answer["Body"], count)
        require_bytes(len(data), count, self.name)
        return data, make_state(sent.total, answer["ETag"], answer["LastModified"])

    async def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """The answer of S3 to a method about this object."""
        bucket, key, version = self.system.split_path(self.inside)
        if not key:
            raise make_folder_error(self.name)
        if version:
            arguments["VersionId"] = version
        answer = await self.system._call_s3(method, Bucket=bucket, Key=key, **arguments)
        return cast("dict[str, Any]", answer)

    async def _list_page(self, **arguments: Any) -> dict[str, Any]:
        """An answer that lists objects below the address, at most a thousand."""
        bucket, _, _ = self.system.split_path(self.inside)
        answer = await self.system._call_s3(
            "list_objects_v2", Bucket=bucket, Prefix=self._prefix(), **arguments
        )
        return cast("dict[str, Any]", answer)

    def _prefix(self) -> str:
        """How the keys of all objects below the address begin."""
        _, key, _ = self.system.split_path(self.inside)
        return f"{key}/" if key else ""


@dataclass(frozen=True)
class _LastCall:
    """The call that makes the object of an upload, and the ETag that the object then has."""

    method: str
    arguments: dict[str, Any]
    etag: str


def _has_no_conditions(error: Exception) -> bool:
    """Whether the store says that it knows no conditions of a call."""
    return fault_of(error).status == _NOT_IMPLEMENTED or (
        isinstance(error, OSError) and error.errno == errno.ENOSYS
    )


async def _read_body(body: Any, most: int) -> bytes:
    """Up to `most` bytes of the body of an answer, which is then closed."""
    data = bytearray()
    try:
        while len(data) < most:
            piece = await body.read(most - len(data))
            if not piece:
                break
            data += piece
    finally:
        body.close()
    return bytes(data)


def _etag_of(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def _etag_of_parts(parts: list[dict[str, Any]]) -> str:
    """The ETag of the whole object, which S3 computes from those of the parts."""
    sums = b"".join(bytes.fromhex(part["ETag"].strip('"')) for part in parts)
    return f"{_etag_of(sums)}-{len(parts)}"
