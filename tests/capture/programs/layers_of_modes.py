"""Train in every mode, two ranks each, and record their layers: see ``test_memory_layers.py``.

One process group for all of them. Leaves ``<mode>/<rank>.layers.json`` in the folder given.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from profkit import marks
from profkit.capture.base import Rank
from profkit.capture.memory_layers import Capture
from profkit.workloads import train as program
from profkit.workloads.runtime.process import joined
from profkit.workloads.runtime.request import Request

MODEL = {"name": "t", "family": "gpt", "vocabulary": 512, "context": 16, "layers": 2, "width": 64}


class Steps:
    """Hands the steps on, as the clock of the harness does."""

    def __init__(self, recorder):
        self.recorder = recorder

    def begin(self):
        self.recorder.begin()

    def step(self, samples):
        del samples
        self.recorder.step()


def asked(mode):
    stage, backend, *precision = mode.split("-")
    zero = {"name": f"zero{stage}", "stage": int(stage), "backend": backend, "offload": "none"}
    common = {"model": MODEL, "workload": {"name": "train"}, "device": "cpu", "world_size": 2}
    return Request(**common, zero=zero, steps=2, precision=precision[0] if precision else "fp32")


def main(out, modes):
    with joined(asked(modes[0])) as process:
        for mode in modes:
            torch.manual_seed(0)
            folder = out / mode
            folder.mkdir(exist_ok=True)
            rank = Rank(rank=process.rank, world_size=2, dp=process.rank)
            with Capture(steps=(1,)).record(folder, rank) as recorder:
                marks.listen(Steps(recorder))
                program.train(replace(process, request=asked(mode)))
            marks.listen()
            # As in a process of its own.
            marks._marks.begun = False


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
