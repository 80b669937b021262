"""The step time that would be left, as it is asked for in a terminal."""

import json

import pytest

from profkit.cli import main
from tests.cli.measured_runs import STEADY, leave_run


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    """Leave a run of 100 ms a step, and stand in its folder."""
    monkeypatch.chdir(tmp_path)
    causes = {"cpu_operators": 70 * STEADY, "loading_data": 30 * STEADY}
    leave_run(tmp_path, "one", 100 * STEADY, causes=causes)


def asked(capsys, *words, status=0):
    assert main(["what-if", "one", *words]) == status
    return capsys.readouterr()


def test_the_largest_causes_are_listed_or_those_that_are_named(capsys):
    assert asked(capsys).out.splitlines() == [
        "one: 100 ms per step",
        "      30 ms (-70%, between 29.8 and 30.2)  without cpu_operators",
        "      70 ms (-30%, between 69.8 and 70.2)  without loading_data",
    ]
    line = asked(capsys, "--without", "loading_data", "--halve", "cpu_operators").out
    assert "35 ms (-65%" in line
    assert "without loading_data and with half of cpu_operators" in line
    (made,) = json.loads(asked(capsys, "--halve", "loading_data", "--json").out)
    assert made["causes"] == {"loading_data": 0.5}
    assert made["predicted_ms"] == pytest.approx(85, rel=1e-3)


def test_a_cause_that_is_not_there_is_named_with_the_nearest(capsys):
    assert "did you mean 'loading_data'?" in asked(capsys, "--without", "loading", status=1).err
    unknown = asked(capsys, "--without", "nope", status=1).err
    assert "choose from: cpu_operators, loading_data\n" in unknown
