"""Files of web servers, by requests for ranges whose answers are checked.

They go through the session of fsspec's file system for the web.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from typing import Any

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.files.input_file import require_bytes
from revseq_cli.files.remote.faults import BAD_RANGE, LONGEST_CONNECT, MOST_SILENCE, ServerError
from revseq_cli.files.remote.path import Answer, ContentRange, RemotePath, State, make_state

_WHOLE = 200
_PART = 206
_NO_SUCH_FILE = (404, 410)
# What some servers answer to a request for the last bytes, which they do not know.
_NO_RANGES_FROM_THE_END = (400, 501)
_BUFFER = 1 << 16
_HINT = "download it first"


def make_web_options() -> dict[str, Any]:
    """Options that make a session as patient as we are, and let it use proxies and .netrc."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=LONGEST_CONNECT, sock_read=MOST_SILENCE
    )
    return {"client_kwargs": {"timeout": timeout, "trust_env": True}}


class WebPath(RemotePath):
    """A file on a web server, which lists no files.

    It is only asked for ranges, since answers to HEAD are often wrong.
    """

    async def ask_state(self) -> State:
        async with self._get("bytes=0-0") as response:
            return await self._state_in_answer(response)

    async def read_start(self, most: int) -> tuple[bytes, State]:
        async with self._get(f"bytes=0-{most - 1}") as response:
            if response.status == _WHOLE:
                return await self._read_small_file(response)
            state = await self._state_in_answer(response)
            count = min(most, state.size)
            data = await _read_body(response, count)
            require_bytes(len(data), count, self.name)
            return data, state

    async def read_range(self, start: int, stop: int) -> Answer:
        async with self._get(f"bytes={start}-{stop - 1}") as response:
            if response.status == _WHOLE:
                data, state = await self._read_small_file(response)
                return Answer(data[start:stop], state)
            sent = self._range_of(response)
            if sent.start != start or sent.stop < min(stop, sent.total):
                raise self._make_range_error(response, f"bytes {start}-{stop - 1}")
            data = await _read_body(response, stop - start)
            require_bytes(len(data), stop - start, self.name)
            return Answer(data, _state_of(response, sent.total))

    async def read_whole(self) -> bytes:
        data, state = await self.read_start(thresholds.REMOTE_SMALL)
        if state.size > len(data):
            rest = await self.read_range(len(data), state.size)
            return data + rest.data
        return data

    async def read_end(self, count: int) -> bytes:
        data = await self._ask_for_end(count)
        if data is None:
            return await super().read_end(count)
        return data

    async def _ask_for_end(self, count: int) -> bytes | None:
        """The last bytes; None if the server knows no ranges from the end, or sends others."""
        try:
            async with self._get(f"bytes=-{count}") as response:
                if response.status != _PART:
                    return None
                sent = self._range_of(response)
                if sent.stop != sent.total or sent.stop - sent.start != count:
                    return None
                return await _read_body(response, count)
        except ServerError as e:
            if e.status in _NO_RANGES_FROM_THE_END:
                return None
            raise

    async def has_file(self) -> bool:
        """Whether the file is there."""
        try:
            async with self._get("bytes=0-0"):
                return True
        except ServerError as e:
            if e.status in _NO_SUCH_FILE:
                return False
            raise

    async def list_states(self) -> dict[str, State]:
        """Nothing: a web server lists no files."""
        return {}

    @contextlib.asynccontextmanager
    async def _get(self, wanted: str) -> AsyncIterator[Any]:
        """The answer to a request for a range; ServerError if it is not a file."""
        session = await self.system.set_session()
        options = dict(self.system.kwargs)
        headers = {**options.pop("headers", {}), "Range": wanted, "Accept-Encoding": "identity"}
        url = self.system.encode_url(self.inside)
        async with session.get(url, headers=headers, **options) as response:
            if response.status not in (_WHOLE, _PART, BAD_RANGE):
                pause = _pause(response.headers.get("Retry-After", ""))
                raise ServerError(response.status, response.reason or "", pause)
            yield response

    async def _state_in_answer(self, response: Any) -> State:
        """The state of the file, as the answer to a request for its first bytes has it."""
        if response.status == _PART:
            sent = self._range_of(response)
            if sent.start != 0:
                raise self._make_range_error(response, "bytes 0-")
            return _state_of(response, sent.total)
        if response.status == BAD_RANGE:
            is_empty = response.headers.get("Content-Range", "").endswith("/0")
            if not is_empty:
                raise ServerError(response.status, response.reason or "")
            return _state_of(response, 0)
        size = response.content_length
        if size is not None and _is_plain(response):
            return _state_of(response, size)
        _, state = await self._read_small_file(response)
        return state

    async def _read_small_file(self, response: Any) -> tuple[bytes, State]:
        """The bytes and the state of a file that is sent whole; FormatError for a large one."""
        most = thresholds.REMOTE_WHOLE
        data = b""
        size = response.content_length or 0
        if size <= most:
            data = await _read_body(response, most + 1)
            size = len(data)
        if size > most:
            found = "its server sends whole files only"
            raise FormatError(found, "a server that sends ranges", _HINT, self.name)
        return data, _state_of(response, size)

    def _range_of(self, response: Any) -> ContentRange:
        """The range that an answer has; FormatError for an answer that has none."""
        sent = ContentRange.parse_header(response.headers.get("Content-Range", ""))
        if response.status != _PART or not sent:
            raise self._make_range_error(response, "a range of the file")
        if not _is_plain(response):
            found = f"its server sends ranges in {response.headers['Content-Encoding'][:20]}"
            raise FormatError(found, "the bytes of the file itself", _HINT, self.name)
        return sent

    def _make_range_error(self, response: Any, wanted: str) -> FormatError:
        sent = response.headers.get("Content-Range", "no Content-Range")[:60]
        found = f"its server answers with other bytes than were asked for: {sent}"
        return FormatError(found, wanted, _HINT, self.name)


def _is_plain(response: Any) -> bool:
    """Whether an answer has the bytes of the file itself, and not compressed ones."""
    return bool(response.headers.get("Content-Encoding", "identity") == "identity")


def _state_of(response: Any, size: int) -> State:
    headers = response.headers
    moment = headers.get("Last-Modified")
    try:
        return make_state(size, headers.get("ETag"), moment)
    except ValueError:  # it is not a date
        return make_state(size, headers.get("ETag") or moment, None)


async def _read_body(response: Any, most: int) -> bytes:
    """Up to `most` bytes of an answer: a server may send more than it has said."""
    data = bytearray()
    async for piece in response.content.iter_chunked(_BUFFER):
        data += piece[: most - len(data)]
        if len(data) >= most:
            break
    return bytes(data)


def _pause(text: str) -> float | None:
    """The seconds that Retry-After says, as a number or a date."""
    if text.isdecimal():
        return float(text)
    with contextlib.suppress(ValueError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None
