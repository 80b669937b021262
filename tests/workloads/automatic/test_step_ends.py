from profkit.workloads.automatic.step_ends import Round, StepEnds


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


def test_a_round_is_known_when_the_first_one_returns():
    step_ends, critic, generator = StepEnds(), Optimizer(), Optimizer()
    turn = [*[critic] * 5, generator]
    assert ends(step_ends, *turn) == [True] * 6
    assert ends(step_ends, *turn) == [False] * 5 + [True]
    # The second round shows what the steps of the first were.
    assert (step_ends.joined, step_ends.confirmed) == ((6, 1), Round((5, 1), 1))
    assert ends(step_ends, *turn) == [False] * 5 + [True]
    assert step_ends.joined is None


def test_a_round_may_end_with_several_calls_of_the_last():
    step_ends, one, two = StepEnds(), Optimizer(), Optimizer()
    ends(step_ends, one, two, two)
    assert ends(step_ends, one, two, two) == [False, False, True]
    assert step_ends.joined == (2, 1)


def test_a_first_round_may_lack_a_call():
    step_ends, critic, actor = StepEnds(), Optimizer(), Optimizer()
    assert ends(step_ends, critic, actor, actor) == [True, False, True]
    assert ends(step_ends, critic, critic, actor, actor) == [False, False, False, True]
    assert (step_ends.joined, step_ends.confirmed) == ((2, 1), None)
    ends(step_ends, critic, critic, actor, actor)
    assert step_ends.confirmed == Round((2, 2), 1)


def test_a_round_that_is_known_before_counts_from_the_first_call():
    step_ends, one, two = StepEnds(Round((2, 1), 1)), Optimizer(), Optimizer()
    assert ends(step_ends, *[one, one, two] * 2) == [False, False, True] * 2
    assert (step_ends.steps, step_ends.joined, step_ends.late) == (2, None, 0)


def test_those_that_never_return_are_stages():
    step_ends, one, two = StepEnds(), Optimizer(), Optimizer()
    assert ends(step_ends, *[one] * 4, *[two] * 4) == [True] * 8
    assert step_ends.late == 4


def test_those_that_return_after_many_calls_are_stages():
    step_ends, one, two = StepEnds(), Optimizer(), Optimizer()
    assert ends(step_ends, *[*[one] * 40, *[two] * 40] * 2) == [True] * 160


def test_those_that_are_each_called_several_times_in_a_row_are_stages():
    step_ends, folds = StepEnds(), [Optimizer() for _ in range(3)]
    epoch = [fold for fold in folds for _ in range(7)]
    assert ends(step_ends, *epoch * 3) == [True] * 63
    assert (step_ends.steps, step_ends.late, step_ends.joined) == (63, 0, None)


def test_those_that_are_each_called_a_few_times_in_a_row_are_a_round():
    step_ends, one, two = StepEnds(), Optimizer(), Optimizer()
    turn = [*[one] * 3, *[two] * 3]
    ends(step_ends, *turn)
    assert ends(step_ends, *turn) == [False] * 5 + [True]
    assert step_ends.confirmed == Round((3, 3), 1)


def test_one_for_each_of_many_parameters_makes_a_round():
    step_ends, every = StepEnds(), [Optimizer() for _ in range(100)]
    assert sum(ends(step_ends, *every * 3)) == 3


def test_one_of_a_round_that_goes_on_alone_ends_steps_after_a_while():
    step_ends, one, two = StepEnds(), Optimizer(), Optimizer()
    ends(step_ends, *[one, two] * 3)
    assert ends(step_ends, *[one] * 20)[-5:] == [True] * 5


def test_a_round_without_the_last_one_ends_with_another():
    step_ends, one, two, three = StepEnds(), Optimizer(), Optimizer(), Optimizer()
    ends(step_ends, one, two, three)
    del three
    ends(step_ends, *[one, two] * 2)
    assert ends(step_ends, *[one, two] * 3) == [False, True] * 3


def test_one_that_joins_late_ends_the_step_of_the_one_before():
    step_ends, one, two = StepEnds(), Optimizer(), Optimizer()
    ends(step_ends, *[one] * 4, two)
    assert step_ends.late == 4
    assert ends(step_ends, one, two) == [False, True]
    assert (step_ends.joined, step_ends.confirmed) == ((2, 1), None)


def test_inner_ones_that_are_made_anew_have_the_number_of_the_one_before():
    step_ends, outer = StepEnds(), Optimizer()
    for _ in range(3):
        inner = Optimizer()
        made = ends(step_ends, inner, inner, outer)
        del inner
    assert made == [False, False, True]
    assert step_ends.confirmed == Round((2, 1), 1)


def test_new_ones_take_over_from_one_that_is_kept_but_not_called_again():
    step_ends, kept = StepEnds(), Optimizer()
    ends(step_ends, kept, kept)
    for _ in range(3):
        one = Optimizer()
        assert ends(step_ends, one, one) == [True, True]
        del one


def test_models_make_no_rounds():
    step_ends, encoder, decoder = StepEnds(has_rounds=False), Optimizer(), Optimizer()
    ends(step_ends, encoder, *[decoder] * 3)
    assert ends(step_ends, encoder, *[decoder] * 3) == [False, True, True, True]
