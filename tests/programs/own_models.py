"""Threads that take work from a queue, each with a model of its own, which all make at once."""

import queue
import threading

import torch
from torch import nn

work = queue.Queue()
at_once = threading.Barrier(4)


def answer():
    at_once.wait()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    with torch.inference_mode():
        while (rows := work.get()) is not None:
            model(torch.ones(rows, 64))


threads = [threading.Thread(target=answer) for _ in range(at_once.parties)]
for thread in threads:
    thread.start()
for rows in (*[4] * 40, *[None] * len(threads)):
    work.put(rows)
for thread in threads:
    thread.join()
print("answered")
