"""The network of family ``gpt``; apart from its settings because it needs torch to be defined."""

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from profkit.workloads.models.gpt import Model


class Attention(nn.Module):
    """Causal self-attention of several heads."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.heads = sizes.heads
        self.dropout = sizes.dropout
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.projection = nn.Linear(sizes.width, sizes.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend over (batch, context, width)."""
        q, k, v = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for each in self.qkv(x).chunk(3, dim=-1)
        )
        dropout = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=True
        )
        projected: torch.Tensor = self.projection(attended.transpose(1, 2).flatten(-2))
        return projected


class Block(nn.Module):
    """Attention and a two-layer perceptron, each normalised before and added to the stream."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(sizes.width)
        self.attention = Attention(sizes)
        self.mlp_norm = nn.LayerNorm(sizes.width)
        self.mlp = nn.Sequential(
            nn.Linear(sizes.width, 4 * sizes.width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * sizes.width, sizes.width),
            nn.Dropout(sizes.dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, context, width) to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        out: torch.Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class Gpt(nn.Module):
    """Tokens (batch, context) to logits (batch, context, vocabulary)."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.positions = nn.Embedding(sizes.context, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        self.apply(_initialise)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token at every position."""
        positions = torch.arange(tokens.shape[-1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def _initialise(module: nn.Module) -> None:
    """Draw weights as GPT-2 does, so that the first losses are near log(vocabulary)."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
