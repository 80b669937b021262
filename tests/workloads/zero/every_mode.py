"""Train a tiny model in every mode, two ranks each, in one process group: see ``test_modes.py``.

Writes ``<rank>.json`` into the folder that is its argument.
"""

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))
from profkit.workloads import train as program
from profkit.workloads.runtime.process import joined
from profkit.workloads.runtime.request import Request
from tests.capture.model_memory.tensor_sizes import sizes_bytes

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
    "fp16": {"precision": "fp16"},
    "still": {"workload": SGD | {"learning_rate": 1e-9}},
    "accumulated still": {"grad_accumulation": 2, "workload": SGD | {"learning_rate": 1e-9}},
}
# One tiny model of each further family, in bf16 what has batch norms.
MODELS = {
    "cnn": {"family": "cnn", "width": 4},
    "vit": {"family": "vit", "layers": 1, "width": 16},
    "moe": {"family": "moe", "layers": 1, "vocabulary": 64, "context": 8, "width": 16},
    "dit": {"family": "dit", "double_blocks": 1, "single_blocks": 1, "grid": 2, "width": 16},
    "dlrm": {"family": "dlrm", "rows": (50, 20, 3), "width": 4, "bottom": (8,), "top": (8,)},
    "hf": {"family": "hf", "layers": 1, "vocabulary": 64, "context": 8, "width": 16, "hidden": 24},
}
VARIANTS |= {name: {"model": {"name": name, **sizes}} for name, sizes in MODELS.items()}
VARIANTS["cnn"] |= {"precision": "bf16", "workload": SGD | {"learning_rate": 1e-3}}
FEW = [MODES[0], "2 deepspeed none", "3 torch none", "3 deepspeed none"]


def modes(variant):
    """Return the modes that a variant is trained in; those of ``still`` are compared with one."""
    if "still" in variant:
        return MODES[:1]
    if variant == "fp16":
        # DeepSpeed has none on CPUs.
        return [mode for mode in MODES if mode.endswith("torch none")]
    if variant == "bf16":
        return [mode for mode in MODES if mode.endswith("none")]
    return FEW if variant in MODELS else MODES


def asked(mode, changes):
    stage, backend, offload = mode.split()
    zero = {"name": "z", "stage": int(stage), "backend": backend, "offload": offload}
    workload = {"name": "train", "learning_rate": 0.05}
    common = {"model": MODEL, "workload": workload, "device": "cpu", "world_size": 2, "steps": 3}
    return Request(**{**common, "zero": zero, **changes})


def holdings(process):
    """Return the bytes per parameter that this rank holds before the second optimizer step."""
    request = process.request
    family = request.family()
    factory = program.Workload().optimizer_factory()
    engine = request.sharding().load().engine(process, family.build(), factory)
    batches = process.batches(family, 0)
    for step in range(2):
        with engine.micro_batch(last=True):
            inputs, targets = next(batches)
            engine.backward(family.loss(engine.forward(inputs), targets))
        if step == 0:
            engine.step()
    sizes = sizes_bytes(engine.model, [engine.optimizer])
    return {kind: size / family.parameter_count() for kind, size in sizes.items()}


def main(out):
    found = {}
    with joined(asked(MODES[0], {})) as process:
        for variant, changes in VARIANTS.items():
            for mode in modes(variant):
                torch.manual_seed(0)
                # DeepSpeed collects garbage a lot, among all objects of torch without this.
                gc.freeze()
                losses = program.train(replace(process, request=asked(mode, changes)))
                found[f"{variant}: {mode}"] = losses
        for mode in MODES:
            for precision in ("fp32", "bf16"):
                asking = asked(mode, {"precision": precision})
                found[f"held {precision}: {mode}"] = holdings(replace(process, request=asking))
        (out / f"{process.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
