"""New files at addresses: each is written here, and put there when it is complete, which is one step.

An upload holds a few parts in memory, leaves none behind, and without `overwrite` never replaces an object where the
store can tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from revseq_cli.core import signals, thresholds
from revseq_cli.core.errors import RevseqError, TensorIOError, UsageError, exists_already
from revseq_cli.files.address import Address, canonical, is_web, scheme_of, store_of
from revseq_cli.files.base import Identity
from revseq_cli.files.calls import PACKAGES, NoRightError, ask, file_system
from revseq_cli.files.far import list_below, number_of, state_of
from revseq_cli.files.new import NewFile, is_an_input, temporary_name

_MOST_PARTS = 10_000  # of an object of S3
_ROOTS = ("zarr.json", ".zarray", ".zgroup")  # what makes a folder a store


class NewObject(NewFile):
    """A file to write at an address."""

    _mode = 0o600

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self.name = Address(path)
        self.is_created = False
        self._overwrite = overwrite
        self._old = None
        if is_web(path) or scheme_of(path) not in (
            *PACKAGES,
            "memory",
            "local",
        ):  # others show a file while it is put
            raise UsageError(
                "can only be read",
                "an address of a bucket",
                "write it here, then upload it",
                self.name,
            )
        names = number_of(canonical(path))
        if any(identity.device == names for identity in inputs) or self._is_local_input(inputs):
            raise is_an_input(self.name)
        self._check()
        self.temporary = self.beside = os.path.join(tempfile.gettempdir(), temporary_name())

    def _is_local_input(self, inputs: Iterable[Identity]) -> bool:
        if store_of(self.name) != "local":
            return False
        with contextlib.suppress(OSError):
            status = os.stat(file_system(self.name)[1])
            return any(identity.names(status) for identity in inputs)
        return False

    def _check(self, inputs: Iterable[Identity] = ()) -> None:  # noqa: ARG002 - that is done
        """Refuse a name that is taken; where nobody may ask that, the store says it at the end."""
        if self._overwrite:
            return
        try:
            is_there = state_of(self.name) is not None
        except NoRightError:
            is_there = False
        if is_there:
            raise exists_already(self.name)

    def flush(self) -> None:
        """Nothing to flush: the file is put, and then removed."""

    @property
    def folder(self) -> str:
        return ""

    def identify(self) -> None:
        """No identity: a server gives an object one when it is put."""

    def begin_flush(self) -> None:
        """Nothing to flush: the file is put, and then removed."""

    def take_name(self) -> None:
        """Put the file."""
        fs, _ = file_system(self.name)
        has_condition = hasattr(fs, "_call_s3")
        if not has_condition:
            self._check()
        with signals.begun("put", os.path.getsize(self.temporary)) as advance:
            put = _put_parts if has_condition else _put_whole
            ask(
                self.name,
                functools.partial(put, self.temporary, advance, not self._overwrite),
                doing="write",
            )


async def _put_whole(
    path: str, advance: Callable[[int], None], creates: bool, fs: Any, inside: str
) -> None:
    """Put a file by fsspec's own function."""
    from fsspec.callbacks import Callback

    takes = inspect.signature(fs._put_file).parameters
    options: dict[str, Any] = {"callback": Callback()}
    options["callback"].relative_update = advance
    if "overwrite" in takes:  # adlfs
        options["overwrite"] = not creates
    if "mode" in takes and creates:
        options["mode"] = "create"
    if "chunksize" in takes:
        options["chunksize"] = thresholds.FAR_PIECE
    await fs._put_file(path, inside, **options)


async def _put_parts(
    path: str, advance: Callable[[int], None], creates: bool, fs: Any, inside: str
) -> None:
    """Put a file into a bucket of S3 in parts, a few at once, which are removed after an error or a signal.

    The condition goes with the last call. A store that has none refuses it with 501: then whoever looks first wins. An
    answer that was lost is asked for again, as the object's size and its ETag, of which S3 makes one for each content.
    """
    bucket, key, _ = fs.split_path(inside)
    names = {"Bucket": bucket, "Key": key}
    condition = {"IfNoneMatch": "*"} if creates else {}
    size = os.path.getsize(path)
    if size <= thresholds.FAR_PIECE:
        data = Path(path).read_bytes()
        await _finish(fs, "put_object", names | {"Body": data}, condition)
        advance(size)
        return
    step = max(thresholds.FAR_PIECE, -(-size // _MOST_PARTS))
    started = await fs._call_s3("create_multipart_upload", **names)
    names["UploadId"] = started["UploadId"]
    room = asyncio.Semaphore(thresholds.FAR_REQUESTS)

    async def put(number: int) -> dict[str, Any]:
        async with room:
            with open(path, "rb") as file:
                file.seek((number - 1) * step)
                data = file.read(step)
            answer = await fs._call_s3("upload_part", PartNumber=number, Body=data, **names)
            advance(len(data))
        return {"PartNumber": number, "ETag": answer["ETag"]}

    parts = [asyncio.ensure_future(put(number)) for number in range(1, -(-size // step) + 1)]
    try:
        done = await asyncio.gather(*parts)
        await _finish(
            fs, "complete_multipart_upload", names | {"MultipartUpload": {"Parts": done}}, condition
        )
    except BaseException:  # a signal, too: each part that is kept costs money
        for part in parts:
            part.cancel()
        await asyncio.wait(parts)
        with contextlib.suppress(Exception):
            await fs._call_s3("abort_multipart_upload", **names)
        raise


async def _finish(fs: Any, method: str, options: dict[str, Any], condition: dict[str, str]) -> None:
    """The call that makes the object; without the condition where the store has none."""
    try:
        await fs._call_s3(method, **options, **condition)
    except Exception as e:
        is_unknown = condition and getattr(e, "errno", 0) == errno.ENOSYS  # as s3fs says 501
        if is_unknown:
            if await _is_there(fs, options):
                raise FileExistsError from e
            await fs._call_s3(method, **options)
        elif not (condition and await _is_ours(fs, options)):
            raise


async def _is_there(fs: Any, options: dict[str, Any]) -> bool:
    try:
        await fs._call_s3("head_object", Bucket=options["Bucket"], Key=options["Key"])
    except FileNotFoundError:
        return False
    return True


async def _is_ours(fs: Any, options: dict[str, Any]) -> bool:
    """Whether the object is what was just put: the first answer was lost, and the second try was refused."""
    from hashlib import md5

    try:
        answer = await fs._call_s3("head_object", Bucket=options["Bucket"], Key=options["Key"])
    except Exception:  # noqa: BLE001 - the error before it counts
        return False
    if "Body" in options:
        right = md5(options["Body"], usedforsecurity=False).hexdigest()
    else:
        parts = options["MultipartUpload"]["Parts"]
        sums = b"".join(bytes.fromhex(part["ETag"].strip('"')) for part in parts)
        right = f"{md5(sums, usedforsecurity=False).hexdigest()}-{len(parts)}"
    return bool(answer["ETag"].strip('"') == right)


class NewStore(NewObject):
    """A Zarr store to write at an address: workers put its chunks there, and the folder `temporary` has all else.

    The latter is put at the end, and last what makes it a store. A mark at the address keeps other runs from it.
    """

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self._mark = temporary_name()
        self._is_partial = False
        super().__init__(path.rstrip("/"), overwrite=overwrite, inputs=inputs)
        self.address = self.name

    def _check(self, inputs: Iterable[Identity] = ()) -> None:  # noqa: ARG002 - see above
        if {*list_below(self.name)} != ({self._mark} if self.is_created else set()):
            wanted, hint = (
                "a new one: a folder is never replaced",
                "give it another name, or remove what is there",
            )
            raise TensorIOError("exists already, or is being written", wanted, hint, self.name)

    def create(self) -> None:
        """Create the folder here, and the mark there."""
        os.mkdir(self.temporary, 0o700)
        ask(
            self.name,
            lambda fs, inside: fs._pipe_file(f"{inside}/{self._mark}", b""),
            doing="write",
        )
        self.is_created = True
        self._check()
        self._is_partial = True  # what is there now is this run's alone

    def take_name(self) -> None:
        """Put the files of the folder, those of metadata last, and of these the outermost."""
        folder = Path(self.temporary)
        names = [
            each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()
        ]
        names.sort(
            key=lambda name: (
                name.rpartition("/")[2][:2] in (".z", "za"),
                -name.count("/"),
                name.endswith(_ROOTS),
            )
        )

        async def put(fs: Any, inside: str) -> None:
            for name in names:
                await fs._put_file(str(folder / name), f"{inside}/{name}")

        ask(self.name, put, doing="write")
        self._is_partial = False

    def remove(self) -> None:
        """Remove the folder here, and there the mark, or all that has become no store, as far as that can be done."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        if self.is_created:
            self.is_created = False
            with contextlib.suppress(RevseqError):
                if self._is_partial:
                    ask(self.name, lambda fs, inside: fs._rm(inside, recursive=True), stops=False)
                else:
                    ask(
                        self.name,
                        lambda fs, inside: fs._rm_file(f"{inside}/{self._mark}"),
                        stops=False,
                    )
