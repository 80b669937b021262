"""A learner that takes its batches from another process, which waits for room in their queue."""

import multiprocessing
import sys
import time

import torch
from torch import nn


def act(queue, pause_s):
    for _ in range(100_000):
        time.sleep(pause_s)
        queue.put([1.0] * 4)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    batches = context.Queue(maxsize=2)
    actor = context.Process(target=act, args=(batches, float(sys.argv[1])))
    actor.start()
    print(actor.pid, flush=True)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        model(torch.tensor(batches.get())).sum().backward()
        optimizer.step()
