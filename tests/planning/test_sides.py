"""Two sides in a list of overrides."""

import pytest

from profkit.core.errors import ConfigError
from profkit.planning.model import Pairing, Run
from profkit.planning.sides import Sides, paired, selections, sides_of


def run(name):
    return Run(name=name, behaviour={}, hardware={}, tools={}, analyses={}, overrides=())


def test_sides_are_read_as_they_are_written():
    sides = Sides(common=("steps=9",), a=("batch=4",), b=("batch=8", "model.name=a b"), coin=7)
    assert sides_of(sides.words) == sides
    assert (
        selections(sides.words)
        == sides.overrides
        == (
            ("steps=9", "batch=4"),
            ("steps=9", "batch=8", "model.name=a b"),
        )
    )
    same = Sides()
    assert sides_of(same.words) == same
    assert sides_of(["batch=2"]) is None
    assert selections(["batch=2"]) == (("batch=2",),)


@pytest.mark.parametrize("words", [("--a", "batch='2"), ("--a", "batch=2", "--coin", "heads")])
def test_sides_that_cannot_be_read_are_named(words):
    with pytest.raises(ConfigError, match=f"^{words[-2]} {words[-1]}: "):
        sides_of(words)


def test_a_pair_has_runs_of_its_own():
    runs, pairing = paired([run("x"), run("y")], 0)
    assert [one.name[:2] for one in runs] == ["x-", "y-"]
    assert (pairing.a, pairing.b) == tuple(one.name for one in runs)
    assert pairing.other(pairing.a) == pairing.b
    alike, _ = paired([run("x"), run("x")], 0)
    again, _ = paired([run("x"), run("x")], 1)
    assert len({one.name for one in (*runs, *alike, *again)}) == 6
    with pytest.raises(ConfigError, match="select 3 runs"):
        paired([run("x"), run("y"), run("z")], 0)


def test_a_coin_says_which_is_first_and_says_it_again():
    pairing = Pairing(a="x", b="y", coin=3)
    orders = [pairing.order(repeat) for repeat in range(200)]
    assert orders == [pairing.order(repeat) for repeat in range(200)]
    assert set(orders) == {("x", "y"), ("y", "x")}
    assert 70 < orders.count(("x", "y")) < 130
