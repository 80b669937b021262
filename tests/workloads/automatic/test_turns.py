from profkit.workloads.automatic.turns import Turns


class Optimizer:
    pass


def ends(turns, *order):
    return [turns.ended(each) for each in order]


def test_each_turn_of_a_single_optimizer_ends_a_step():
    turns, one = Turns(), Optimizer()
    assert ends(turns, one, one, one) == [True, True, True]
    assert turns.steps == 3


def test_of_several_the_one_that_joined_last_ends_steps():
    turns, one, two, three = Turns(), Optimizer(), Optimizer(), Optimizer()
    # Until the second round nobody knows that there are several.
    assert ends(turns, one, two, three) == [True, False, False]
    assert ends(turns, one, two, three) == [False, False, True]
    assert ends(turns, one, one, two, three) == [False, False, False, True]


def test_when_it_is_gone_the_next_one_takes_its_place():
    turns, one, two, three = Turns(), Optimizer(), Optimizer(), Optimizer()
    ends(turns, one, two, three)
    del three
    assert ends(turns, one, two) == [True, False]
    assert ends(turns, one, two) == [True, False]


def test_who_comes_late_is_told_apart():
    turns, one, two = Turns(), Optimizer(), Optimizer()
    assert not turns.joins(one)
    ends(turns, one)
    assert not turns.joins(one)
    assert turns.joins(two)
