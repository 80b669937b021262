"""Steps by their annotations and by their times."""

import numpy as np

from profkit.convert.linking.steps import StepSpans, step_number


def test_steps_are_numbered_by_their_annotation():
    names = ["ProfilerStep#12", "ProfilerStep#", "step#3", "ProfilerStep#1x"]
    assert [step_number(name) for name in names] == [12, -1, -1, -1]


def test_times_fall_into_the_step_that_holds_them():
    steps = StepSpans(np.array([4, 5]), np.array([100, 200]), np.array([150, 200]))
    assert steps.at(np.array([99, 100, 149, 150, 200, 201])).tolist() == [*(-1, 4, 4, -1, 5, -1)]


def test_a_step_begins_where_its_mark_was_set_again():
    steps = StepSpans(np.array([4, 5]), np.array([100, 200]), np.array([190, 300]))
    marks = StepSpans(
        np.array([7, 8, 8, 8]), np.array([101, 201, 230, 260]), np.array([189, 229, 259, 299])
    )
    assert steps.resumed(marks).start.tolist() == [100, 260]
    assert steps.resumed(StepSpans.none()).start.tolist() == [100, 200]
