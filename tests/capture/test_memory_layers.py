"""memory_layers counts what tensors really hold, in this process and on two ranks."""

import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from profkit.analyze import memory_model
from profkit.capture.base import Rank
from profkit.capture.memory_layers import Capture
from profkit.convert.base import Raw
from profkit.convert.memory_layers import convert
from tests.waiting import LIMIT_S
from tests.warm_ranks import warm_rank_python

PROGRAM = Path(__file__).parent / "programs" / "layers_of_modes.py"
STAGES = ["0-torch", *(f"{n}-{who}" for who in ("torch", "deepspeed") for n in (1, 2, 3))]

# Under autocast, and in bf16 throughout, as each backend does it.
IN_BF16 = [f"{mode}-bf16" for mode in ("0-torch", "2-torch", "2-deepspeed", "3-deepspeed")]


class Net(nn.Module):
    """Tied weights, two outputs, a buffer, and a module that is no leaf and saves tensors."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.left = nn.Linear(16, 16, bias=False)
        self.right = nn.Linear(16, 16, bias=False)
        self.right.weight = self.left.weight
        self.register_buffer("mask", torch.zeros(10))

    def forward(self, x):
        hidden = torch.sigmoid(self.first(x))
        return self.left(hidden), self.right(hidden).exp()


def recorded(folder, net, inputs=lambda: torch.randn(32, 8), **settings):
    """Train `net` with AdamW, and return the states that were recorded of it."""
    optimizer = torch.optim.AdamW(net.parameters())
    with Capture(**settings).record(folder, Rank()) as recorder:
        recorder.begin()
        for _ in range(3):
            sum(output.sum() for output in net(inputs())).backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
    return states(folder), optimizer


def states(folder):
    text = (folder / "rank0_dp0_tp0_pp0.layers.json").read_text()
    return {(state["step"], state["point"]): state["rows"] for state in json.loads(text)["states"]}


def sizes(rows, model="Net", **kinds):
    """Return bytes by kind, or of one kind by module."""
    found = {}
    for name, module, kind, _, _, size, *_ in rows:
        if name in (model, "") and kinds.get("kind", kind) == kind:
            key = module if kinds else kind
            found[key] = found.get(key, 0) + size
    return found


def stored(tensors):
    """Return the bytes of all storages of `tensors`, each once."""
    return sum(
        {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for tensor in tensors
        }.values()
    )


def test_parameters_gradients_and_states_are_the_storages_that_hold_them(tmp_path):
    net = Net()
    rows_at, optimizer = recorded(tmp_path, net)
    after = sizes(rows_at[2, "backward"])
    parameters = stored(net.parameters())
    assert parameters == (8 * 16 + 16 + 16 * 16) * 4
    assert after["parameters"] == after["gradients"] == parameters
    kept = [tensor for state in optimizer.state.values() for tensor in state.values()]
    assert after["states"] == stored(kept)
    assert after["buffers"] == 40
    assert "gradients" not in sizes(rows_at[2, "optimizer"])


def test_the_first_of_tied_modules_has_the_weight(tmp_path):
    rows_at, _ = recorded(tmp_path, Net())
    assert sizes(rows_at[-1, "set_up"], kind="parameters") == {
        "first": (8 * 16 + 16) * 4,
        "left": 16 * 16 * 4,
    }


def test_activations_are_what_autograd_saves_by_the_module_that_saves_it_first(tmp_path):
    rows_at, _ = recorded(tmp_path, Net())
    # The first layer saves its input, sigmoid its result, which both others take, exp its result.
    # The last two belong to no leaf.
    expected = {"first": 32 * 8 * 4, "": 2 * 32 * 16 * 4}
    for step in (0, 2):
        assert sizes(rows_at[step, "forward"], kind="activations") == expected
        assert "activations" not in sizes(rows_at[step, "backward"])


def test_what_is_computed_again_is_not_saved(tmp_path):
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8))

        def forward(self, x):
            return (checkpoint(self.layers, x, use_reentrant=False),)

    rows_at, _ = recorded(tmp_path, Again())
    # Its input alone is, where the plain layers save what comes out of the first two as well.
    assert sizes(rows_at[2, "forward"], "Again")["activations"] == 32 * 8 * 4


def test_the_forward_pass_that_saves_most_is_kept_of_several_micro_batches(tmp_path):
    net = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(net.parameters())
    with Capture(steps=(0,)).record(tmp_path, Rank()) as recorder:
        recorder.begin()
        for rows in (2, 64, 4):
            net(torch.randn(rows, 8)).sum().backward()
        optimizer.step()
        recorder.step()
    assert sizes(states(tmp_path)[0, "forward"], "Linear")["activations"] == 64 * 8 * 4


def test_gradients_are_the_same_with_and_without_looking_on(tmp_path):
    nets = []
    for looked_at in ((), (0, 1, 2)):
        torch.manual_seed(0)
        nets.append(Net())
        recorded(tmp_path, nets[-1], steps=looked_at, points=("forward",))
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_was_recorded_before_a_failure_is_kept(tmp_path):
    def broken():
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        recorded(tmp_path, Net(), inputs=broken)
    assert list(states(tmp_path)) == [(-1, "set_up")]


def test_steps_that_never_come_are_an_error_when_the_plan_is_made():
    assert "beyond the end" in Capture(steps=(9,), points=("forward",)).check(8)
    assert Capture(steps=(9,)).check(8) == ""


def test_a_script_is_looked_at_unchanged(capture, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "net = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.ReLU())\n"
        "optimizer = torch.optim.Adam(net.parameters())\n"
        "for _ in range(4):\n"
        "    optimizer.zero_grad()\n"
        "    net(torch.randn(20, 100)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    made = capture(
        "memory_layers",
        tmp_path,
        {"steps": [2]},
        workload={"name": "script", "command": str(script)},
        launcher={"name": "python"},
        world_size=1,
        model={"name": "none"},
    )
    assert made.record["status"] == "ok", made.told
    rows_at = states(made.folder)
    assert list(rows_at) == [(-1, "set_up"), (2, "forward"), (2, "backward"), (2, "optimizer")]
    whole = 101 * 50 * 4
    before = sizes(rows_at[2, "backward"], "Sequential")
    assert (before["parameters"], before["gradients"]) == (whole, whole)
    # Two moments, and for each of the two tensors a counter.
    assert before["states"] == 2 * whole + 2 * 4
    saved = sizes(rows_at[2, "forward"], "Sequential", kind="activations")
    assert saved == {"0": 20 * 100 * 4, "1": 20 * 50 * 4}


@pytest.fixture(scope="module")
def of_modes(tmp_path_factory):
    """Return the folder with what two ranks recorded in each mode."""
    out = tmp_path_factory.mktemp("modes")
    torchrun = [warm_rank_python(), "-m", "torch.distributed.run", "--standalone"]
    # DeepSpeed's last: its stage 3 puts another linear layer in the place of torch's, for good.
    modes = sorted([*STAGES, *IN_BF16], key=lambda mode: "deepspeed" in mode)
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", str(PROGRAM), str(out), *modes],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def compared(folder, mode, tmp_path):
    """Return the layers of both ranks in `mode`, and the means of closed form and measured."""
    parts = []
    for rank in (0, 1):
        label = f"rank{rank}_dp{rank}_tp0_pp0"
        raw = Raw(path=folder / mode / f"{label}.layers.json", label=label, rank=rank, repeat=0)
        part = convert.run(raw, tmp_path).tables["layers"].to_pandas()
        # Models of the modes before may not be gone yet, on one rank or both; one is in training.
        trained = part.loc[part["kind"] == "activations", "model"].unique()
        parts.append(part[part["model"].isin(trained)].astype({"model": str}))
    layers = pd.concat(parts)
    stage, backend, *precision = mode.split("-")
    model = {"name": "t", "family": "gpt", "vocabulary": 512, "context": 16, "layers": 2}
    behaviour = {
        "workload": {"name": "train"},
        "model": {**model, "width": 64},
        "zero": {"name": "z", "stage": int(stage), "backend": backend},
        "batch": 2,
        "world_size": 2,
        "precision": precision[0] if precision else "fp32",
    }
    found = memory_model.analyze.run(
        layers=layers, behaviour=behaviour, config=memory_model.Config()
    )
    rows = found.tables["compared"]
    told = pd.DataFrame(rows.rows, columns=rows.columns)
    told = told[told["closed_form_bytes"] > 0]
    return layers, told.groupby("quantity")[["closed_form_bytes", "measured_bytes"]].mean()


def off_share(even):
    return (even["measured_bytes"] / even["closed_form_bytes"] - 1).abs()


@pytest.mark.parametrize("mode", IN_BF16)
def test_two_ranks_hold_the_closed_form_in_bf16(of_modes, mode, tmp_path):
    _, even = compared(of_modes, mode, tmp_path)
    masters = {"masters"} if "deepspeed" in mode else set()
    assert set(even.index) == {"parameters", "gradients", "states", "activations"} | masters
    assert off_share(even).max() < 0.02, off_share(even).to_dict()


@pytest.mark.parametrize("mode", STAGES)
def test_two_ranks_hold_the_closed_form_of_each_stage_of_both_backends(of_modes, mode, tmp_path):
    layers, even = compared(of_modes, mode, tmp_path)
    stage, backend = mode.split("-")
    expected = {"parameters", "gradients", "states", "activations"}
    assert set(even.index) == expected | ({"masters"} if backend == "deepspeed" else set())
    assert off_share(even).max() < 0.02, off_share(even).to_dict()
    # The closed form by hand, of parameters: 4 bytes, or half of that with two ranks in stage 3
    # (and 2 of torch, which is FSDP2).
    count = (512 + 16 + 2) * 64 + 2 * ((65 * 192 + 65 * 64) + (65 * 256 + 257 * 64) + 256)
    is_sharded = stage == "3" or (stage, backend) == ("2", "torch")
    own = even.loc["parameters", "measured_bytes"]
    assert own == pytest.approx(count * 4 / (2 if is_sharded else 1), rel=0.02)
    gathered = layers[(layers["kind"] == "gathered").to_numpy()]
    assert bool(len(gathered)) is is_sharded or stage == "3"
    assert (layers["kind"] != "kept").all() or backend == "deepspeed"
