import pytest

from profkit.report.column_labels import column, columns
from profkit.report.view import Column


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("self_cpu_ns", Column(label="Self CPU", unit="ns")),
        ("peak_memory_bytes", Column(label="Peak memory", unit="bytes")),
        ("idle_share", Column(label="Idle", unit="share")),
        ("share_of_gpu_time", Column(label="Share of GPU time", unit="share")),
        ("throughput_per_s", Column(label="Throughput", unit="per_s")),
        ("read_bytes_per_s", Column(label="Read", unit="bytes_per_s")),
        ("rank", Column(label="Rank", unit="id")),
        ("count", Column(label="Count", unit="count")),
        ("kernel", Column(label="Kernel")),
        ("blocks_per_sm", Column(label="Blocks per SM")),
        ("ms_per_step", Column(label="Time per step", unit="ms")),
        ("flops_per_step", Column(label="FLOPs per step", unit="flops")),
        ("calls_per_step", Column(label="Calls per step")),
        ("gpu_idle.blocked_ns", Column(label="GPU idle: blocked", unit="ns")),
        ("", Column(label="")),
    ],
)
def test_a_column_is_split_into_label_and_unit(name, expected):
    assert column(name) == expected


def test_a_label_that_says_what_it_measures_says_it_once():
    names = ["time_ns", "time_share", "idle_time_ns", "idle_time_percent"]
    labels = ["Time", "Time share", "Idle time", "Idle time percent"]
    assert [column.label for column in columns(names)] == labels


def test_columns_that_differ_in_their_unit_alone_say_what_they_measure():
    assert columns(["step", "step_ns", "self_cpu_ns", "self_cpu_share"]) == (
        Column(label="Step", unit="id"),
        Column(label="Step time", unit="ns"),
        Column(label="Self CPU time", unit="ns"),
        Column(label="Self CPU share", unit="share"),
    )
