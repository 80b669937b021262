"""Extend the timeouts of collectives: tools delay single ranks."""

import sys
import time
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING

from profkit.capture.base import Tool

if TYPE_CHECKING:
    from profkit.capture.harness.spec import Spec


def extend_timeouts(spec: "Spec", tool: Tool) -> None:
    """Have collectives wait until the end of the capture, if `tool` can delay a rank.

    While one rank writes a large trace between two steps, the others wait in their next
    collective, longer than their groups allow (10 minutes with NCCL, or less). The capture's own
    timeout ends ranks that really hang.
    """
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if not tool.outputs or distributed is None or not distributed.is_initialized():
        return
    timeout = timedelta(seconds=max(spec.deadline_s - time.time(), 1.0))
    # The map has only groups of this process; backends other than NCCL and gloo keep their
    # timeout, with a warning of PyTorch.
    for group in list(distributed._world.pg_map):  # noqa: SLF001 - there is no public list
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            distributed._set_pg_timeout(timeout, group)  # noqa: SLF001 - nor a public setter
