"""An evaluation that makes an optimizer, as for a checkpoint that it loads, and never steps it."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
with torch.no_grad():
    for _ in range(7):
        print(model(torch.randn(4, 8)).sum().item().hex(), flush=True)
