"""What every analysis keeps to, built in or installed by somebody else."""

import importlib
import inspect
import re
from dataclasses import fields

import pytest
import yaml
from pydantic import TypeAdapter

from profkit.analyze import analyses
from profkit.core import registry, resources
from profkit.testing.analysis_contract import ANALYSIS_CHECKS

FOUND = analyses()
MODULES = registry.module_names("profkit.analyze")
# Keys of conf/config.yaml that a setting may follow.
FOLLOWED = {"${warmup_steps}": 3}

BUILT_IN = [name for name, module in MODULES.items() if module.startswith("profkit.")]

built_in = pytest.mark.parametrize("name", BUILT_IN)


def conf(name):
    return (resources.CONF / "analysis" / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("check", ANALYSIS_CHECKS, ids=lambda check: check.__name__)
def test_every_analysis(check, name):
    check(importlib.import_module(MODULES[name]))


@built_in
def test_its_yaml_spells_out_every_default(name):
    values = {
        key: FOLLOWED[value] if isinstance(value, str) and value.startswith("${") else value
        for key, value in (yaml.safe_load(conf(name)) or {}).items()
    }
    config = FOUND[name].config
    assert list(values) == [field.name for field in fields(config)]
    assert TypeAdapter(config).validate_python(values) == config()


@built_in
def test_its_yaml_says_where_it_goes_and_what_it_tells(name):
    first, second = conf(name).splitlines()[:2]
    assert first == f"# @package analyses.{name}"
    assert re.fullmatch(r"# [A-Z].*\.", second)


def test_parameters_name_tables_or_analyses():
    for name, analysis in FOUND.items():
        read = (*analysis.results, *analysis.results_if_there)
        assert set(read) <= set(FOUND), name
        assert not any(FOUND[other].across for other in read), name
        assert "config" in inspect.signature(analysis.run).parameters
