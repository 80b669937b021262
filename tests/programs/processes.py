"""Processes that train one shared model side by side, and a parent that evaluates it at the end."""

import sys

import torch
from torch import nn


def train(model, barrier):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    barrier.wait()
    for _ in range(4):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    barrier.wait()


if __name__ == "__main__":
    context = torch.multiprocessing.get_context(sys.argv[1])
    torch.set_num_threads(1)
    shared = nn.Linear(4, 4).share_memory()
    meeting = context.Barrier(2)
    started = [context.Process(target=train, args=(shared, meeting)) for _ in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    shared.eval()
    with torch.no_grad():
        for _ in range(7):
            shared(torch.ones(2, 4))
    print("statuses", [process.exitcode for process in started], flush=True)
