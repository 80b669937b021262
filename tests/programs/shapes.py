"""A training that calls its model to learn shapes before it makes the optimizer: prints losses."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten())
widths = {size: body(torch.zeros(1, 3, size, size)).shape[1] for size in (8, 12, 16)}
head = nn.Linear(widths[16], 2)
parameters = [*body.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)
for _ in range(12):
    made = checkpoint(body, torch.randn(4, 3, 16, 16), use_reentrant=False)
    loss = head(made).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex())
