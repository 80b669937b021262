"""Train a tiny model in every mode, two ranks each, in one process group: see ``test_modes.py``.

Writes ``<rank>.json`` into the folder that is its argument.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from profkit.workloads import train as program
from profkit.workloads.runtime.process import joined
from profkit.workloads.runtime.request import Request

MODEL = {"name": "t", "family": "gpt", "vocabulary": 64, "context": 8, "layers": 2, "width": 16}
# The third word is the offload.
MODES = [
    "0 torch none",
    *(f"{stage} torch none" for stage in (1, 2, 3)),
    "3 torch parameters",
    *(f"{stage} deepspeed none" for stage in (1, 2, 3)),
    *(f"{stage} deepspeed optimizer" for stage in (1, 2, 3)),
    "3 deepspeed parameters",
]
SGD = {"name": "train", "optimizer": "sgd", "learning_rate": 1.0}
# AdamW does not notice gradients that are too large by a factor; SGD does.
VARIANTS = {
    "plain": {},
    "accumulated": {"grad_accumulation": 2, "workload": SGD},
    "bf16": {"precision": "bf16"},
    "still": {"workload": SGD | {"learning_rate": 1e-9}},
    "accumulated still": {"grad_accumulation": 2, "workload": SGD | {"learning_rate": 1e-9}},
}


def asked(mode, changes):
    stage, backend, offload = mode.split()
    zero = {"name": "z", "stage": int(stage), "backend": backend, "offload": offload}
    workload = {"name": "train", "learning_rate": 0.05}
    common = {"model": MODEL, "workload": workload, "device": "cpu", "world_size": 2, "steps": 3}
    return Request(**{**common, "zero": zero, **changes})


def main(out):
    found = {}
    with joined(asked(MODES[0], {})) as process:
        for variant, changes in VARIANTS.items():
            for mode in MODES[:1] if "still" in variant else MODES:
                torch.manual_seed(0)
                losses = program.train(replace(process, request=asked(mode, changes)))
                found[f"{variant}: {mode}"] = losses
        (out / f"{process.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
