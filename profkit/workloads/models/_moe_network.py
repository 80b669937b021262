"""The network of family ``moe``."""

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from profkit.workloads.models._rotary import angles, rotated

if TYPE_CHECKING:
    from profkit.workloads.models.moe import Model


class Attention(nn.Module):
    """Causal self-attention in which several heads share keys and values."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.size = sizes.width // sizes.heads
        self.q = nn.Linear(sizes.width, sizes.width, bias=False)
        self.k = nn.Linear(sizes.width, self.size * sizes.kv_heads, bias=False)
        self.v = nn.Linear(sizes.width, self.size * sizes.kv_heads, bias=False)
        self.projection = nn.Linear(sizes.width, sizes.width, bias=False)

    def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        """Attend over (batch, context, width); `by` are the angles of the positions."""
        q, k, v = (
            linear(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        attended = functional.scaled_dot_product_attention(
            rotated(q, by), rotated(k, by), v, is_causal=True, enable_gqa=True
        )
        projected: torch.Tensor = self.projection(attended.transpose(1, 2).flatten(-2))
        return projected


class Experts(nn.Module):
    """Perceptrons with a gate (SwiGLU), of which each token uses a few.

    Their weights are stacked in one module: shards are gathered when a module is called, so that
    ranks whose tokens choose different experts would otherwise deadlock.
    """

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        inner = (sizes.experts, sizes.width, sizes.hidden)
        self.gate = nn.Parameter(torch.randn(inner) * 0.02)
        self.up = nn.Parameter(torch.randn(inner) * 0.02)
        self.down = nn.Parameter(torch.randn(sizes.experts, sizes.hidden, sizes.width) * 0.02)

    def forward(
        self, tokens: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Return for `tokens` (n, width) the sum over their experts, by (n, active) `weights`."""
        active = chosen.shape[1]
        order = chosen.flatten().argsort()
        sources = order // active
        # The CPU waits for these counts here, as in any routing without a capacity limit.
        counts = torch.bincount(chosen.flatten(), minlength=len(self.gate)).tolist()
        made = [
            (functional.silu(part @ self.gate[expert]) * (part @ self.up[expert]))
            @ self.down[expert]
            for expert, part in enumerate(torch.split(tokens[sources], counts))
        ]
        weighted = torch.cat(made) * weights.flatten()[order, None]
        return torch.zeros_like(tokens).index_add(0, sources, weighted.to(tokens.dtype))


class Block(nn.Module):
    """Attention and routed experts, each normalised before and added to the stream."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.active = sizes.active
        self.attention_norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.attention = Attention(sizes)
        self.experts_norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.router = nn.Linear(sizes.width, sizes.experts, bias=False)
        self.experts = Experts(sizes)

    def forward(self, x: torch.Tensor, by: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the stream (batch, context, width) and the router's scores (tokens, experts)."""
        x = x + self.attention(self.attention_norm(x), by)
        tokens = self.experts_norm(x).flatten(0, 1)
        scores = self.router(tokens)
        weights, chosen = scores.softmax(-1, dtype=torch.float32).topk(self.active)
        weights = weights / weights.sum(-1, keepdim=True)
        return x + self.experts(tokens, chosen, weights).view_as(x), scores


class MixtureOfExperts(nn.Module):
    """Tokens (batch, context) to logits (batch, context, vocabulary) and the router's scores."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.size = sizes.width // sizes.heads
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        self.apply(_initialise)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits, and the scores (layers * tokens, experts) for `moe.imbalance`."""
        by = angles(torch.arange(tokens.shape[-1], device=tokens.device), self.size)
        x = self.tokens(tokens)
        scores = []
        for block in self.blocks:
            x, routed = block(x, by)
            scores.append(routed)
        return self.head(self.norm(x)), torch.cat(scores)


def _initialise(module: nn.Module) -> None:
    """Draw weights as usual for language models: first losses are near log(vocabulary)."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
