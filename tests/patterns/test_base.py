"""The contract of patterns, and that every one of them keeps it."""

import importlib
import re
from pathlib import Path

import pytest

from profkit.api import Match, PluginError, pattern
from profkit.core import registry
from profkit.patterns import patterns
from profkit.patterns.__main__ import document
from profkit.testing import found, span

MODULES = registry.module_names("profkit.patterns")
ROOT = Path(__file__).parents[2]
SOURCE = "https://docs.pytorch.org"


@pytest.mark.parametrize("name", patterns())
def test_every_pattern_says_what_it_is_and_finds_nothing_in_nothing(name):
    module = importlib.import_module(MODULES[name])
    assert re.fullmatch(r"[A-Z].*: .*\.", module.__doc__.strip().partition("\n")[0])
    assert patterns()[name].title[0].isupper()
    assert found(patterns()[name]) == ()


def test_a_pattern_returns_none_one_match_or_several():
    def match(kernels):
        return [
            Match(cause="gpu_computing", advice=f"Fuse {row.name}.", gain_ns=row.charged_ns)
            for row in kernels.itertuples(index=False)
        ]

    several = pattern(title="Any kernel", source=SOURCE)(match)
    rows = [
        span(0, 90_000, name="a", charged_ns=90_000),
        span(90_000, 120_000, name="b", charged_ns=30_000),
        span(120_000, 139_000, name="under 2 % of the step", charged_ns=19_000),
    ]
    assert [made.gain_ns for made in found(several, kernels=rows)] == [90_000, 30_000]
    one = pattern(title="One", source=SOURCE)(match_of)
    assert found(one) == (match_of(None),)


def match_of(step):
    del step
    return Match(cause="gpu_idle", advice="Wait less.", gain_ns=1e6)


def test_a_parameter_that_no_pattern_may_name_is_refused_with_those_that_it_may():
    with pytest.raises(PluginError, match=r"test_base\.py:\d+: unknown parameter 'weather'") as no:
        pattern(title="Rain", source=SOURCE)(lambda weather: weather)
    assert "a pattern may name steps, cpu_ops, kernels" in str(no.value)


def test_a_pattern_without_a_document_is_refused():
    with pytest.raises(PluginError, match="must be the URL of a document"):
        pattern(title="Rain", source="I know it")


def test_the_documentation_shows_every_pattern():
    assert (ROOT / "docs" / "patterns.md").read_text(encoding="utf-8") == f"{document()}\n"
