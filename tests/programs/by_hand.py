"""A training of plain tensors, without a module and, but for an argument, without an optimizer."""

import sys

import torch

torch.manual_seed(0)
weight = torch.randn(8, 1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1) if "optimizer" in sys.argv else None
for _ in range(12):
    loss = (torch.randn(4, 8) @ weight).pow(2).mean()
    loss.backward()
    if optimizer is None:
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None
    else:
        optimizer.step()
        optimizer.zero_grad()
    print("loss", loss.item().hex(), flush=True)
