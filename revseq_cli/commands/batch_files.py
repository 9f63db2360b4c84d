"""The files that a batch itself writes: its journal, and the manifest of the jobs that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.commands.journal import SUFFIX, InUseError, Journal
from revseq_cli.commands.manifest import JSON_SUFFIXES
from revseq_cli.formats import registry
from revseq_cli.ground import system
from revseq_cli.ground.errors import TensorIOError, UsageError

if TYPE_CHECKING:
    import contextlib

    from revseq_cli.commands.console import Console
    from revseq_cli.commands.manifest import Manifest
    from revseq_cli.formats.storage.newfile import NewFile


def journal_path(jobs: Manifest, given: str | None, *, resume: bool) -> str:
    """The real path of the journal, or nothing; UsageError for a journal that has no place, or a taken one."""
    if given == "":
        raise UsageError("--journal is empty", "the name of a file", "is a variable unset?")
    if given is None and not jobs.text.identity:
        if resume:
            found = "there is no manifest file, beside which the journal would lie"
            raise UsageError(found, "a place for the journal, now and when it goes on", "add --journal jobs.journal")
        return ""
    path = system.real_path(given if given is not None else f"{jobs.text.name}{SUFFIX}")
    _refuse_taken(path, jobs, "the journal")
    return path


def _refuse_taken(path: str, jobs: Manifest, what: str) -> None:
    """UsageError if a file that the batch itself writes is one of the manifest or of its jobs."""
    key = system.name_key(path)
    if jobs.text.identity and key == system.file_key(jobs.text.name):
        raise UsageError(f"{what} would be the manifest itself", "another name", where=path)
    for entry in jobs.entries:
        if key in map(system.name_key, (entry.output, *entry.inputs.values())):
            raise UsageError(f"{what} would be a file of {entry.place}", "another name", where=path)


def open_journal(
    path: str, stack: contextlib.ExitStack, console: Console, *, resume: bool, looks: bool
) -> Journal | None:
    """The journal, locked until the stack ends, or only read; None without a path, and where none can be written."""
    if not path or (looks and not resume):
        return None
    if looks:
        journal = Journal(path)
        journal.read()
        return journal
    try:
        journal = Journal.opened(path)
    except InUseError:
        raise
    except TensorIOError as e:
        if resume:
            raise
        console.note(f"{path}: {e.found}; so there is no journal, and an interrupted batch cannot go on")
        return None
    stack.callback(journal.close)
    return journal


def failed_file(path: str, jobs: Manifest, journal: str, *, overwrite: bool) -> NewFile:
    """The new manifest for --failed; UsageError for a name that says another format, or that is taken."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if not path:
        raise UsageError("--failed is empty", "the name of a file", "is a variable unset?")
    if (suffix in JSON_SUFFIXES and jobs.is_csv) or (suffix == ".csv" and not jobs.is_csv):
        formats, right = ("CSV", "failed.csv") if jobs.is_csv else ("JSON lines", "failed.jsonl")
        raise UsageError(f"--failed {path} has another suffix", f"{formats}, as the jobs are", f"try --failed {right}")
    real = system.real_path(path)
    _refuse_taken(real, jobs, "--failed")
    if journal and system.name_key(real) == system.name_key(journal):
        raise UsageError("--failed and the journal are one file", "two names", where=path)
    return registry.new_file(path, overwrite=overwrite, inputs=filter(None, [jobs.text.identity]))
