"""Trainings that remove the folder named first, each at another moment, in forks of this one."""

import os
import shutil
import sys
from pathlib import Path

import torch
from torch import nn

import profkit

MOMENTS = ("before the model", "before the first step", "after a step", "at the end")


def train(folder: Path, moment: str) -> None:
    for now in MOMENTS:
        if now == moment:
            shutil.rmtree(folder)
        if now == "before the model":
            model = nn.Linear(4, 4)
        if now in ("before the first step", "after a step"):
            model(torch.ones(2, 4))
            profkit.step()


torch.set_num_threads(1)
for moment in MOMENTS:
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    if pid := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(moment, status, flush=True)
    else:
        train(Path(sys.argv[1]), moment)
        sys.exit()
