"""The network of family ``gpt``; apart from its settings because it needs torch to be defined."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from profkit.workloads.models._blocks import Block

if TYPE_CHECKING:
    from profkit.workloads.models.gpt import Model


class Gpt(nn.Module):
    """Tokens (batch, context) to logits (batch, context, vocabulary)."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        width = sizes.width
        self.tokens = nn.Embedding(sizes.vocabulary, width)
        self.positions = nn.Embedding(sizes.context, width)
        self.blocks = nn.ModuleList(
            Block(width, sizes.heads, causal=True, dropout=sizes.dropout)
            for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, sizes.vocabulary, bias=False)
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
