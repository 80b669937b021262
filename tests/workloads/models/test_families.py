"""What holds for the models of all families, and for every choice in ``conf/model``."""

import importlib

import pytest
import torch
from omegaconf import OmegaConf

from profkit.core import registry, resources
from profkit.core.settings import checked
from profkit.testing.model_contract import MODEL_CHECKS
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
FAMILIES = {
    name: module
    for name, module in registry.module_names("profkit.workloads.models").items()
    if name != "none"
}


def chosen(name):
    values = OmegaConf.to_container(OmegaConf.load(resources.CONF / "model" / f"{name}.yaml"))
    return checked("model", family(values["family"]), without_choices(values))


@pytest.mark.parametrize("name", CHOICES)
def test_the_number_of_parameters_is_known_without_building(name):
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in chosen(name).build().parameters())
    assert chosen(name).parameter_count() in (count, None)
    assert PUBLISHED.get(name, count) == count


def test_only_what_transformers_builds_cannot_say_it():
    silent = [name for name in FAMILIES if families()[name]().parameter_count() is None]
    assert silent == ["hf"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
def test_every_family_of_its_default_sizes(check, name):
    check(importlib.import_module(FAMILIES[name]))


def test_each_family_can_be_chosen():
    assert {type(chosen(name)) for name in CHOICES} == {families()[name] for name in FAMILIES}
