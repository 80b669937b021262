from profkit.workloads.automatic.step_ends import StepEnds


class Optimizer:
    pass


def ends(step_ends, *order):
    return [step_ends.ends_step(optimizer) for optimizer in order]


def test_each_turn_of_a_single_optimizer_ends_a_step():
    step_ends, one = StepEnds(), Optimizer()
    assert ends(step_ends, one, one, one) == [True, True, True]
    assert step_ends.steps == 3


def test_of_several_the_one_that_joined_last_ends_steps():
    step_ends, one, two, three = StepEnds(), Optimizer(), Optimizer(), Optimizer()
    # Until the second round nobody knows that there are several.
    assert ends(step_ends, one, two, three) == [True, False, False]
    assert ends(step_ends, one, two, three) == [False, False, True]
    assert ends(step_ends, one, one, two, three) == [False, False, False, True]


def test_when_it_is_gone_the_next_one_takes_its_place():
    step_ends, one, two, three = StepEnds(), Optimizer(), Optimizer(), Optimizer()
    ends(step_ends, one, two, three)
    del three
    assert ends(step_ends, one, two) == [True, False]
    assert ends(step_ends, one, two) == [True, False]


def test_who_comes_late_is_told_apart():
    step_ends, one, two = StepEnds(), Optimizer(), Optimizer()
    assert not step_ends.takes_over(one)
    ends(step_ends, one)
    assert not step_ends.takes_over(one)
    assert step_ends.takes_over(two)


def test_new_ones_take_over_from_one_that_is_kept_but_not_called_again():
    step_ends, kept = StepEnds(), Optimizer()
    ends(step_ends, kept, kept)
    for _ in range(3):
        one = Optimizer()
        ends(step_ends, one, one)
        del one
    # The first of them takes over with its first call, and the others do not have to.
    assert step_ends.steps == 2 + 1 + 2 + 2
