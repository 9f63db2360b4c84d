"""Files of web servers.

Their ranges are checked, and come through the session of fsspec's file system for the web.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.files.faults import MOST_SILENCE, ServerError
from revseq_cli.files.store import Answer, State, Store, state_of, truncated

_LONGEST_CONNECT = 10  # seconds
_WHOLE = 200
_PART = 206
_UNKNOWN = (400, 501)  # what some answer to a range from the end
_BAD_RANGE = 416
_BUFFER = 1 << 16
_HINT = "download it first"


def options() -> dict[str, Any]:
    """What a session needs to be as patient as we are.

    And to know proxies and .netrc as curl does.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=_LONGEST_CONNECT, sock_read=MOST_SILENCE
    )
    return {"client_kwargs": {"timeout": timeout, "trust_env": True}}


class _Range(NamedTuple):
    start: int
    stop: int
    total: int


class WebFile(Store):
    """A file on a web server.

    It is asked for by ranges alone, since answers to HEAD are often wrong.
    """

    async def state(self) -> State:
        async with self._get(f"bytes=0-{0}") as response:
            return await self._state_in_answer(response)

    async def begin(self, most: int) -> Answer:
        async with self._get(f"bytes=0-{most - 1}") as response:
            state = await self._state_in_answer(response)
            if response.status == _WHOLE:
                return await self._read_whole(response)
            count = min(most, state.size)
            data = await _read_body(response, count)
            if len(data) < count:
                raise truncated(self.name)
            return Answer(data, state)

    async def read(self, start: int, stop: int) -> Answer:
        async with self._get(f"bytes={start}-{stop - 1}") as response:
            if response.status == _WHOLE:
                whole = await self._read_whole(response)
                return Answer(whole.data[start:stop], whole.state)
            sent = self._range_of(response)
            if sent.start != start or sent.stop < min(stop, sent.total):
                raise self._other_bytes(response, f"bytes {start}-{stop - 1}")
            data = await _read_body(response, stop - start)
            if len(data) < stop - start:
                raise truncated(self.name)
            return Answer(data, _state(response, sent.total))

    async def read_all(self) -> bytes:
        answer = await self.begin(thresholds.FAR_SMALL)
        if answer.state and answer.state.size > len(answer.data):
            rest = await self.read(len(answer.data), answer.state.size)
            return answer.data + rest.data
        return answer.data

    async def read_end(self, count: int) -> bytes:
        try:
            async with self._get(f"bytes=-{count}") as response:
                if response.status == _PART:
                    sent = self._range_of(response)
                    if sent.stop == sent.total and sent.stop - sent.start == count:
                        return await _read_body(response, count)
        except ServerError as e:
            if e.status not in _UNKNOWN:
                raise
        return await super().read_end(count)  # some servers know no ranges from the end

    async def has_file(self) -> bool:
        """Whether the file is there."""
        try:
            async with self._get("bytes=0-0"):
                return True
        except ServerError as e:
            if e.status not in (404, 410):
                raise
            return False

    async def list(self) -> dict[str, State]:
        """Nothing: a web server lists no files."""
        return {}

    @contextlib.asynccontextmanager
    async def _get(self, wanted: str) -> AsyncIterator[Any]:
        """The answer to a request for a range, unless it is an error."""
        session = await self.system.set_session()
        known = dict(self.system.kwargs)
        headers = {**known.pop("headers", {}), "Range": wanted, "Accept-Encoding": "identity"}
        url = self.system.encode_url(self.inside)
        async with session.get(url, headers=headers, **known) as response:
            if response.status not in (_WHOLE, _PART, _BAD_RANGE):
                pause = _pause(response.headers.get("Retry-After", ""))
                raise ServerError(response.status, response.reason or "", pause)
            yield response

    async def _state_in_answer(self, response: Any) -> State:
        if response.status == _PART:
            sent = self._range_of(response)
            if sent.start != 0:
                raise self._other_bytes(response, "bytes 0-")
            return _state(response, sent.total)
        if response.status == _BAD_RANGE:
            if not response.headers.get("Content-Range", "").endswith("/0"):
                raise ServerError(response.status, response.reason or "")
            return _state(response, 0)
        size = response.content_length
        is_plain = response.headers.get("Content-Encoding", "identity") == "identity"
        if size is not None and is_plain:
            return _state(response, size)
        answer = await self._read_whole(response)
        return answer.state or _state(response, len(answer.data))

    async def _read_whole(self, response: Any) -> Answer:
        """The body of an answer that has the whole file; FormatError for a large one."""
        if (response.content_length or 0) > thresholds.FAR_WHOLE:
            raise self._whole_only()
        data = await _read_body(response, thresholds.FAR_WHOLE + 1)
        if len(data) > thresholds.FAR_WHOLE:
            raise self._whole_only()
        return Answer(data, _state(response, len(data)))

    def _whole_only(self) -> FormatError:
        found = "its server sends whole files only"
        return FormatError(found, "a server that sends ranges", _HINT, self.name)

    def _other_bytes(self, response: Any, wanted: str) -> FormatError:
        sent = response.headers.get("Content-Range", "no Content-Range")[:60]
        found = f"its server answers with other bytes than were asked for: {sent}"
        return FormatError(found, wanted, _HINT, self.name)

    def _range_of(self, response: Any) -> _Range:
        text = response.headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", text.strip())
        if response.status != _PART or not match:
            raise self._other_bytes(response, "a range of the file")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            found = f"its server sends ranges in {response.headers['Content-Encoding'][:20]}"
            raise FormatError(found, "the bytes of the file itself", _HINT, self.name)
        return _Range(int(match[1]), int(match[2]) + 1, int(match[3]))


def _state(response: Any, size: int) -> State:
    moment = response.headers.get("Last-Modified")
    try:
        return state_of(size, response.headers.get("ETag"), moment)
    except ValueError:  # no date
        return state_of(size, response.headers.get("ETag") or moment, None)


async def _read_body(response: Any, most: int) -> bytes:
    """Up to so many bytes: a server may send any number, whatever it has said."""
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
