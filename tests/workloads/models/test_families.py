"""What holds for the models of all families, and for every choice in ``conf/model``."""

import pytest
import torch
from omegaconf import OmegaConf
from torch.utils.data import default_collate

from profkit.core import resources
from profkit.core.settings import checked
from profkit.workloads.models import families, family
from profkit.workloads.runtime.request import without_choices

CHOICES = [
    path.stem
    for path in sorted((resources.CONF / "model").glob("*.yaml"))
    if path.stem != "none"  # That of a script, which brings its own.
]
# As their makers state them; for DLRM 33,762,577 rows of 16 and its two perceptrons.
PUBLISHED = {
    "gpt_125m": 124_439_808,
    "vit_b16": 86_567_656,
    "dit_flux": 11_901_408_320,
    "dlrm_criteo": 33_762_577 * 16 + 475_985,
    "hf_llama_1b": 1_235_814_400,
}
SMALL = ["cnn_small", "dit_tiny", "dlrm_tiny", "gpt_tiny", "hf", "moe_tiny", "vit_tiny"]


def chosen(name):
    values = OmegaConf.to_container(OmegaConf.load(resources.CONF / "model" / f"{name}.yaml"))
    return checked("model", family(values["family"]), without_choices(values))


def batch(model, size=3):
    generator = torch.Generator().manual_seed(0)
    return default_collate([model.sample(generator) for _ in range(size)])


@pytest.mark.parametrize("name", CHOICES)
def test_the_number_of_parameters_is_known_without_building(name):
    with torch.device("meta"):
        count = sum(each.numel() for each in chosen(name).build().parameters())
    assert chosen(name).parameter_count() in (count, None)
    assert PUBLISHED.get(name, count) == count


def test_only_what_transformers_builds_cannot_say_it():
    built = [name for name in families() if name != "none"]
    silent = [name for name in built if families()[name]().parameter_count() is None]
    assert silent == ["hf"]


@pytest.mark.parametrize("name", SMALL)
def test_every_parameter_of_a_small_model_learns(name):
    torch.manual_seed(0)
    model = chosen(name)
    network = model.build()
    inputs, target = batch(model)
    loss = model.loss(network(**inputs), target)
    loss.backward()
    assert loss.shape == ()
    assert torch.isfinite(loss)
    lazy = [key for key, each in network.named_parameters() if not each.grad.abs().sum() > 0]
    assert lazy == []


def test_each_family_has_a_small_model():
    built = {family for name, family in families().items() if name != "none"}
    assert {type(chosen(name)) for name in SMALL} == built


@pytest.mark.parametrize("name", SMALL)
def test_the_same_generator_gives_the_same_sample(name):
    first, second = (batch(chosen(name), size=1) for _ in range(2))
    torch.testing.assert_close(first, second)
