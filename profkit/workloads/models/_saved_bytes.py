"""Bytes that autograd saves for common layers: the terms of `ModelFamily.activation_bytes`."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ComputePrecision: TypeAlias = Literal["fp32", "autocast", "half"]
"""fp32; ``torch.autocast`` over a model in fp32; or a model that itself is in bf16 or fp16."""

FP32_BYTES = 4
INDEX_BYTES = 8
_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class SavedBytes:
    """Bytes that autograd saves, in one precision."""

    precision: ComputePrecision

    @property
    def value_bytes(self) -> int:
        """Size of one value of the inputs and outputs of matrix products."""
        return FP32_BYTES if self.precision == "fp32" else _HALF_BYTES

    @property
    def stream_bytes(self) -> int:
        """Size of one value of the residual stream, which autocast leaves in fp32."""
        return _HALF_BYTES if self.precision == "half" else FP32_BYTES

    def weights(self, count: int) -> int:
        """Return the bytes of the copies that autocast makes of `count` weights."""
        return _HALF_BYTES * count if self.precision == "autocast" else 0

    def layer_norm(self, values: int, positions: int) -> int:
        """Return the bytes of a norm's input, and of mean and deviation of each position."""
        return self.stream_bytes * values + 2 * FP32_BYTES * positions

    def block(self, positions: int, width: int, heads: int) -> int:
        """Return the bytes of a block of `profkit.workloads.models._blocks`.

        Per position and unit of width, 14 values are inputs or outputs of products: outputs of
        the two norms (2), queries, keys and values (3), output of attention (1), input and output
        of the nonlinearity (8). Attention saves one number per head and position.
        """
        values = positions * width
        return (
            2 * self.layer_norm(values, positions)
            + 14 * values * self.value_bytes
            + FP32_BYTES * heads * positions
            + self.weights(12 * width * width)
        )

    def tokens_loss(self, positions: int, vocabulary: int) -> int:
        """Return the bytes of the mean cross entropy of `positions`: fp32, with 8-byte targets."""
        return FP32_BYTES * (positions * vocabulary + 1) + INDEX_BYTES * positions
