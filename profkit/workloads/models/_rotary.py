"""Rotary position embedding: queries and keys rotate by angles that grow with the position."""

import torch

_BASE = 10_000.0


def angles(positions: torch.Tensor, size: int) -> torch.Tensor:
    """Return the angles (positions, size / 2) of `positions`, for heads of `size` values."""
    steps = torch.arange(0, size, 2, dtype=torch.float32, device=positions.device)
    return positions.float()[:, None] * _BASE ** (-steps / size)


def rotated(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Return `x` (batch, heads, positions, size) with its halves rotated by the angles `by`."""
    # In fp32, as models do it: in bf16 the angle of a late position would be off by a radian.
    first, second = x.float().chunk(2, dim=-1)
    cosine, sine = by.cos(), by.sin()
    halves = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(halves, dim=-1).to(x.dtype)
