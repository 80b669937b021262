"""How many pairs are captured at once; what captures is tested elsewhere."""

from types import SimpleNamespace

import pytest

from profkit.cli import captured_pairs
from profkit.cli.captured_pairs import SideFailedError
from profkit.core.errors import InputError
from profkit.planning.model import Pairing
from profkit.planning.sides import Sides

PAIRING = Pairing(a="a", b="b", coin=0)


@pytest.fixture(autouse=True)
def workflow(monkeypatch):
    """Return the numbers of pairs that were made; nothing is captured."""
    made = []

    def dag(_, count):
        return SimpleNamespace(plan=SimpleNamespace(pairing=PAIRING, runs=()), count=count)

    monkeypatch.setattr(captured_pairs, "_there", lambda *_: 0)
    monkeypatch.setattr(captured_pairs, "_dag", dag)
    monkeypatch.setattr(captured_pairs, "_check", lambda *_: None)
    monkeypatch.setattr(captured_pairs, "measured", lambda _: SimpleNamespace(metrics={}))
    monkeypatch.setattr(captured_pairs.run, "make", lambda dag, *_: made.append(dag.count) or True)
    return made


@pytest.mark.parametrize(
    ("there", "asked", "counts"),
    [
        (0, (6, 1), [1, 3, 6]),
        (0, (20, 1), [1, 3, 6, 9, 12, 15, 18, 20]),
        (4, (8, 1), [4, 6, 8]),
        (0, (9, 9), [9]),
    ],
)
def test_the_workflow_is_started_once_for_several_pairs(
    workflow, monkeypatch, there, asked, counts
):
    monkeypatch.setattr(captured_pairs, "_there", lambda *_: there)
    most, least = asked
    found = captured_pairs.captured_pairs(Sides(), most, SimpleNamespace(), least=least)
    assert [one.count for one in found] == workflow == counts


def test_a_side_without_step_times_has_failed(monkeypatch):
    def measured(run):
        if run.name == PAIRING.b:
            raise InputError("b: no step times: 3 steps are warm-up")
        return run

    monkeypatch.setattr(captured_pairs, "measured", measured)
    found = captured_pairs.captured_pairs(Sides(), 6, SimpleNamespace())
    with pytest.raises(SideFailedError, match="side B failed, b: no step times") as failed:
        next(found)
    assert failed.value.side == "b"
