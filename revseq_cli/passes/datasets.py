"""ONNX's tests of ReverseSequence as examples of the operator: lengths are cast and widened, as ONNX has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from revseq_cli.formats.onnx import testdata
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import INPUT
from revseq_cli.passes import jobs
from revseq_cli.passes.assembly import Request
from revseq_cli.texts import support_checks

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.references import Reference
    from revseq_cli.ground.errors import RevseqError
    from revseq_cli.passes.assembly import Job

_CAST = DataType.UINT32  # every feature level takes such lengths


@dataclass(frozen=True)
class DataSetExample:
    """One test as an example, and as a whole job."""

    tensors: testdata.DataSet

    @property
    def data_set(self) -> str:
        """The name of its folder."""
        return self.tensors.name

    def job(self) -> Job:
        """Its job; FormatError where its tensors do not fit together.

        ONNX's reference clamps a length above the axis size, as the operator does; only ONNX Runtime refuses it.
        """
        request = Request(self.tensors.values.name, lengths_dtype=_CAST, batch_axis=self.tensors.batch_axis)
        return jobs.load_whole(request, self)

    def output(self, _: Job) -> Source:
        """The result in the folder."""
        return self.tensors.output

    def spot(self, _: str | RevseqError = "") -> None:
        """No place: the tensors are no texts."""

    def spot_of_element(self, _: int) -> None:
        """No place either."""

    def tensor(self, role: str, _: TextTypes) -> Source:
        """The tensor of that name in the operator."""
        return self.tensors.values if role == INPUT else self.tensors.lengths

    def axis(self) -> int:
        """The time axis."""
        return self.tensors.time_axis


@dataclass(frozen=True)
class Folder:
    """A folder of tests."""

    name: str
    examples: list[DataSetExample]
    skipped = 0
    support = support_checks.Checked(0, 0, ())
    remarks = ()


def open_folder(reference: Reference) -> Folder | None:
    """The tests in a folder, or beside a model; None for a reference to anything else."""
    path = reference.path
    if reference.is_piped or not testdata.is_test(path):
        return None
    return Folder(reference.name, [*map(DataSetExample, testdata.data_sets(path))])
