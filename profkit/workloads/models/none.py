"""No model of profkit's: the script brings its own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profkit.core.errors import ConfigError
from profkit.workloads.models.base import ModelFamily

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(ModelFamily):
    """Composed from ``conf/model/none.yaml``; only ``workload=script`` can do with it."""

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        raise ConfigError("this workload needs a model", hint="choose one: model=gpt_tiny")
