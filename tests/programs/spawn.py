"""Ranks that the program starts itself: DDP on gloo, by torch.multiprocessing."""

import sys
import tempfile

import torch
from torch import nn


def rank(index, address):
    torch.distributed.init_process_group("gloo", f"file://{address}", rank=index, world_size=2)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        optimizer.step()
    print("rank", index, loss.item().hex(), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        start = torch.multiprocessing.start_processes
        start(rank, (f"{folder}/store",), nprocs=2, start_method=sys.argv[1])
