"""Other systems that reverse sequences, as data: where their axes are by default, and what they refuse.

Sources: the operator ReverseSequence of ONNX (time_axis 0 and batch_axis 1, in either order) and its implementation in
ONNX Runtime; TensorFlow's tf.reverse_sequence (batch_axis 0, no default for seq_axis); PyTorch's
torch.nn.utils.rnn.pad_sequence (T x B x *, or B x T x * with batch_first), and torch.nn.Transformer, whose
src_key_padding_mask is N x S in any case, as what tf.sequence_mask gives; MXNet's SequenceReverse (T x B x *). NumPy
has no such operator: its users have lengths of any type of integers, and count axes from either end.
"""

from __future__ import annotations

from typing import NamedTuple

from revseq_cli.core.tensors import DataType


class System(NamedTuple):
    """What a system does with lengths of rank 1, one for each index of a batch axis.

    `axis` and `batch_axis` are its defaults; `axis` is None where it has none. `axes` are the only ones that it can
    reverse, or None for any. `refuses` names who refuses a length above the axis size, or is "" where nobody does.
    `lengths` are the data types of lengths that it takes, or () where it takes numbers of any, `most_dimensions` is the
    largest dimension count of its values, and `negative_axes` says that its axes may be counted from the end.
    `masks_batch_first` says that a mask of two dimensions is one of batch and time, whatever the order in the values.
    One that `is_free` takes lengths of any dimension count, as DirectML does, and has no feature level.
    """

    name: str
    axis: int | None
    batch_axis: int | None
    axes: tuple[int, ...] | None = None
    refuses: str = ""
    lengths: tuple[DataType, ...] = ()
    most_dimensions: int | None = None
    negative_axes: bool = False
    masks_batch_first: bool = False
    is_free: bool = False

    def batch_for(self, axis: int) -> int | None:
        """The default of the batch axis where `axis` is reversed: reversing the default one exchanges the two."""
        return self.axis if axis == self.batch_axis and self.axis is not None else self.batch_axis


_INTEGERS = tuple(each for each in DataType if each.kind in ("int", "uint"))

SYSTEMS = {
    # The schema of ReverseSequence in versions 10 and 28 of ONNX's operators: "must be one of" 0 and 1, tensor(int64).
    "onnx": System("ONNX", 0, 1, (0, 1), "ONNX Runtime", (DataType.INT64,)),
    # tensorflow/core/ops/array_ops.cc, Tlen: {int32, int64}; core/kernels/reverse_sequence_op.cc, HANDLE_DIM and
    # "Invalid seq_dim", "Invalid batch_dim".
    "tensorflow": System(
        "TensorFlow", None, 0, None, "TensorFlow", (DataType.INT32, DataType.INT64), 5, masks_batch_first=True
    ),
    # Its dimensions may be negative everywhere; lengths are cast: torch/nn/utils/rnn.py, pack_padded_sequence.
    "pytorch": System("PyTorch", 0, 1, (0, 1), negative_axes=True, masks_batch_first=True),
    # src/operator/sequence_reverse-inl.h: "Only axis 0 is supported".
    "mxnet": System("MXNet", 0, 1, (0,)),
    "numpy": System("NumPy", None, None, lengths=_INTEGERS, negative_axes=True, is_free=True),
}
# What their users call them, too.
SYNONYMS = {"torch": "pytorch", "tf": "tensorflow", "xarray": "numpy"}
