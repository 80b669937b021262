"""A training that ends in the way that its argument names, after some steps."""

import os
import signal
import sys
import threading

import torch
from torch import nn

how, count = sys.argv[1], int(sys.argv[2])
if how == "hook":
    sys.excepthook = lambda *about: print("own hook", about[1], flush=True)
if how == "_exit":
    os.chdir("/")


def compute():
    while True:
        torch.ones(300, 300) @ torch.ones(300, 300)


if how == "thread":
    threading.Thread(target=compute, daemon=True).start()
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(count):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
if how == "exit":
    sys.exit(3)
if how == "_exit":
    os._exit(0)
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if how in ("error", "hook"):
    raise ValueError("after training")
