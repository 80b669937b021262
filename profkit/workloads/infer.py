"""Inference on synthetic data: forward passes only, each rank on its own."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import NonNegativeInt

import profkit
from profkit import marks
from profkit.core.errors import ProfkitError
from profkit.workloads.base import BaseWorkload
from profkit.workloads.zero import Zero

if TYPE_CHECKING:
    from torch import nn

    from profkit.workloads.models.base import ModelFamily
    from profkit.workloads.runtime.process import Process


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(BaseWorkload):
    """Composed from ``conf/workload/infer.yaml``."""

    has_only_replicas: ClassVar = True
    rank_modules: ClassVar = ()

    workers: NonNegativeInt = 0
    """Processes that a rank's DataLoader makes batches in; 0 makes them between the steps."""

    def check_sharding(self, zero: Zero, world_size: int) -> str:
        """See `BaseWorkload.check_sharding`."""
        del world_size
        return "each rank infers with the whole model; set zero=none" if zero.stage > 0 else ""


def infer(process: "Process") -> None:
    """Run the model over all batches of the request of `process`."""
    import torch

    request = process.request
    settings, family = request.settings(Workload), request.family()
    model = family.build().to(process.device).eval()
    process.compile(model)
    batches = process.batches(family, settings.workers)
    with torch.inference_mode():
        for _ in profkit.steps(request.steps, samples=request.samples):
            for _ in range(request.grad_accumulation):
                with profkit.phase("data"):
                    inputs, _target = process.to_device(next(batches))
                with profkit.phase("forward"), process.autocast():
                    model(**inputs)
        marks.offer_parts(lambda: {"forward": forward_part(model, family, process)})


def forward_part(model: "nn.Module", family: "ModelFamily", process: "Process") -> marks.Part:
    """Return the forward pass on one batch, which is a whole step."""
    inputs, _target = process.to_device(next(process.batches(family, workers=0)))

    def forward() -> None:
        with process.autocast():
            model(**inputs)

    return marks.Part(prepare=lambda: None, run=forward)


def main(argv: Sequence[str]) -> None:
    """Run one rank of the inference that ``--config`` describes."""
    from profkit.workloads.runtime.process import joined
    from profkit.workloads.runtime.request import parsed

    with joined(parsed(argv)) as process:
        infer(process)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
