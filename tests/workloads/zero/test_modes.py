"""Every stage of every backend really trains, with two ranks on the CPU."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from profkit.workloads.train import Workload
from profkit.workloads.zero import Zero
from tests.waiting import LIMIT_S
from tests.warm_ranks import warm_rank_python

HERE = Path(__file__).parent
SHARDED = [
    f"{stage} {backend} {offload}"
    for stage in (1, 2, 3)
    for backend in ("torch", "deepspeed")
    for offload in ("none", "optimizer", "parameters")
    if not Zero(stage=stage, backend=backend, offload=offload).check(2)
]
pytestmark = pytest.mark.slow  # two ranks train in every mode
# Rounding of bf16 differs with what is rounded: autocast rounds weights as it goes.
CLOSE = {"plain": 1e-5, "accumulated": 1e-5, "bf16": 5e-3, "fp16": 1e-3}
TRAINED = {"bf16": " none", "fp16": " torch none"}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Return what each of two ranks found in every mode."""
    out = tmp_path_factory.mktemp("modes")
    torchrun = [warm_rank_python(), "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", str(HERE / "every_mode.py"), str(out)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((out / f"{rank}.json").read_text()) for rank in (0, 1)]


def test_there_are_eleven_ways_to_shard():
    assert len(SHARDED) == 11


@pytest.mark.parametrize(
    ("mode", "variant"),
    [
        (mode, variant)
        for mode in SHARDED
        for variant in CLOSE
        if mode.endswith(TRAINED.get(variant, ""))
    ],
)
def test_sharding_changes_nothing_about_the_losses(ranks, mode, variant):
    for rank in ranks:
        replicated = rank[f"{variant}: 0 torch none"]
        assert rank[f"{variant}: {mode}"] == pytest.approx(replicated, abs=CLOSE[variant])


@pytest.mark.parametrize(
    ("variant", "without"),
    [
        ("plain", "still"),
        ("accumulated", "accumulated still"),
        ("bf16", "still"),
        ("fp16", "still"),
    ],
)
def test_the_losses_would_show_a_step_that_is_not_made(ranks, variant, without):
    for rank in ranks:
        moved, still = (rank[f"{name}: 0 torch none"] for name in (variant, without))
        assert moved[0] == pytest.approx(still[0], abs=CLOSE[variant])
        assert max(abs(a - b) for a, b in zip(moved, still, strict=True)) > 5 * CLOSE[variant]


@pytest.mark.parametrize("model", ["cnn", "vit", "moe", "dit", "dlrm", "hf"])
def test_sharding_changes_nothing_about_the_losses_of_other_models(ranks, model):
    tolerance = 2e-2 if model == "cnn" else 1e-4
    for rank in ranks:
        losses = [values for key, values in rank.items() if key.startswith(f"{model}: ")]
        assert len(losses) == 4
        for sharded in losses[1:]:
            assert sharded == pytest.approx(losses[0], abs=tolerance)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("mode", ["0 torch none", *SHARDED])
def test_ranks_hold_the_shares_of_the_closed_form(ranks, mode, precision):
    stage, backend, offload = mode.split()
    zero = Zero(stage=int(stage), backend=backend, offload=offload)
    expected = asdict(zero.load().bytes_per_parameter(zero, 2, precision, Workload().moments))
    measured = [rank[f"held {precision}: {mode}"] for rank in ranks]
    # ZeroRedundancyOptimizer deals out whole tensors: ranks differ.
    mean = {kind: (measured[0][kind] + measured[1][kind]) / 2 for kind in expected}
    assert mean == pytest.approx(expected, rel=0.02)


def test_each_rank_has_data_of_its_own(ranks):
    first, second = (rank["plain: 0 torch none"] for rank in ranks)
    assert first[0] != second[0]
