"""What autograd saves of common layers, in bytes: the terms of `ModelFamily.activations`."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Computing: TypeAlias = Literal["fp32", "autocast", "bf16"]
"""fp32; ``torch.autocast`` over a model in fp32; or a model that itself is in bf16."""

FP32_BYTES = 4
INDEX_BYTES = 8
_BF16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes of what autograd saves for one way of computing."""

    computing: Computing

    @property
    def value_bytes(self) -> int:
        """Size of a value that matrix products take and give."""
        return FP32_BYTES if self.computing == "fp32" else _BF16_BYTES

    @property
    def stream_bytes(self) -> int:
        """Size of a value of the residual stream, which autocast leaves in fp32."""
        return _BF16_BYTES if self.computing == "bf16" else FP32_BYTES

    def weights(self, count: int) -> int:
        """Return the copies of `count` weights that autocast makes, and a product's node keeps."""
        return _BF16_BYTES * count if self.computing == "autocast" else 0

    def layer_norm(self, values: int, positions: int) -> int:
        """Return the input of a norm over `values`, with mean and deviation of each position."""
        return self.stream_bytes * values + 2 * FP32_BYTES * positions

    def block(self, positions: int, width: int, heads: int) -> int:
        """Return what a block of `profkit.workloads.models._blocks` saves.

        Per position and unit of width, products take or give 14 values: what comes out of the two
        norms (2), queries, keys and values (3), what attention returns (1), what goes into and
        comes out of the nonlinearity (8). Attention saves one number per head and position.
        """
        values = positions * width
        return (
            2 * self.layer_norm(values, positions)
            + 14 * values * self.value_bytes
            + FP32_BYTES * heads * positions
            + self.weights(12 * width * width)
        )

    def tokens_loss(self, positions: int, vocabulary: int) -> int:
        """Return what the mean cross entropy of `positions` saves: fp32, with 8-byte targets."""
        return FP32_BYTES * (positions * vocabulary + 1) + INDEX_BYTES * positions
