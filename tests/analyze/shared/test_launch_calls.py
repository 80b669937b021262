from profkit.analyze.shared.launch_calls import launching_calls
from profkit.tables import schema


def rows(table, *values):
    names = ("rank", "repeat", "correlation", "start_ns")
    return schema.frame(table, [dict(zip(names, row, strict=True)) for row in values])


def test_a_correlation_means_something_within_a_rank_and_repeat_only():
    calls = rows("runtime_calls", (0, 0, 7, 1), (1, 0, 7, 2), (0, 1, 7, 3), (0, 0, 5, 4))
    kernels = rows("kernels", (1, 0, 7, 9), (0, 0, 5, 9), (0, 0, 7, 9), (0, 1, 7, 9), (2, 0, 7, 9))
    assert launching_calls(kernels, calls).tolist() == [1, 3, 0, 2, -1]


def test_the_first_of_several_calls_launched_and_a_graph_launches_several_kernels():
    calls = rows("runtime_calls", (0, 0, 7, 5), (0, 0, 7, 3))
    kernels = rows("kernels", (0, 0, 7, 9), (0, 0, 7, 10), (0, 0, 8, 11))
    assert launching_calls(kernels, calls).tolist() == [1, 1, -1]


def test_no_correlation_is_no_launch():
    calls = rows("runtime_calls", (0, 0, 0, 5), (0, 0, -1, 3))
    kernels = rows("kernels", (0, 0, 0, 9), (0, 0, -1, 10))
    assert launching_calls(kernels, calls).tolist() == [-1, -1]
    assert launching_calls(kernels, schema.frame("runtime_calls")).tolist() == [-1, -1]
    assert launching_calls(schema.frame("kernels"), calls).tolist() == []
