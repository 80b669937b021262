import math

import pytest
import torch
from torch.utils.data import default_collate

from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.planning.build import make
from profkit.workloads.models.hf import Model


@pytest.mark.parametrize(
    ("architecture", "inputs"),
    [
        ("llama", {"input_ids": (2, 64)}),
        ("mixtral", {"input_ids": (2, 64)}),
        ("bert", {"input_ids": (2, 64)}),
        ("t5", {"input_ids": (2, 64), "decoder_input_ids": (2, 64)}),
        ("vit", {"pixel_values": (2, 3, 224, 224)}),
    ],
)
def test_architectures_of_every_task_learn(architecture, inputs):
    torch.manual_seed(0)
    model = Model(architecture=architecture)
    network = model.build()
    given, target = default_collate(
        [model.sample(torch.Generator().manual_seed(seed)) for seed in range(2)]
    )
    assert {name: tuple(tensor.shape) for name, tensor in given.items()} == inputs
    loss = model.loss(network(**given), target)
    loss.backward()
    classes = network.config.num_labels if architecture == "vit" else 2048
    assert loss.item() == pytest.approx(math.log(classes), abs=1.2)
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_sizes_and_further_fields_reach_the_architecture():
    model = Model(width=64, kv_heads=0, hidden=0, config={"rms_norm_eps": 0.5})
    config = model.configured()
    assert (config.hidden_size, config.num_hidden_layers, config.rms_norm_eps) == (64, 2, 0.5)
    assert (config.num_key_value_heads, config.intermediate_size) == (4, 11008)
    assert config is model.configured()


def test_a_router_of_transformers_adds_its_own_loss_when_it_gives_one():
    torch.manual_seed(0)
    plain, routed = (
        Model(architecture="mixtral", config={"output_router_logits": on}) for on in (False, True)
    )
    inputs, target = default_collate([plain.sample(torch.Generator().manual_seed(0))])
    network = plain.build()
    with_balance = network(**inputs, output_router_logits=True)
    added = routed.loss(with_balance, target) - plain.loss(network(**inputs), target)
    assert added.item() == pytest.approx(0.001 * with_balance.aux_loss.item(), rel=0.01)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.architecture=lama"], "model.architecture: transformers has no 'lama'; did you me"),
        (["+model.config.hiden_size=3"], "config.hiden_size: llama has no such key; did you mean"),
        (["model.task=masked_lm"], "model.task: llama has no masked_lm; choose from: causal_lm"),
        (["model.architecture=encodec"], "encodec is made for none of seq2seq_lm, masked_lm"),
    ],
)
def test_mistakes_are_named_before_anything_runs(overrides, message):
    with pytest.raises(ConfigError) as error:
        make(resources.CONF, ["model=hf", *overrides])
    assert message in str(error.value)
