"""Other implementations of the operator: nodes of ONNX models, backends that run a job, exports, and wrong outputs.

It imports core, operator, text, formats and pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.pipeline import jobs

if TYPE_CHECKING:
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline.assembly import Request


def register() -> None:
    """Let `pipeline.jobs` open nodes of ONNX models, such as model.onnx::name, from now on."""
    if _opened_node not in jobs.openers:
        jobs.openers.append(_opened_node)


def _opened_node(
    reference: Reference, lengths: Reference | None, request: Request
) -> tuple[jobs.WholeJob | None, Request]:
    """The node that the reference names, and the request with what it adds; see `jobs.Opener`."""
    if not (reference.is_onnx_model or request.feed):
        return None, request
    from revseq_cli.porting import onnx_nodes  # most jobs are no models

    node = onnx_nodes.node_of(reference, lengths, request)
    return node, node.completed(request) if node else request
