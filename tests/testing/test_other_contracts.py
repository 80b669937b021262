"""Checks of tools and models fail for those that break their contract."""

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import pytest

from profkit.api import ModelFamily, PluginError, Problem, Session
from profkit.testing import check_model, check_tool, model_contract, tool_contract


def module(doc="mine: what it is.", **plugin):
    made = ModuleType("mine", doc)
    vars(made).update(plugin)
    return made


@dataclass(frozen=True, kw_only=True, slots=True)
class Good(Session):
    """A tool that records nothing."""

    outputs: ClassVar = ("*.json",)


class Misnamed(Good):
    """One whose files are never found."""

    outputs: ClassVar = ("rank*.json",)


class Contradictory(Good):
    """One that is there, and is missing."""

    @classmethod
    def problems(cls):
        yield Problem(kind="missing", what="all", advice="none")


class Leaky(Good):
    """One that says nothing of the secrets in its files."""

    outputs: ClassVar = ("*.nsys-rep",)


TOOLS = {
    "documented": (tool_contract.is_documented, module("Mine", Capture=Good), "not 'name: ....'"),
    "there": (
        tool_contract.answers_for_this_machine,
        module(Capture=Contradictory),
        "states its version",
    ),
    "secrets": (
        tool_contract.names_files_that_hold_the_environment,
        module(Capture=Leaky),
        r"add \['\*\.nsys-rep'\]",
    ),
}


def test_a_good_tool_passes():
    check_tool(module(Capture=Good))


@pytest.mark.parametrize(("check", "broken", "message"), TOOLS.values(), ids=TOOLS)
def test_a_tool_that_breaks_the_contract_fails_with_the_reason(check, broken, message):
    for checking in (check, check_tool):
        with pytest.raises(AssertionError, match=message):
            checking(broken)


def test_files_that_are_never_found_are_an_error_of_the_plugin():
    with pytest.raises(PluginError, match=r"write \('\*\.json',\)"):
        check_tool(module(Capture=Misnamed))


def test_every_check_of_tools_is_tested():
    assert {check for check, *_ in TOOLS.values()} == set(tool_contract.TOOL_CHECKS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line(ModelFamily):
    """A line through points."""

    def build(self):
        from torch import nn

        return nn.Linear(1, 1)

    def parameter_count(self):
        return 2

    def sample(self, generator):
        import torch

        point = torch.randn(1, generator=generator)
        return {"input": point}, 2 * point

    def loss(self, output, target):
        return ((output - target) ** 2).mean()


class Miscounted(Line):
    """One that knows only its slope."""

    def parameter_count(self):
        return 1


class Stuck(Line):
    """One whose loss depends on nothing."""

    def loss(self, output, target):
        return (0 * (output - target)).mean()


class Moody(Line):
    """One that draws from the generator of all."""

    def sample(self, generator):
        del generator
        return super().sample(None)


MODELS = {
    "documented": (model_contract.is_documented, module("Line", Model=Line), "no sentence"),
    "counted": (model_contract.counts_its_parameters, module(Model=Miscounted), "1 parameters"),
    "learns": (model_contract.learns, module(Model=Stuck), "no gradient reaches weight, bias"),
    "repeats": (model_contract.repeats_its_samples, module(Model=Moody), "not close"),
}


def test_a_good_model_passes():
    check_model(module(Model=Line))


@pytest.mark.parametrize(("check", "broken", "message"), MODELS.values(), ids=MODELS)
def test_a_model_that_breaks_the_contract_fails_with_the_reason(check, broken, message):
    for checking in (check, check_model):
        with pytest.raises(AssertionError, match=message):
            checking(broken)


def test_every_check_of_models_is_tested():
    assert {check for check, *_ in MODELS.values()} == set(model_contract.MODEL_CHECKS)
