"""Rows of a step that add up."""

from profkit import testing
from profkit.analyze import step_costs
from profkit.core.result import Result, Table

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop>(Params)"
COLUMNS = ("rank", "repeat", "cause", "module", "operator", "kernel", "calls_per_step")
PARTS = (
    (0, 0, "gpu_computing", "Net;Linear", "aten::mm", "cutlass_80_tensorop", 2.0, 4.0),
    (0, 1, "gpu_computing", "Net;Linear", "aten::mm", "cutlass_80_tensorop", 2.0, 6.0),
    (0, 0, "gpu_idle.python", "", "train.py(9): main", "", 1.0, 3.0),
    (0, 1, "gpu_idle.python", "", "train.py(9): main", "", 1.0, 3.0),
    (0, 0, "gpu_idle.python", "", "", "", 0.0, 1.0),
    (0, 1, "gpu_idle.python", "", "", "", 0.0, 1.0),
    (1, 0, "gpu_computing", "", "aten::mm", "cutlass_80_tensorop", 1.0, 20.0),
)


def causes(parts=PARTS):
    return Result(
        tables={
            "parts": Table(title="", columns=(*COLUMNS, "ms_per_step"), rows=parts),
            "ranks": Table(title="", columns=("rank", "decisive"), rows=((0, False), (1, True))),
            "causes": Table(
                title="", columns=("id", "title"), rows=(("gpu_computing", "GPU computing"),)
            ),
        }
    )


def costs(parts=PARTS, **settings):
    kernels = [testing.span(0, 1, name=GEMM, kind="compute")]
    result = testing.run(step_costs.analyze, causes=causes(parts), kernels=kernels, **settings)
    return result.drawings["step_costs"]


def rows(columns):
    keys = ("cause", "module", "operator", "kernel", "library", "file")
    named = zip(*([columns["texts"][code] for code in columns[key]] for key in keys), strict=True)
    return [(*row, ms) for row, ms in zip(named, columns["ms_per_step"], strict=True)]


def test_the_rank_that_decides_comes_first_and_the_others_when_asked_for():
    drawing = costs()
    assert drawing.data["ranks"] == [1, 0]
    assert [detail.name for detail in drawing.details] == ["rank 0"]


def test_rows_are_means_of_the_repeats_with_library_and_file():
    assert rows(costs().details[0].data()) == [
        ("GPU computing", "Net;Linear", "aten::mm", "cutlass_80_tensorop", "CUTLASS", "", 5.0),
        ("GPU idle: Python and dispatch", "", "train.py(9): main", "", "", "train.py", 3.0),
        ("GPU idle: Python and dispatch", "", "", "", "", "", 1.0),
    ]


def test_what_small_rows_take_stays_in_the_sum():
    found = rows(costs(max_rows=1).details[0].data())
    assert [row[0] for row in found] == ["GPU computing", "GPU idle: Python and dispatch"]
    assert sum(row[-1] for row in found) == 9


def test_without_a_division_there_is_a_reason():
    result = testing.run(step_costs.analyze, causes=Result())
    assert result.abstentions[0].reason == "the step time was not divided"
