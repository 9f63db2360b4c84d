"""The journal of a batch: what is done, so that an interrupted batch can go on.

It is a text file of lines that are only ever appended, each with a checksum, so that a crash at any moment leaves a
readable one: a line that was not written whole is left out, and no line before it is touched. To write it anew for each
of 10,000 jobs would cost more than the jobs.

A job has two lines. The first is on the disk before the output gets its name: it says that the file of that inode is
ours. The second says that the job is done: from which options, from which files in which state, and the state of the
output. A job counts as done only if all of that is as it was. The state of a file is its inode, its size and two times;
the second of them is the system's own, which no program can put back.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import hashlib
import json
import os
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.core import signals, system
from revseq_cli.core.errors import FormatError, MissingFileError, RevseqError, TensorIOError, UsageError
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction
from revseq_cli.formats.references import Reference

if TYPE_CHECKING:
    from revseq_cli.commands.base import Console
    from revseq_cli.commands.manifest import Entry, Manifest
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.results import Outcome

_VERSION = 1
# What changes how a job is done, and not what it writes; `verify` is held against what was done.
_MEANS = {"engine", "cores", "memory", "scheduler", "scheduler_file", "overwrite", "verify"}
_NAMES = {"input", "lengths", "output"}
_LONGEST_WAIT = 5.0  # seconds for the workers of a batch that was killed: they notice that within a tenth of one
# A file that changes twice within one tick of the system's clock has the same times after both changes. So the state of
# a file that changed just before it was read is not noted, and its job is done again.
_TICK, _COARSE_TICK = 50_000_000, 2_000_000_000  # ns; the second for file systems that keep whole seconds

# The state of a file as numbers, of a folder as a digest; None for one that cannot be told.
State = list[int] | str | None

_TOLD = {"bytes": int, "verified": bool, "clamped": int}


def state_of(path: str) -> State:
    """The state of a file, or of a folder with all that is in it; None where it cannot be told."""
    try:
        if os.path.isdir(path):  # noqa: PTH112 - any text
            from revseq_cli.formats.zarr import source

            return source.state(path, path).digest
        with file_io.opened(path) as fd:
            return _numbers(file_io.identity(fd))
    except (RevseqError, OSError, ValueError):  # the last for what is no path
        return None


def states_read(entry: Entry, job: Job, began: int) -> dict[str, State]:
    """The state of each file that a job reads, as it was when it was opened; `began` is the time in ns before that.

    That of a folder is taken now.

    `Job.recheck` notices what changes from then on.
    """
    found: dict[str, State] = {}
    for name, source in (("input", job.values), ("lengths", job.lengths)):
        given = entry.inputs.get(name, "")
        if os.path.isdir(given):  # noqa: PTH112 - any text
            folder = system.real_path(os.path.dirname(source.path))  # noqa: PTH120
            found[folder] = state_of(folder)
            continue
        named = {given: source.described or source.identity}  # a model may name other files, and describes them
        if source.described:
            named[system.real_path(source.path)] = source.identity
        found |= {path: _settled(each, began) for path, each in named.items() if path}
    return found


def _settled(identity: file_io.Identity | None, began: int) -> State:
    """The state, or None where the file changed so short a time before that its next change might not show."""
    if identity is None:
        return None
    whole_seconds = not (identity.changed % 10**9 or identity.touched % 10**9)
    if began - identity.touched < (_COARSE_TICK if whole_seconds else _TICK):
        return None
    return _numbers(identity)


def _numbers(identity: file_io.Identity) -> list[int]:
    return [identity.inode, identity.size, identity.changed, identity.touched]


def _digest(entry: Entry) -> str:
    """What a job writes, in short: its options, without the means, and the real paths of its files."""
    options: dict[str, Any] = {key: value for key, value in entry.options.items() if key not in _MEANS | _NAMES}
    for name in _NAMES & entry.options.keys():
        reference = Reference.input(entry.options[name])
        path = entry.output if name == "output" else entry.inputs.get(name)
        options[name] = [path, reference.key, reference.inline]
    return hashlib.sha256(ascii(sorted(options.items())).encode()).hexdigest()[:32]


def _line(record: dict[str, Any]) -> bytes:
    """A line with its checksum, without a line break."""
    text = json.dumps(record).encode()
    return b"%08x %b" % (zlib.crc32(text), text)


_HEADER = _line({"revseq-journal": _VERSION})


def _record(line: bytes) -> Any:
    """What a line holds; None if it is damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        return json.loads(text) if int(checksum, 16) == zlib.crc32(text) else None
    except (ValueError, RecursionError):
        return None


def _is_state(value: object) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, list) and all(type(n) is int for n in value))


def _are_states(inputs: list[Any]) -> bool:
    pairs = (each for each in inputs if isinstance(each, list) and len(each) == 2)
    return sum(isinstance(path, str) and _is_state(state) for path, state in pairs) == len(inputs)


def _is_told(told: dict[str, Any]) -> bool:
    return _TOLD.keys() <= told.keys() and all(type(told[key]) is _TOLD.get(key) for key in told)


def chosen_path(jobs: Manifest, given: str | None, *, resume: bool) -> str:
    """The real path of the journal, or nothing; UsageError for a journal that has no place, or a taken one."""
    if named := given or jobs.journal:
        path = system.real_path(named)
        jobs.require_free(path, "the journal")
        return path
    if resume:
        found = "there is no manifest file, so there is no folder for the journal"
        raise UsageError(found, "a place for the journal, now and with --resume", "add --journal jobs.journal")
    return ""


def opened(path: str, stack: contextlib.ExitStack, console: Console, *, resume: bool, looks: bool) -> Journal | None:
    """The journal, locked until the stack ends, or only read; None without a path, and where none can be written."""
    if not path or (looks and not resume):
        return None
    journal = Journal(path)
    try:
        if not looks:
            stack.callback(journal.close)
            journal.lock()
        journal.read()
    except TensorIOError as e:
        if resume or isinstance(e, InUseError):
            raise
        console.note(f"{path}: {e.found}; so there is no journal, and an interrupted batch cannot resume")
        return None
    return journal


class InUseError(TensorIOError):
    """The journal of a batch that runs."""


class Found(NamedTuple):
    """What the journal says of a job: `told` is what was reported of it, if it is done and all is as it was."""

    is_ours: bool
    told: dict[str, Any] | None


class Journal:
    """The journal of a batch. The process of the batch locks and reads it; any process may write, several at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._locked, self._written, self._one_writer = -1, -1, _thread.allocate_lock()  # two descriptors
        self._done: dict[str, dict[str, Any]] = {}  # the last record of each output
        self._begun: dict[str, set[int]] = {}  # the inodes of files that got its name, or were about to
        self._state = functools.cache(state_of)  # of inputs, which many jobs may share
        self.damaged = 0  # lines

    def __reduce__(self) -> tuple[object, ...]:
        """Another process opens the file itself."""
        return type(self), (self.path,)

    def begin(self, entry: Entry, temporary: str) -> None:
        """Note that the temporary file gets the name of the job's output; on the disk when this returns."""
        self._append({"output": entry.output, "inode": os.stat(temporary).st_ino})  # noqa: PTH116 - a string
        with file_io.trying_to("write", self.path):
            system.flush(self._written)

    def note(self, entry: Entry, read: dict[str, State], outcome: Outcome) -> Outcome:
        """Note that a job is done; the outcome, with a note if that cannot be written."""
        told: dict[str, Any] = {"bytes": outcome.bytes, "verified": outcome.verified, "clamped": outcome.clamped}
        record = {"output": entry.output, "job": _digest(entry), "inputs": sorted(read.items()), "told": told}
        try:
            self._append(record | {"state": state_of(entry.output)})
        except TensorIOError as e:
            note = f"{outcome.output} is written, but is missing from the journal: {e.where}: {e.found}"
            return outcome._replace(notes=(*outcome.notes, note))
        return outcome

    def _append(self, record: dict[str, Any]) -> None:
        line = b"\n" + _line(record)  # what stands before may have been written in part
        with file_io.trying_to("write", self.path), self._one_writer:
            if self._written < 0:
                self._written = system.open_file(self.path, system.APPEND)
            written = os.write(self._written, line)
        if written < len(line):
            raise TensorIOError(
                "cannot write: only part of the line was written", hint="free some space", where=self.path
            )

    def lock(self) -> None:
        """Lock the file, which is made if there is none; InUseError while another batch has it."""
        deadline = time.monotonic() + _LONGEST_WAIT
        while self._locked < 0:
            with file_io.trying_to("open", self.path), contextlib.ExitStack() as stack:
                try:
                    fd = file_io.patiently(lambda: system.open_file(self.path, system.UPDATE))
                except FileNotFoundError:
                    self._create()
                    continue
                stack.callback(os.close, fd)
                while not system.lock(fd):
                    if time.monotonic() > deadline:
                        found, hint = "is in use: another batch works on these outputs", "--journal names another"
                        raise InUseError(found, "one at a time", f"wait until it has ended, or {hint}", self.path)
                    signals.check()
                    time.sleep(signals.PATIENCE)
                # Another batch may have removed or made it meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(fd), os.stat(self.path)):  # noqa: PTH116 - a string
                        self._locked = fd
                        stack.pop_all()

    def _create(self) -> None:
        file = AtomicFile(self.path, overwrite=False)
        try:
            with FileTransaction(file):
                file.write(_HEADER)
        except TensorIOError:
            if not os.path.exists(self.path):  # noqa: PTH110 - else another batch was faster
                raise

    def read(self) -> None:
        """Read all lines; FormatError if it is the journal of another version, or none."""
        try:
            with file_io.opened(self.path) as fd:
                data = file_io.read_some(fd, sys.maxsize, 0, self.path)
        except MissingFileError:  # nothing is done yet
            return
        first, *lines = data.split(b"\n")
        if first != _HEADER:
            hint = f"give it another name: {system.quoted(self.path)}"
            raise FormatError(f"is not a revseq journal, version {_VERSION}", "one, or no such file", hint, self.path)
        for line in filter(None, lines):
            match _record(line):
                case {"output": str(output), "inode": int(inode), **others} if not others:
                    self._begun.setdefault(output, set()).add(inode)
                case {
                    "output": str(output), "job": str(), "inputs": list(inputs), "told": dict(told), "state": state,
                    **others,
                } as record if not others and _is_told(told) and _is_state(state) and _are_states(inputs):  # fmt: skip
                    self._done[output] = record
                case _:
                    self.damaged += 1

    @property
    def outputs(self) -> set[str]:
        """The outputs that it is about."""
        return {*self._done, *self._begun}

    def of(self, entry: Entry) -> Found:
        """What it says of a job."""
        record, state = self._done.get(entry.output), state_of(entry.output)
        is_ours = isinstance(state, list) and state[0] in self._begun.get(entry.output, ())
        if not record:
            return Found(is_ours, None)
        told, options = record["told"], entry.options
        good = (
            record["job"] == _digest(entry)
            and told["verified"] >= options["verify"]
            and state is not None
            and record["state"] == state
            and all(state is not None and state == self._state(path) for path, state in record["inputs"])
        )
        return Found(is_ours, told if good else None)

    def clear(self) -> None:
        """Begin anew, since every job runs again and replaces its output."""
        with contextlib.suppress(OSError):  # then all lines stay, and harm nothing
            os.truncate(self.path, len(_HEADER))

    def close(self) -> None:
        """Let other batches have it."""
        if self._locked >= 0:
            os.close(self._locked)
