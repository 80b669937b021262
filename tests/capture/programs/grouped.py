"""A program of two ranks that lays them out as ``how`` says, and meets at every step."""

import json
import sys
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType

from profkit.workloads.base import BaseWorkload


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(BaseWorkload):
    how: str = ""


def mesh():
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (1, 2), mesh_dim_names=("pp", "tp"))


def deepspeed():
    import deepspeed
    from deepspeed import comm
    from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology

    # On CPUs DeepSpeed would begin by compiling an all-reduce of its own, for minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    comm.init_distributed("gloo")
    return PipelineParallelGrid(PipeModelDataParallelTopology(num_pp=2, num_mp=1, num_dp=1))


def megatron():
    """Megatron's parallel state, as a program that has set it up sees it."""
    from torch import distributed

    state = ModuleType("megatron.core.parallel_state")
    state.model_parallel_is_initialized = lambda: True
    for word, size in (("data", 1), ("tensor_model", 1), ("pipeline_model", 2)):
        rank = distributed.get_rank() if size > 1 else 0
        setattr(state, f"get_{word}_parallel_rank", lambda rank=rank: rank)
        setattr(state, f"get_{word}_parallel_world_size", lambda size=size: size)
    sys.modules[state.__name__] = state


def run(steps, how):
    import torch
    from torch import distributed

    import profkit

    kept = globals()[how]() if how else None
    distributed.barrier()
    impatient = distributed.new_group(timeout=timedelta(seconds=3))
    for _ in profkit.steps(steps):
        distributed.all_reduce(torch.ones(1), group=impatient)
    del kept


if __name__ == "__main__":
    from torch import distributed

    request = json.loads(sys.argv[2])
    distributed.init_process_group("gloo")
    # In a function: a group that is still named at the end of Python may abort the process, as a
    # thread of gloo that lets go of a tensor then does.
    run(request["steps"], request["workload"].get("how"))
    distributed.destroy_process_group()
