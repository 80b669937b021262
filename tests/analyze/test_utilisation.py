"""Utilisation side by side, sampled and from kernels; CPUs of processes and hosts."""

import pytest

from profkit import testing
from profkit.analyze.utilisation import Config, analyze
from profkit.tables import schema
from profkit.testing import rows


def samples(*rows):
    return schema.frame(
        "samples",
        [
            {"rank": 0, "repeat": 0, "device": device, "metric": metric, "value": value}
            | {"time_ns": time_ns, "step": step}
            for device, metric, time_ns, step, value in rows
        ],
    )


def run(sampled, steps=(), kernels=None, **settings):
    rows = [{"rank": 0, "repeat": 0, **step} for step in steps]
    return testing.run(
        analyze,
        samples={"system": sampled},
        steps={"system": rows, "torch_profiler": rows},
        kernels=None if kernels is None else {"torch_profiler": kernels},
        **settings,
    )


def test_what_is_sampled_is_the_mean_of_the_steps_that_count():
    sampled = samples(
        ("gpu0", "busy_percent", 1, 1, 0),
        ("gpu0", "busy_percent", 2, 3, 90),
        ("gpu0", "busy_percent", 3, 4, 100),
        ("gpu0", "SMs Active [Throughput %]", 3, 4, 30),
        ("gpu0", "Tensor Active [Throughput %]", 3, 4, 10),
        ("gpu0", "Compute Warps in Flight [Throughput %]", 3, 4, 20),
        ("gpu0", "power_w", 3, 4, 300),
    )
    result = run(sampled)
    assert rows(result, "by_device") == [
        {
            "tool": "system",
            "rank": 0,
            "device": "gpu0",
            "busy_percent": 95,
            "sm_active_percent": 30,
            "occupancy_percent": pytest.approx(100 * 20 / 30),
            "tensor_active_percent": 10,
        }
    ]
    (finding,) = result.findings
    assert finding.message.startswith("gpu0 of rank 0 is busy 95 %")
    assert result.metrics["sm_active_percent"].value == 30


KERNEL = {"rank": 0, "repeat": 0, "device": 1, "stream": 7, "kind": "compute", "step": 3}


def kernel(start_ns, end_ns, **more):
    return {**KERNEL, "start_ns": start_ns, "end_ns": end_ns, "name": "add", **more}


def test_kernels_of_a_trace_give_shares_of_the_time_of_the_steps():
    traced = [
        kernel(0, 40, blocks_per_sm=0.5, occupancy_percent=20.0),
        # A second stream at the same time keeps the device no busier.
        kernel(20, 60, blocks_per_sm=4.0, occupancy_percent=50.0, name="ampere_h16816gemm"),
        # Copies need no SM.
        kernel(60, 80, kind="copy"),
    ]
    result = run(samples(), steps=[{"step": 3, "start_ns": 0, "end_ns": 100}], kernels=traced)
    (row,) = rows(result, "by_device")
    assert (row["tool"], row["device"], row["busy_percent"]) == ("torch_profiler", "gpu1", 60)
    assert row["sm_active_percent"] == pytest.approx(40 * 0.5 + 40)
    assert row["occupancy_percent"] == pytest.approx(35)
    assert row["tensor_active_percent"] == pytest.approx(40)


def test_kernels_that_say_nothing_of_blocks_leave_sm_activity_unknown():
    step = {"step": 3, "start_ns": 0, "end_ns": 100}
    result = run(samples(), steps=[step], kernels=[kernel(0, 50)])
    (row,) = rows(result, "by_device")
    assert (row["busy_percent"], row["sm_active_percent"]) == (50, None)
    assert {abstention.what for abstention in result.abstentions} == {
        "sm active of GPUs",
        "occupancy of GPUs",
    }


def test_cpus_are_those_that_were_busy_between_the_first_and_the_last_sample():
    second = 1_000_000_000
    sampled = samples(
        ("process", "cpu_s", 0, 3, 10.0),
        ("process", "cpu_s", 2 * second, 4, 13.0),
        ("process", "memory_used_bytes", 0, 3, 70),
        ("process", "memory_used_bytes", second, 3, 50),
        ("host", "cpu_s", 0, 3, 100.0),
        ("host", "cpu_s", 2 * second, 4, 106.0),
        ("host", "cpu_all_s", 0, 3, 100.0),
        ("host", "cpu_all_s", 2 * second, 4, 108.0),
        ("host", "cpu_count", second, 3, 4),
    )
    result = run(sampled)
    found = {row["device"]: row for row in rows(result, "by_host")}
    assert found["process"]["cpus"] == 1.5
    assert found["process"]["memory_used_bytes"] == 70
    assert (found["host"]["cpus"], found["host"]["cpu_percent"]) == (3, 75)
    assert result.metrics["process_cpus"].value == 1.5
    assert result.abstentions[0].what == "utilisation of GPUs"


def test_rounding_makes_no_host_busier_than_all_of_its_cpus():
    second = 1_000_000_000
    sampled = samples(
        ("host", "cpu_s", 0, 3, 0.1),
        ("host", "cpu_s", second, 3, 0.4),
        ("host", "cpu_all_s", 0, 3, 0.0),
        ("host", "cpu_all_s", second, 3, 0.3),
        ("host", "cpu_count", second, 3, 4),
    )
    (host,) = rows(run(sampled), "by_host")
    assert (host["cpus"], host["cpu_percent"]) == (4, 100)


# What PyTorch's TensorBoard plugin says of these traces: busy, SM efficiency, occupancy, tensor.
OF_TENSORBOARD = {
    "resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz": (55.51, 54.68, 49.13, 0),
    "resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz": (70.27, 69.22, 48.91, 0),
}


@pytest.mark.parametrize("name", OF_TENSORBOARD)
def test_estimates_are_those_of_the_tensorboard_plugin(real_data, converted, name):
    tables = converted(real_data / "kineto/tensorboard" / name)
    result = analyze.run(
        samples={},
        steps={"torch_profiler": tables["steps"]},
        kernels={"torch_profiler": tables["kernels"]},
        config=Config(skip_first=0),
    )
    (row,) = rows(result, "by_device")
    found = [row[key] for key in row if key.endswith("_percent")]
    assert found == pytest.approx(OF_TENSORBOARD[name], abs=0.1)
