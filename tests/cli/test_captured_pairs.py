"""How many pairs are captured at once; what captures is tested elsewhere."""

from types import SimpleNamespace

import pytest

from profkit.cli import captured_pairs
from profkit.planning.model import Pairing
from profkit.planning.sides import Sides

PAIRING = Pairing(a="a", b="b", coin=0)


@pytest.mark.parametrize(
    ("there", "most", "least", "counts"),
    [
        (0, 6, 1, [1, 3, 6]),
        (0, 20, 1, [1, 3, 6, 9, 12, 15, 18, 20]),
        (4, 8, 1, [4, 6, 8]),
        (0, 9, 9, [9]),
    ],
)
def test_the_workflow_is_started_once_for_several_pairs(monkeypatch, there, most, least, counts):
    made = []

    def dag(_, count):
        return SimpleNamespace(plan=SimpleNamespace(pairing=PAIRING, runs=()), count=count)

    monkeypatch.setattr(captured_pairs, "_there", lambda *_: there)
    monkeypatch.setattr(captured_pairs, "_dag", dag)
    monkeypatch.setattr(captured_pairs, "_check", lambda *_: None)
    monkeypatch.setattr(captured_pairs, "measured", lambda run: run)
    monkeypatch.setattr(captured_pairs.run, "make", lambda dag, *_: made.append(dag.count) or True)
    args = SimpleNamespace()
    found = captured_pairs.captured_pairs(Sides(), most, args, least=least)
    assert [one.count for one in found] == made == counts
