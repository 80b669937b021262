"""The request to a built-in program, read from its ``--config`` argument."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from profkit.core.errors import ConfigError
from profkit.core.parallel_layout import Parallel
from profkit.core.settings import Settings, checked
from profkit.workloads.models import family
from profkit.workloads.models.base import ModelFamily
from profkit.workloads.zero import Zero

T = TypeVar("T", bound=Settings)

# More is a mistake in writing, which would only show after hours.
_Count = Annotated[int, Field(gt=0, le=10**9)]

# What PyTorch takes, of ranks beyond the first as well.
_Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]

# Keys that choose a plugin in conf/ and are not settings of it.
_CHOICES = ("name", "family")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request(Settings):
    """The part of a run's configuration that changes how the workload behaves."""

    workload: dict[str, Any] = field(default_factory=dict)
    """Settings of the workload itself, with its ``name``."""

    model: dict[str, Any] = field(default_factory=lambda: {"name": "gpt_tiny", "family": "gpt"})
    """Sizes of the model, with its ``name`` and ``family``."""

    zero: dict[str, Any] = field(default_factory=dict)
    """Way of sharding, with its ``name``."""

    launcher: dict[str, Any] = field(default_factory=dict)
    """How the ranks were started, with its ``name``; of no use to the program."""

    batch: _Count = 2
    """Samples that a rank processes between two optimizer steps, divided by `grad_accumulation`."""

    world_size: _Count = 1
    """Number of ranks, one process each; must be what the launcher started."""

    parallel: Parallel = field(default_factory=Parallel)
    """How the program lays out its ranks, for their names where the program cannot be asked."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Number format of computing: fp32, or bf16 or fp16, with parameters still updated in fp32;
    with fp16 the loss is scaled, and steps whose gradients overflow are left out."""

    compile: Literal["none", "default", "reduce-overhead", "max-autotune"] = "none"
    """Mode of torch.compile, or none; compiling happens in the first step."""

    grad_accumulation: _Count = 1
    """Batches whose gradients are summed before an optimizer step."""

    steps: _Count = 12
    """Steps that the workload runs."""

    seed: _Seed = 0
    """Seed of the model, and plus its rank of the synthetic data of a rank."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the workload runs: cpu or cuda; auto takes CUDA where it is there."""

    @property
    def samples(self) -> int:
        """Samples of one step of one rank."""
        return self.batch * self.grad_accumulation

    def settings(self, kind: type[T]) -> T:
        """Return the settings of the workload, whose class is `kind`."""
        return checked("workload", kind, without_choices(self.workload))

    def family(self) -> ModelFamily:
        """Return the model, still to be built."""
        kind = family(str(self.model.get("family")))
        return checked("model", kind, without_choices(self.model))

    def sharding(self) -> Zero:
        """Return the way of sharding."""
        return checked("zero", Zero, without_choices(self.zero))


def without_choices(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` without the keys that chose the plugin they belong to."""
    return {key: value for key, value in settings.items() if key not in _CHOICES}


def parsed(argv: Sequence[str]) -> Request:
    """Return the request in `argv`; raises `ConfigError` for a key or value that does not fit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="{}", help="the request as JSON")
    text = parser.parse_args(argv).config
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"--config is not JSON: {error}") from None
    return checked("", Request, values)
