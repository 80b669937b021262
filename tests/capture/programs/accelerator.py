"""A program that asks accelerate for its place."""

import json
import sys
from dataclasses import dataclass

from profkit.workloads.base import BaseWorkload


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(BaseWorkload):
    pass


if __name__ == "__main__":
    from accelerate import Accelerator

    import profkit

    state = Accelerator().state
    place = f"{state.process_index} of {state.num_processes}"
    # At once: what `print` writes in parts, ranks that share a log may mix up.
    sys.stdout.write(f"program: {place} {state.distributed_type}\n")
    for _ in profkit.steps(json.loads(sys.argv[2])["steps"]):
        pass
