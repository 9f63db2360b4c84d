"""Other implementations of the operator that run jobs here: ReverseSequence on each provider of ONNX Runtime.

The package is found, kept quiet and asked here, also for `onnx_nodes`; what it says where it fails is told in our
errors.

DirectML's provider maps ReverseSequence to DML_OPERATOR_REVERSE_SUBSEQUENCES. Source:
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorReverseSequence.cpp.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core import system
from revseq_cli.core.dtypes import bits, data_type_of, dtype_of, native, word
from revseq_cli.core.errors import EngineError, FormatError, UsageError, listed
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.contract import extra
from revseq_cli.formats.onnx.source import NUMBERS, message
from revseq_cli.operator import kernel
from revseq_cli.operator.spec import DIRECTML, support
from revseq_cli.pipeline.arrangement import Resources, arrange_oracle
from revseq_cli.pipeline.engines import SERIAL
from revseq_cli.pipeline.plan import lengths_of
from revseq_cli.pipeline.reversal import random_access, reversed_output
from revseq_cli.pipeline.summaries import span_of_lengths
from revseq_cli.pipeline.systems import CPU, CUDA, DML
from revseq_cli.pipeline.views import Computed, Derived
from revseq_cli.porting.diagnosis import Oracle, unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from numpy.typing import NDArray

    from revseq_cli.core.errors import RevseqError
    from revseq_cli.formats.contract import ReadTask, Region, Source
    from revseq_cli.pipeline.arrangement import Arrangement
    from revseq_cli.pipeline.assembly import Job

_SUFFIX = "ExecutionProvider"
# The package of each provider that has one of its own.
_PACKAGES = {DML: "onnxruntime-directml", CUDA: "onnxruntime-gpu"}
# A model has these versions of ONNX's operators and of its own format: the first that have ReverseSequence.
_OPERATORS, _FORMAT = 10, 5
_INT, _INT64 = 2, 7  # the numbers of these types, of an attribute and of elements
# How often an element of a block is held besides: as it is given, in lines of its own, as it comes back, and compared.
_COPIES = 4
NAME, PACKAGE = "ONNX Runtime", "onnxruntime"
# The data types whose elements it hands out as they are.
COMPUTED = "a given tensor, or computed FLOAT16 to FLOAT64, INT8 to INT64, UINT8 to UINT64, BOOL"
# What is wanted where it says such words.
_WANTED = {
    "No Op registered|No opset import|not a registered": f"operators of {NAME}; libraries of others are never loaded",
    "No corresponding Numpy": COMPUTED,
}
_WRITES_ALL = (1, 28)  # the first version that writes lines of length 0
_QUIET = 4  # ONNX Runtime prints only what ends the process


class RefusedError(EngineError):
    """A provider that does not have the operator for a data type."""


class Provider(NamedTuple):
    """A provider of ONNX Runtime, and the data types for which it has ReverseSequence."""

    name: str
    data_types: tuple[DataType, ...]


class Device(NamedTuple):
    """A device of this machine that a provider can use."""

    provider: str
    kind: str
    vendor: str


class Machine(NamedTuple):
    """What ONNX Runtime has on this machine; versions before 1.22 tell no devices."""

    version: str
    providers: tuple[Provider, ...]
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class Backend:
    """A provider that runs jobs of one data type and dimension count, in one session.

    `dtype` is what it gets elements as: that of the job, or words of the same bits. The job's dimensions `axes` go to
    `places` of its tensors: the axis alone, where each line of the job has a length, or the axis and the batch axis.
    """

    name: str
    session: Any
    dtype: np.dtype[Any]
    axes: tuple[int, ...]
    places: tuple[int, ...]
    notes: tuple[str, ...]

    def run(self, axis: int, part: slice, values: NDArray[Any], lengths: NDArray[Any]) -> NDArray[Any]:
        """A part of the output along the axis, for whole lines; EngineError where the provider gives no such tensor."""
        clamped = kernel.clamp(lengths, values.shape[axis]).astype(np.int64)
        moved, of_each = (np.moveaxis(each, self.axes, self.places) for each in (values, clamped))
        if len(self.axes) == 1:
            lines, counts = moved.reshape(-1, values.shape[axis]), of_each.reshape(-1)
        else:  # repeated along all other dimensions
            lines, counts = moved, of_each.reshape(values.shape[self.axes[1]], -1)[:, 0]
        counts = np.ascontiguousarray(counts)
        given = np.ascontiguousarray(native(lines)) if lines.dtype.newbyteorder("=") == self.dtype else bits(lines)
        (made,) = asked(self.name, EngineError, lambda: self.session.run(None, {"x": given, "n": counts}))
        if (made.dtype, made.shape) != (given.dtype, given.shape):
            found = f"returned elements {made.dtype} of sizes {made.shape}"
            raise EngineError(found, f"{given.dtype} of sizes {given.shape}, like its input", where=self.name)
        elements = made.view(values.dtype.newbyteorder("=")).reshape(moved.shape)
        whole: NDArray[Any] = np.moveaxis(elements, self.places, self.axes)
        return whole[(slice(None),) * axis + (part,)]


class BackendOutput(Derived):
    """The output of a job that a backend gives, computed where it is read; a backend gets whole lines in any case."""

    def __init__(self, job: Job, backend: Backend) -> None:
        def read_task(region: Region) -> ReadTask:
            lines = (*region[: job.axis], slice(0, job.values.sizes[job.axis]), *region[job.axis + 1 :])
            lengths = job.lengths.read_task(lengths_of(region, job.axis))
            return Computed(partial(backend.run, job.axis, region[job.axis]), (job.values.read_task(lines), lengths))

        super().__init__(job.values, job.values.dtype.newbyteorder("="), read_task)
        self.backend, self.name, self.notes = backend, backend.name, backend.notes


class Host(NamedTuple):
    """A provider of the package ONNX Runtime on this machine."""

    runtime: ModuleType
    provider: str

    @classmethod
    def of(cls, provider: str) -> Host:
        """The host for a provider, which may be named without its suffix.

        FormatError where the package is missing, UsageError where the provider is.
        """
        needed = _PACKAGES.get(_named(provider, _PACKAGES), PACKAGE)
        runtime = package(needed)
        names: list[str] = runtime.get_available_providers()
        if name := _named(provider, names):
            return cls(runtime, name)
        exchange = f"type {system.pip(f'uninstall {PACKAGE}')}, and then {system.pip(f'install {needed}')}"
        hint = exchange if needed != PACKAGE else ""
        hint = f"on Windows, {hint}" if needed == _PACKAGES[DML] else hint
        found = f"version {runtime.__version__} has no {provider} here"
        raise UsageError(found, f"one of {listed(names, len(names))}", hint, NAME)

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{NAME} {self.runtime.__version__}, {self.provider}"

    def backend(self, job: Job, *, strictly: bool = False) -> Backend:
        """What runs jobs like this one; RefusedError where the provider does not.

        A data type that it lacks runs as words of the same bits, unless `strictly`.
        """
        own, batch = job.values.desc.data_type, job.batch_axis
        time = 0 if (job.axis, batch) == (0, 1) else 1
        axes, places = ((job.axis,), (-1,)) if batch is None else ((job.axis, batch), (time, 1 - time))
        rank = 2 if batch is None else len(job.values.sizes)
        words = word(dtype_of(own))
        others = () if strictly or words.kind != "u" or own.kind == "uint" else (data_type_of(words),)
        refused = []
        for each in (own, *others):
            as_words = f"{own.name} runs there as {each.name}, of the same bits: the provider has no {own.name}"
            notes = () if each is own else (as_words,)
            try:
                return Backend(self.name, self._session(each, rank, time), dtype_of(each), axes, places, notes)
            except RefusedError as e:
                refused.append(e)
        taken = listed((each.name for each in self.data_types()), len(DataType))
        wanted = f"one of {taken}" if taken else "a provider with that operator"
        raise RefusedError(f"has no ReverseSequence of {own.name}: {refused[0].found}", wanted, where=self.name)

    def data_types(self) -> Iterator[DataType]:
        """The data types for which it has the operator; each is tried."""
        for each in DataType:
            with contextlib.suppress(RefusedError):
                self._session(each, 2, 1)
                yield each

    def _session(self, data_type: DataType, rank: int, time: int) -> Any:  # noqa: ANN401 - of a package that is an extra
        """A session with the operator alone, on that provider alone; RefusedError where there is none."""
        options = self.runtime.SessionOptions()
        # DirectML has no patterns, and arenas keep what they had.
        options.enable_mem_pattern = options.enable_cpu_mem_arena = False
        if self.provider != CPU:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        alone = model(NUMBERS[data_type], rank, time)
        made = partial(self.runtime.InferenceSession, alone, options, providers=[self.provider], enable_fallback=0)
        session = asked(self.name, RefusedError, made)
        if session.get_providers()[:1] != [self.provider]:
            raise RefusedError(f"it runs on {listed(session.get_providers())} instead", where=self.name)
        return session


@contextlib.contextmanager
def opened(backend: Backend, job: Job, resources: Resources, a: Source | None = None) -> Iterator[Oracle]:
    """The oracle for what a backend gives; EngineError where the memory does not hold the lines of the smallest block.

    With `a`, of the output's sizes and cheap to read, it is the oracle for that, and what the backend gives is right.
    One session runs block after block in this process, in threads of its own.
    """
    arrangement = _of_whole_lines(job, resources._replace(engine=SERIAL.name))
    with random_access(job, "", arrangement) as ready:
        given = BackendOutput(ready, backend)
        judged, right = (a, given) if a else (given, reversed_output(ready))
        yield Oracle(judged, right, arrangement, ready, unchanged)


class Answer(NamedTuple):
    """What a host makes of a job: it is "right", "wrong" or "refused"; `told` says how it is wrong, or why refused.

    `levels` are those of DirectML with the same answer, as far as it can be seen: by the data type alone, since jobs
    run with dimension counts and lengths of ONNX Runtime's own.
    """

    name: str
    outcome: str
    told: str
    levels: tuple[str, ...]


def answer(host: Host, job: Job, resources: Resources) -> Answer:
    """Run a job that a feature level accepts, with elements of its own data type."""
    data_type = job.values.desc.data_type
    rows = {level.short: support(level) for level in DIRECTML}
    taking = tuple(level for level, row in rows.items() if row and data_type in row.values)
    try:
        with opened(host.backend(job, strictly=True), job, resources) as pair:
            found = pair.compare(None, 1)
    except RefusedError as e:
        return Answer(host.name, "refused", e.found, tuple(level for level in rows if level not in taking))
    if found.count:
        return Answer(host.name, "wrong", f"{found.count:,} of {found.total:,} elements differ", ())
    return Answer(host.name, "right", "", taking)


def notes_on(host: Host, job: Job, clamped: int) -> tuple[str, ...]:
    """Notes on a job that a host runs, of which so many lengths are above the axis size."""
    notes: tuple[str, ...] = (
        ("ONNX Runtime refuses lengths above the axis size, so it got the axis size instead",) if clamped else ()
    )
    version = host.runtime.__version__
    if version_of(version) < _WRITES_ALL and span_of_lengths(job.given_lengths, ()).least == 0:
        first = ".".join(map(str, _WRITES_ALL))
        notes += (f"{NAME} {version} leaves lines of length 0 unwritten, as all versions before {first} do",)
    return notes


def version_of(text: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(map(int, text.split(".")[:2]))


def machine() -> Machine:
    """The providers and devices of this machine; FormatError where the package is missing."""
    runtime = package()
    found: Any = getattr(runtime, "get_ep_devices", list)()
    devices = (Device(each.ep_name, each.device.type.name, each.device.vendor) for each in found)
    providers = (Provider(name, tuple(Host(runtime, name).data_types())) for name in runtime.get_available_providers())
    return Machine(runtime.__version__, tuple(providers), tuple(devices))


def _of_whole_lines(job: Job, resources: Resources) -> Arrangement:
    """An arrangement that cuts no line; EngineError with the memory that is enough, where there is none."""

    def arranged(memory: int) -> Arrangement:
        return arrange_oracle(job, job.values, resources._replace(memory=memory), _COPIES)

    if not (arrangement := arranged(resources.memory)).plan.cuts_lines:
        return arrangement
    more = (resources.memory << doublings for doublings in range(1, 64))
    enough = next(memory for memory in more if not arranged(memory).plan.cuts_lines)
    found = f"the memory is {resources.memory} bytes, too little for a whole line and what ONNX Runtime makes of it"
    raise EngineError(found, "room for whole lines", f"try --memory {enough}", job.values.name)


def _named(provider: str, names: Iterable[str]) -> str:
    """The one of the names that a provider has, which may lack the suffix, in any case; nothing if it is none."""
    return next((each for each in names if provider.lower() in (each.lower(), each.removesuffix(_SUFFIX).lower())), "")


def model(number: int, rank: int, time: int) -> bytes:
    """A model of ONNX: the output y is ReverseSequence of x, of a data type's number, and of the lengths n."""

    def tensor(name: str, elements: int, dimensions: int) -> bytes:
        shape = message(*[(1, b"")] * dimensions)  # of any size
        return message((1, name), (2, message((1, message((1, elements), (2, shape))))))

    axes = (("time_axis", time), ("batch_axis", 1 - time))
    attributes = [(5, message((1, name), (3, axis), (20, _INT))) for name, axis in axes]
    node = message((1, "x"), (1, "n"), (2, "y"), (4, "ReverseSequence"), *attributes)
    x, n, y = tensor("x", number, rank), tensor("n", _INT64, 1), tensor("y", number, rank)
    graph = message((1, node), (2, "job"), (11, x), (11, n), (12, y))
    return message((1, _FORMAT), (7, graph), (8, message((1, ""), (2, _OPERATORS))))


def package(name: str = PACKAGE) -> ModuleType:
    """The package, which prints nothing; FormatError where it is missing, with what to install, or damaged."""
    try:
        found = extra(PACKAGE, "is not installed", NAME, name)
    except ImportError as e:  # as on a Windows without the libraries of Visual C++
        wanted = "a package that Python can load"
        raise FormatError(f"cannot be loaded: {e}", wanted, where=NAME) from None
    found.set_default_logger_severity(_QUIET)
    return found


def asked(where: str, error: type[RevseqError], ask: Callable[[], Any], it: str = "it") -> Any:  # noqa: ANN401
    """What ONNX Runtime answers; that error, with its own words, where it fails. `it` is what messages call it."""
    try:
        return ask()
    except Exception as e:  # noqa: BLE001 - its errors have no class in common
        wanted = next((right for words, right in _WANTED.items() if re.search(words, str(e))), "")
        raise error(f"{it} says {' '.join(str(e).split())[:400]}", wanted, where=where) from None
