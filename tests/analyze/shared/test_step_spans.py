from profkit.analyze.division.periods import periods
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_spans import operator_spans, spans, step_spans
from profkit.analyze.shared.step_windows import WHERE, step_windows
from profkit.testing import ORIGIN_NS, frame, span

STEPS = [
    span(100 * number, 100 * number + 100, rank=rank, repeat=0, step=number)
    for rank in (0, 1)
    for number in range(3)
]
KERNELS = [
    span(100 * number + at, 100 * number + at + 15 + rank, rank=rank, repeat=0, step=number)
    for rank in (0, 1)
    for number in range(3)
    for at in (90, 10, 50)
]
OPS = [
    span(start, end, rank=0, repeat=0, step=number, kind=kind)
    for number, start, end, kind in (
        (0, 5, 60, "operator"),
        (0, 0, 99, "annotation"),
        (2, 205, 300, "annotation"),
        (1, 110, 150, "operator"),
        (0, 70, 80, "operator"),
    )
]


def in_portions(table, rows, size=2):
    whole = frame(table, rows)
    return LargeTable(lambda: (whole[at : at + size] for at in range(0, max(len(whole), 1), size)))


def test_windows_and_periods_of_the_spans_are_those_of_all_rows():
    steps, kernels, ops = frame("steps", STEPS), frame("kernels", KERNELS), frame("cpu_ops", OPS)
    on_gpu, on_cpu = (
        step_spans(in_portions("kernels", KERNELS)),
        operator_spans(in_portions("cpu_ops", OPS)),
    )
    assert len(on_gpu) == 6
    expected, _ = step_windows(steps, kernels, 1)
    assert step_windows(steps, on_gpu, 1)[0].equals(expected)
    made, of_all = periods(steps, on_cpu, on_gpu, 0), periods(steps, ops, kernels, 0)
    assert made.rows.equals(of_all.rows)
    assert (made.one_off_ns, made.problem) == (of_all.one_off_ns, of_all.problem)


def test_a_span_is_from_the_first_start_to_the_last_end_over_portions():
    found = spans(in_portions("kernels", KERNELS), WHERE)
    assert found.assign(start_ns=found["start_ns"] - ORIGIN_NS).to_dict("list") == {
        "rank": [0, 1],
        "repeat": [0, 0],
        "start_ns": [10, 10],
        "end_ns": [ORIGIN_NS + 305, ORIGIN_NS + 306],
    }


def test_a_table_without_rows_has_no_spans():
    assert step_spans(in_portions("kernels", [])).empty
    assert operator_spans(in_portions("cpu_ops", [])).empty
