"""Comments of settings in ``conf/``, made from the docstrings of their fields."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from profkit.core import resources
from profkit.planning.yaml_comments import commented, files

FILES = {str(path.relative_to(resources.CONF)): (path, sections) for path, sections in files()}


@pytest.mark.parametrize("name", FILES)
def test_comments_are_in_step_with_docstrings(name):
    path, sections = FILES[name]
    text = path.read_text()
    assert commented(text, sections) == text, "run: make yaml"


def test_every_file_of_settings_is_looked_at():
    groups = ("tool", "analysis", "launcher", "workload", "model", "zero", "report")
    found = {path for group in groups for path in (resources.CONF / group).glob("*.yaml")}
    assert {path for path, _ in files()} == {*found, resources.CONF / "config.yaml"}


@dataclass
class Inner:
    depth: int = 0
    """Levels of ``a`` tree."""


@dataclass
class Base:
    seed: int = 0
    """Start of
    the series."""


@dataclass
class Outer(Base):
    mode: Literal["fast", "slow"] = "fast"
    """How it runs."""

    other: Literal["fast", "slow"] = "fast"
    """Either fast or slow."""

    bare: int = 0

    inner: Inner = field(default_factory=Inner)
    """What it holds."""


BEFORE = """\
# What this file is.

# Something old,
# in two lines.
mode: fast  # true here only
other: fast
# By hand.
bare: 1
# By hand, too.
name: x
inner:
  # Old.
  depth: 3
seed: 1
"""

AFTER = """\
# What this file is.

# How it runs. Choices: fast, slow.
mode: fast  # true here only
# Either fast or slow.
other: fast
# By hand.
bare: 1
# By hand, too.
name: x
# What it holds.
inner:
  # Levels of `a` tree.
  depth: 3
# Start of the series.
seed: 1
"""


def test_comments_above_fields_are_their_docstrings_and_all_else_stays():
    assert commented(BEFORE, {"": Outer}) == AFTER
    assert commented(AFTER, {"": Outer}) == AFTER


def test_a_section_may_lie_below_a_key():
    before = "defaults:\n  - x\n\ninner:\n  # Old.\n  seed: 1\n"
    after = before.replace("Old.", "Start of the series.")
    assert commented(before, {"inner": Base}) == after
