"""The closed forms of activations are what memory_layers sees that autograd saves, on the host."""

import json

import pytest
import torch
from torch.utils.data import default_collate

from profkit.capture.base import Rank
from profkit.capture.memory_layers import Capture
from profkit.workloads.models.cnn import Model as Cnn
from profkit.workloads.models.dit import Model as Dit
from profkit.workloads.models.dlrm import Model as Dlrm
from profkit.workloads.models.gpt import Model as Gpt
from profkit.workloads.models.hf import Model as Hf
from profkit.workloads.models.moe import Model as Moe
from profkit.workloads.models.vit import Model as Vit
from profkit.workloads.zero.base import cast_batch_norm_statistics, to_fp32

# Of each family two, with every size different from the others and from 1.
MODELS = {
    "gpt": Gpt(vocabulary=300, context=24, layers=3, heads=4, width=64),
    "gpt_wide": Gpt(vocabulary=64, context=8, layers=1, heads=2, width=96),
    "vit": Vit(image=24, patch=4, layers=3, heads=4, width=64, classes=7),
    "vit_grey": Vit(image=16, patch=8, channels=1, layers=1, heads=2, width=32, classes=5),
    "cnn": Cnn(image=30, width=16, stages=3, classes=7),
    "cnn_shallow": Cnn(image=16, width=8, stages=1, channels=1),
    "dlrm": Dlrm(rows=(50, 40, 30), lookups=3, width=12, bottom=(24,), top=(20, 10)),
    "dlrm_one": Dlrm(rows=(50,), lookups=1, width=8, bottom=(16, 12), top=(6,)),
    "moe": Moe(vocabulary=300, context=24, layers=3, heads=4, kv_heads=2, width=64, experts=5),
    "moe_all": Moe(layers=1, heads=2, kv_heads=2, width=32, hidden=48, experts=3, active=3),
    "dit": Dit(grid=6, text=10, double_blocks=2, single_blocks=3, heads=2, width=64),
    "dit_free": Dit(grid=4, double_blocks=1, single_blocks=1, width=32, guided=False),
}
KNOWN = {"fp32": set(MODELS), "autocast": {name for name in MODELS if not name.startswith("dit")}}
# Mean and deviation of norms are counted in fp32, as GPUs have them; the host has them in bf16.
ROUNDING = {"fp32": 0.0, "autocast": 0.0, "half": 0.01}


def saved_bytes(folder, model, computing, batch):
    """Return what memory_layers says that one forward pass and its loss saved."""
    torch.manual_seed(0)
    network = model.build()
    generator = torch.Generator().manual_seed(0)
    inputs, target = default_collate([model.sample(generator) for _ in range(batch)])
    if computing == "half":
        cast_batch_norm_statistics(network, torch.bfloat16)
        network = network.to(torch.bfloat16)
        floats = [name for name, tensor in inputs.items() if tensor.is_floating_point()]
        inputs |= {name: inputs[name].to(torch.bfloat16) for name in floats}
    with Capture(steps=(0,), points=("forward",)).record(folder, Rank()) as recorder:
        recorder.begin()
        with torch.autocast("cpu", torch.bfloat16, enabled=computing == "autocast"):
            output = network(**inputs)
        torch.autograd.backward(model.loss(to_fp32(output), target))
        recorder.step()
    (state,) = json.loads((folder / "rank0_dp0_tp0_pp0.layers.json").read_text())["states"]
    return sum(row[5] for row in state["rows"] if row[2] == "activations")


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("computing", ["fp32", "autocast", "half"])
@pytest.mark.parametrize("name", MODELS)
def test_autograd_saves_what_the_closed_form_says(tmp_path, name, computing, batch):
    told = MODELS[name].activation_bytes(batch, computing)
    if told is None:
        assert name not in KNOWN.get(computing, set())
        return
    seen = saved_bytes(tmp_path, MODELS[name], computing, batch)
    assert told == pytest.approx(seen, rel=ROUNDING[computing], abs=0)


@pytest.mark.parametrize("computing", ["fp32", "autocast"])
def test_most_families_have_a_closed_form(computing):
    told = {
        name for name, model in MODELS.items() if model.activation_bytes(2, computing) is not None
    }
    assert told == KNOWN[computing]


def test_what_is_built_by_others_or_saves_masks_has_none():
    assert Hf().activation_bytes(2, "fp32") is None
    assert Gpt(dropout=0.1).activation_bytes(2, "fp32") is None
