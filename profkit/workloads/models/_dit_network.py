"""The network of family ``dit``."""

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from profkit.workloads.models._rotary import angles, rotated

if TYPE_CHECKING:
    from profkit.workloads.models.dit import Model

_SLOWEST = 10_000.0
# Timesteps lie between 0 and 1, and the sinusoids are made for 0 to 1000.
_SCALE = 1000.0


def sinusoids(values: torch.Tensor, size: int) -> torch.Tensor:
    """Spread `values` (batch) over `size` sines and cosines: (batch, size)."""
    powers = torch.arange(size // 2, dtype=torch.float32, device=values.device) / (size // 2)
    phases = _SCALE * values.float()[:, None] * torch.exp(-math.log(_SLOWEST) * powers)
    return torch.cat((phases.cos(), phases.sin()), dim=-1).to(values.dtype)


class Embedder(nn.Sequential):
    """Two layers that make a condition (batch, inputs) as wide as a token."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width))


class Modulation(nn.Module):
    """Conditions (batch, width) to the `parts` factors (batch, 1, width) of a block."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = nn.Linear(width, parts * width)

    def forward(self, conditions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the factors."""
        made = self.linear(functional.silu(conditions))[:, None]
        return tuple(made.chunk(self.parts, dim=-1))


class Heads(nn.Module):
    """Queries, keys and values (batch, heads, tokens, size), the first two normalised."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.heads = sizes.heads
        self.q_norm = nn.RMSNorm(sizes.width // sizes.heads, eps=1e-6)
        self.k_norm = nn.RMSNorm(sizes.width // sizes.heads, eps=1e-6)

    def forward(self, qkv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Split (batch, tokens, 3 * width)."""
        q, k, v = qkv.view(*qkv.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        # Under autocast, norms give fp32.
        return self.q_norm(q).to(v.dtype), self.k_norm(k).to(v.dtype), v


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Attend over all tokens: (batch, tokens, width)."""
    mixed = functional.scaled_dot_product_attention(rotated(q, by), rotated(k, by), v)
    return mixed.transpose(1, 2).flatten(-2)


class Stream(nn.Module):
    """The layers of image or text in a double block; both attend together between its halves."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        width = sizes.width
        self.modulation = Modulation(width, 6)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.heads = Heads(sizes)
        self.projection = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def before(
        self, x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the queries, keys and values of (batch, tokens, width)."""
        made: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = self.heads(
            self.qkv(self.norm(x) * (1 + scale) + shift)
        )
        return made

    def after(
        self, x: torch.Tensor, mixed: torch.Tensor, factors: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        """Add the projected output of attention, `mixed`, and then that of the perceptron."""
        gate, shift, scale, last = factors
        x = x + gate * self.projection(mixed)
        out: torch.Tensor = x + last * self.mlp(self.norm(x) * (1 + scale) + shift)
        return out


class DoubleBlock(nn.Module):
    """Image and text with weights of their own, attending to both."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.image = Stream(sizes)
        self.text = Stream(sizes)

    def forward(
        self, image: torch.Tensor, text: torch.Tensor, conditions: torch.Tensor, by: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Map both (batch, tokens, width) to the same shapes."""
        of_image, of_text = self.image.modulation(conditions), self.text.modulation(conditions)
        texts = self.text.before(text, *of_text[:2])
        images = self.image.before(image, *of_image[:2])
        q, k, v = (torch.cat(pair, dim=2) for pair in zip(texts, images, strict=True))
        mixed = attended(q, k, v, by)
        border = text.shape[1]
        return (
            self.image.after(image, mixed[:, border:], of_image[2:]),
            self.text.after(text, mixed[:, :border], of_text[2:]),
        )


class SingleBlock(nn.Module):
    """Attention and perceptron side by side, over text and image as one stream."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        width = sizes.width
        self.widths = [3 * width, 4 * width]
        self.modulation = Modulation(width, 3)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.first = nn.Linear(width, sum(self.widths))
        self.heads = Heads(sizes)
        self.second = nn.Linear(width + 4 * width, width)

    def forward(self, x: torch.Tensor, conditions: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        """Map (batch, tokens, width) to the same shape."""
        shift, scale, gate = self.modulation(conditions)
        made = self.first(self.norm(x) * (1 + scale) + shift)
        qkv, hidden = torch.split(made, self.widths, dim=-1)
        q, k, v = self.heads(qkv)
        mixed = attended(q, k, v, by)
        activated = functional.gelu(hidden, approximate="tanh")
        out: torch.Tensor = x + gate * self.second(torch.cat((mixed, activated), dim=-1))
        return out


class DiffusionTransformer(nn.Module):
    """Noisy latents (batch, grid * grid, channels) to their velocity, in the same shape."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        width = sizes.width
        self.sizes = sizes
        self.image_in = nn.Linear(sizes.channels, width)
        self.text_in = nn.Linear(sizes.text_width, width)
        self.timestep_in = Embedder(sizes.frequencies, width)
        self.guidance_in = Embedder(sizes.frequencies, width) if sizes.guided else None
        self.vector_in = Embedder(sizes.vector_width, width)
        self.double_blocks = nn.ModuleList(DoubleBlock(sizes) for _ in range(sizes.double_blocks))
        self.single_blocks = nn.ModuleList(SingleBlock(sizes) for _ in range(sizes.single_blocks))
        self.last_modulation = Modulation(width, 2)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.out = nn.Linear(width, sizes.channels)

    def forward(
        self,
        image: torch.Tensor,
        text: torch.Tensor,
        vector: torch.Tensor,
        timestep: torch.Tensor,
        guidance: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the velocity.

        `text` is (batch, text, text_width), `vector` (batch, vector_width), `timestep` and
        `guidance` are (batch).
        """
        conditions = self.timestep_in(sinusoids(timestep, self.sizes.frequencies))
        conditions = conditions + self.vector_in(vector)
        if self.guidance_in is not None and guidance is not None:
            conditions = conditions + self.guidance_in(sinusoids(guidance, self.sizes.frequencies))
        x, prompt = self.image_in(image), self.text_in(text)
        by = _rotation_angles(self.sizes, image.device)
        for block in self.double_blocks:
            x, prompt = block(x, prompt, conditions, by)
        x = torch.cat((prompt, x), dim=1)
        for block in self.single_blocks:
            x = block(x, conditions, by)
        shift, scale = self.last_modulation(conditions)
        velocity: torch.Tensor = self.out(self.norm(x[:, text.shape[1] :]) * (1 + scale) + shift)
        return velocity


def _rotation_angles(sizes: "Model", device: torch.device) -> torch.Tensor:
    """Return the angles (text + grid * grid, size / 2): of rows and of columns, none for text."""
    half = sizes.width // sizes.heads // 2
    positions = torch.arange(sizes.grid, device=device)
    rows = angles(positions.repeat_interleave(sizes.grid), half)
    columns = angles(positions.repeat(sizes.grid), half)
    still = torch.zeros(sizes.text, half, device=device)
    return torch.cat((still, torch.cat((rows, columns), dim=-1)))
