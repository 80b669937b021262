"""The network of family ``vit``."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from profkit.workloads.models._blocks import Block

if TYPE_CHECKING:
    from profkit.workloads.models.vit import Model


class VisionTransformer(nn.Module):
    """Images (batch, channels, image, image) to scores (batch, classes)."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        width = sizes.width
        self.patches = nn.Conv2d(sizes.channels, width, sizes.patch, stride=sizes.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, sizes.tokens, width) * 0.02)
        self.blocks = nn.ModuleList(
            Block(width, sizes.heads, causal=False) for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, sizes.classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes, read off the class token."""
        patches = self.patches(image).flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(image), -1, -1)
        x = torch.cat((first, patches), dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        scores: torch.Tensor = self.head(self.norm(x[:, 0]))
        return scores
