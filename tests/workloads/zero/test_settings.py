"""What of ZeRO can be asked for, and what a library is told."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.planning.build import make
from profkit.planning.model import differing
from profkit.workloads.runtime.process import Process
from profkit.workloads.runtime.request import Request
from profkit.workloads.zero import deepspeed
from profkit.workloads.zero.deepspeed import settings
from profkit.workloads.zero.torch import units


def planned(*overrides):
    return make(resources.CONF, overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["zero=zero2", "world_size=1"], "zero: one rank has no other to share with"),
        (["zero.offload=optimizer"], "offload=optimizer needs state that is sharded"),
        (["zero=zero2", "zero.offload=parameters"], "needs parameters that are sharded"),
        (["zero=zero1", "zero.offload=optimizer"], "ZeroRedundancyOptimizer keeps state where"),
        (["zero=zero3", "zero.offload=optimizer"], "FSDP2 offloads parameters and state together"),
        (["zero=zero1", "zero.backend=deepsped"], "did you mean 'deepspeed'?"),
        (["zero=zero2", "workload=infer"], "each rank infers with the whole model"),
        (["zero=zero4"], "no zero named 'zero4'"),
    ],
)
def test_what_a_backend_has_not_is_said_before_anything_runs(overrides, message):
    with pytest.raises(ConfigError) as error:
        planned(*overrides)
    assert message in str(error.value)


def test_a_sweep_over_backends_replicates_only_once():
    plan = planned("zero=none,zero1,zero3", "zero.backend=torch,deepspeed")
    middles = ["-".join(run.name.split("-")[4:-2]) for run in plan.runs]
    assert middles == ["none", "zero1-torch", "zero1-deepspeed", "zero3-torch", "zero3-deepspeed"]
    differs = differing(plan.runs)
    assert [list(differs[run.name].values()) for run in plan.runs] == [
        ["none", "torch"],
        ["zero1", "torch"],
        ["zero1", "deepspeed"],
        ["zero3", "torch"],
        ["zero3", "deepspeed"],
    ]


def test_offload_is_in_the_name_of_a_run():
    (run,) = planned("zero=zero3", "zero.offload=parameters").runs
    assert "-zero3-torch-offload-parameters-" in run.name


def told(device="cpu", size=999, **changes):
    """Return DeepSpeed's configuration."""
    request = Request(batch=3, world_size=2, **changes)
    return settings(Process(request=request, rank=0, device=torch.device(device)), size)


def test_deepspeed_is_told_the_stage_and_no_clipping():
    assert told(zero={"name": "zero3", "stage": 3}, grad_accumulation=2, precision="bf16") == {
        "train_micro_batch_size_per_gpu": 3,
        "gradient_accumulation_steps": 2,
        "bf16": {"enabled": True},
        "fp16": {"enabled": False},
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {
            "stage": 3,
            "reduce_bucket_size": 1000,
            "allgather_bucket_size": 1000,
            "stage3_param_persistence_threshold": 0,
        },
    }


def test_deepspeed_without_fp16_on_a_device_is_said(monkeypatch):
    request = Request(world_size=2, precision="fp16", zero={"name": "zero2", "stage": 2})
    process = Process(request=request, rank=0, device=torch.device("cpu"))
    has_none = SimpleNamespace(is_fp16_supported=lambda: False)
    fake = SimpleNamespace(get_accelerator=lambda: has_none)
    monkeypatch.setattr(deepspeed, "_imported", lambda _process: fake)
    with pytest.raises(
        ConfigError, match="precision=fp16: DeepSpeed has no fp16 on the device cpu"
    ):
        deepspeed.Backend().engine(process, nn.Linear(1, 1), SimpleNamespace())


@pytest.mark.parametrize(
    ("offload", "kept"),
    [
        ("none", set()),
        ("optimizer", {"offload_optimizer"}),
        ("parameters", {"offload_optimizer", "offload_param"}),
    ],
)
def test_deepspeed_is_told_what_the_host_keeps(offload, kept):
    zero = {"name": "zero3", "stage": 3, "offload": offload}
    host = told("cuda", zero=zero)["zero_optimization"]
    assert {key for key in host if key.startswith("offload")} == kept
    assert all(host[key] == {"device": "cpu", "pin_memory": True} for key in kept)


def test_blocks_of_the_outermost_lists_are_gathered_one_by_one():
    inner = nn.ModuleList([nn.Linear(2, 2)])
    blocks = nn.ModuleList([nn.Sequential(inner), nn.Linear(2, 2)])
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(blocks))
    assert list(units(model)) == list(blocks)
