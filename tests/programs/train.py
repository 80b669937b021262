"""A training with arguments, as most are written: prints its losses to the last bit."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--ddp", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.ddp:
        torch.distributed.init_process_group("gloo")
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    if options.ddp:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(options.steps):
        for _ in range(options.accumulate):
            loss = model(torch.randn(4, 8)).pow(2).mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("loss", loss.item().hex(), flush=True)


if __name__ == "__main__":
    main()
