"""Each pattern on its own examples, of which it has a module: what it finds, and what it passes."""

import importlib

import pytest

from profkit.patterns import patterns
from profkit.testing import found


def examples(name):
    return importlib.import_module(f"tests.patterns.examples.{name}")


@pytest.mark.parametrize("name", patterns())
def test_a_pattern_finds_its_example(name):
    example = examples(name)
    (made,) = found(patterns()[name], **example.FOUND)
    cause, gain_ns, words = example.EXPECTED
    assert (made.cause, made.gain_ns) == (cause, pytest.approx(gain_ns))
    assert words in made.advice


@pytest.mark.parametrize(
    ("name", "why"),
    [(name, why) for name in patterns() for why in examples(name).PASSED],
)
def test_and_not_where_it_does_not_apply(name, why):
    assert found(patterns()[name], **examples(name).PASSED[why]) == ()
