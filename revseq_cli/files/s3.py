"""Objects of S3, through the calls of s3fs.

A read is one request, and an upload that fails leaves no parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any, cast

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.files import calls
from revseq_cli.files.faults import MOST_SILENCE, fault_of
from revseq_cli.files.store import Answer, FolderError, State, Store, state_of, truncated

_LONGEST_CONNECT = 10  # seconds
_MOST_PARTS = 10_000  # of an object
_LEAST_PART = 5 << 20  # bytes of all parts but the last
_BAD_RANGE = 416
_CONDITION = {"IfNoneMatch": "*"}
# What a HEAD says, whose answers have no words.
_SILENT_REFUSALS = {400, 403}


def options() -> dict[str, Any]:
    """What a client needs to be as patient as we are.

    `calls.retry` tries again, and nothing else does.
    """
    from fsspec.config import conf

    config = {
        "connect_timeout": _LONGEST_CONNECT,
        "read_timeout": MOST_SILENCE,
        "retries": {"max_attempts": 0},
    }
    return {"config_kwargs": config | conf.get("s3", {}).get("config_kwargs", {})}


class S3Object(Store):
    """An object of a bucket, or of a version of it."""

    async def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        bucket, key, version = self.system.split_path(self.inside)
        if not key:
            raise FolderError("a directory", "a tensor file", where=self.name)
        if version:
            arguments["VersionId"] = version
        answer = await self.system._call_s3(method, Bucket=bucket, Key=key, **arguments)
        return cast("dict[str, Any]", answer)

    async def state(self) -> State:
        try:
            answer = await self._call("head_object")
        except Exception as e:
            if fault_of(e).status not in _SILENT_REFUSALS:
                raise
            return (await self._get(0, 1)).state or State(0, "", 0)  # it says why
        return state_of(answer["ContentLength"], answer["ETag"], answer["LastModified"])

    async def begin(self, most: int) -> Answer:
        try:
            return await self._get(0, most)
        except Exception as e:
            if fault_of(e).status != _BAD_RANGE:
                raise
            return Answer(b"", await self.state())  # it is empty

    async def read(self, start: int, stop: int) -> Answer:
        answer = await self._get(start, stop)
        if len(answer.data) < stop - start:
            raise truncated(self.name)
        return answer

    async def read_all(self) -> bytes:
        answer = await self._call("get_object")
        return await _read_body(answer["Body"], answer["ContentLength"])

    async def read_end(self, count: int) -> bytes:
        answer = await self._call("get_object", Range=f"bytes=-{count}")
        return await _read_body(answer["Body"], count)

    async def _get(self, start: int, stop: int) -> Answer:
        answer = await self._call("get_object", Range=f"bytes={start}-{stop - 1}")
        sent = answer.get("ContentRange", "")
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", sent)
        size = int(match[3]) if match else answer["ContentLength"]
        if (match and int(match[1]) != start) or (not match and start):
            found = f"its store answers with other bytes than were asked for: {sent[:60]}"
            raise FormatError(found, f"bytes {start}-{stop - 1}", where=self.name)
        count = min(stop, size) - start
        data = await _read_body(answer["Body"], count)
        if len(data) < count:
            raise truncated(self.name)
        return Answer(data, state_of(size, answer["ETag"], answer["LastModified"]))

    async def has_file(self) -> bool:
        """Whether the object is there.

        A FileNotFoundError where its bucket is not, which a HEAD does not tell.
        """
        try:
            await self._get(0, 1)
        except Exception as e:
            fault = fault_of(e)
            if fault.status == _BAD_RANGE:  # it is empty
                return True
            if fault.status != 404 or fault.code == "NoSuchBucket":
                raise
            return False
        return True

    async def has_files_below(self) -> bool:
        bucket, key, _ = self.system.split_path(self.inside)
        prefix = f"{key}/" if key else ""
        answer = await self.system._call_s3(
            "list_objects_v2", Bucket=bucket, Prefix=prefix, MaxKeys=1
        )
        return bool(answer.get("Contents"))

    async def put_bytes(self, data: bytes) -> None:
        await self._call("put_object", Body=data)

    async def put(self, path: str, *, creates: bool, advance: Callable[[int], None]) -> None:
        """Put a file in parts, a few at once, which are removed after an error or a signal.

        The condition goes with the last call. A store that has none refuses it with 501: then the
        object is looked for first. After an answer that was lost, the object's size and ETag say
        whether it is ours.
        """
        size = os.path.getsize(path)
        if size <= max(thresholds.FAR_PIECE, _LEAST_PART):
            data = Path(path).read_bytes()
            arguments = {"Body": data}
            await self._finish("put_object", arguments, _etag_of(data), creates=creates)
            advance(size)
            return
        started = await calls.retry(lambda: self._call("create_multipart_upload"))
        upload = {"UploadId": started["UploadId"]}
        parts: list[asyncio.Future[dict[str, Any]]] = []
        try:
            done = await self._put_parts(path, size, upload, parts, advance)
            await self._finish(
                "complete_multipart_upload",
                {**upload, "MultipartUpload": {"Parts": done}},
                _etag_of_parts(done),
                creates=creates,
            )
        except BaseException:  # a signal, too: each part that is kept costs money
            for part in parts:
                part.cancel()
            if parts:
                await asyncio.wait(parts)
            with contextlib.suppress(Exception):
                await self._call("abort_multipart_upload", **upload)
            raise

    async def _put_parts(
        self,
        path: str,
        size: int,
        upload: dict[str, Any],
        parts: list[asyncio.Future[dict[str, Any]]],
        advance: Callable[[int], None],
    ) -> list[dict[str, Any]]:
        step = max(calls.choose_piece(size), _LEAST_PART, -(-size // _MOST_PARTS))
        room = asyncio.Semaphore(calls.requests_at_once())

        async def put(number: int) -> dict[str, Any]:
            async with room:
                with open(path, "rb") as file:
                    file.seek((number - 1) * step)
                    data = file.read(step)
                arguments = {"PartNumber": number, "Body": data, **upload}
                answer = await calls.retry(lambda: self._call("upload_part", **arguments))
                advance(len(data))
            return {"PartNumber": number, "ETag": answer["ETag"]}

        count = -(-size // step)
        parts += [asyncio.ensure_future(put(number)) for number in range(1, count + 1)]
        return [*await asyncio.gather(*parts)]

    async def _finish(
        self, method: str, arguments: dict[str, Any], etag: str, *, creates: bool
    ) -> None:
        """The call that makes the object, which is tried several times."""
        await calls.retry(lambda: self._make(method, arguments, etag, creates=creates))

    async def _make(
        self, method: str, arguments: dict[str, Any], etag: str, *, creates: bool
    ) -> None:
        condition = _CONDITION if creates else {}
        try:
            await self._call(method, **arguments, **condition)
        except Exception as e:
            is_unknown = fault_of(e).status == 501 or getattr(e, "errno", 0) == errno.ENOSYS
            if creates and is_unknown:
                if await self.has_file():
                    raise FileExistsError(self.name) from e
                await self._call(method, **arguments)
            elif not await self._has_content(etag):
                raise

    async def _has_content(self, etag: str) -> bool:
        """Whether the object is what was just put.

        The first answer was lost, and the next try was refused.
        """
        try:
            answer = await self._call("head_object")
        except Exception:  # noqa: BLE001 - the error before it counts
            return False
        return bool(answer["ETag"].strip('"') == etag)

    async def list(self) -> dict[str, State]:
        bucket, key, _ = self.system.split_path(self.inside)
        prefix = f"{key}/" if key else ""
        states: dict[str, State] = {}
        next_page: dict[str, str] = {}
        while True:
            answer = await self.system._call_s3(
                "list_objects_v2", Bucket=bucket, Prefix=prefix, **next_page
            )
            for item in answer.get("Contents", ()):
                name = item["Key"].removeprefix(prefix)
                if name and not name.endswith("/"):  # which stand for folders
                    states[name] = state_of(item["Size"], item["ETag"], item["LastModified"])
            if not answer.get("NextContinuationToken"):
                return states
            next_page = {"ContinuationToken": answer["NextContinuationToken"]}


async def _read_body(body: Any, most: int) -> bytes:
    """Up to so many bytes of the body of an answer, which is closed."""
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
    """The ETag that S3 makes of those of the parts."""
    sums = b"".join(bytes.fromhex(part["ETag"].strip('"')) for part in parts)
    return f"{_etag_of(sums)}-{len(parts)}"
