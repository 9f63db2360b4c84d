"""How other systems have the axes by default. This module loads no NumPy."""

from __future__ import annotations

from typing import NamedTuple


class System(NamedTuple):
    """The axis and the batch axis that a system has by default; None where its users always say which."""

    axis: int | None
    batch_axis: int

    def batch_for(self, axis: int) -> int | None:
        """The batch axis where `axis` is reversed; None where the system does not say it.

        Where it has an axis of its own, its batch is the other of the two.
        """
        if self.axis is None or axis == self.axis:
            return self.batch_axis
        return self.axis if axis == self.batch_axis else None


SYSTEMS = {
    "onnx": System(0, 1),  # time_axis and batch_axis of ReverseSequence, in all versions of its schema
    "tensorflow": System(None, 0),  # seq_axis and batch_axis of tf.reverse_sequence
    "pytorch": System(0, 1),  # torch.nn.utils.rnn without batch_first
}
