"""Letting ranks wait for one that a tool holds up, instead of taking it for lost."""

import sys
import time
import warnings
from datetime import timedelta

from profkit.capture.base import Tool
from profkit.capture.harness.spec import Spec


def be_patient(spec: Spec, tool: Tool) -> None:
    """Have collectives wait as long as the capture may take, if `tool` can hold a rank up.

    A rank that writes a large trace between two steps keeps the others waiting in their next
    collective, longer than their groups allow (10 minutes with NCCL, less where a program says
    so). What really hangs is ended by the capture's own timeout.
    """
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if not tool.outputs or distributed is None or not distributed.is_initialized():
        return
    left = timedelta(seconds=max(spec.deadline_s - time.time(), 1.0))
    # Groups that this process is no member of are not in the map; those of other backends than
    # NCCL and gloo keep their timeout, which PyTorch warns of.
    for group in list(distributed._world.pg_map):  # noqa: SLF001 - there is no public list
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            distributed._set_pg_timeout(left, group)  # noqa: SLF001 - nor a public setter
