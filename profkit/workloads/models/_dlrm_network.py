"""The network of family ``dlrm``."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from profkit.workloads.models.dlrm import Model


def _perceptron(sizes: Sequence[int]) -> nn.Sequential:
    """Return linear layers with a ReLU between any two."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Dlrm(nn.Module):
    """Features of a sample to the logit of its being clicked."""

    def __init__(self, sizes: "Model") -> None:
        super().__init__()
        bottom, top = sizes.perceptrons
        self.tables = nn.ModuleList(
            # Dense gradients: neither DDP nor ZeRO reduces sparse ones.
            nn.EmbeddingBag(rows, sizes.width, mode="sum")
            for rows in sizes.rows
        )
        self.bottom = _perceptron(bottom)
        self.top = _perceptron(top)
        self.features = len(sizes.rows) + 1

    def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """Return logits (batch) of `dense` (batch, dense), `indices` (batch, tables, lookups)."""
        described = self.bottom(dense)
        found = [table(indices[:, index]) for index, table in enumerate(self.tables)]
        features = torch.stack([described, *found], dim=1)
        products = features @ features.transpose(1, 2)
        first, second = torch.tril_indices(
            self.features, self.features, offset=-1, device=dense.device
        )
        interactions = products[:, first, second]
        logits: torch.Tensor = self.top(torch.cat((described, interactions), dim=1))
        return logits.squeeze(1)
