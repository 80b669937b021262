"""Examples of `idle_cores`."""

from tests.patterns.recorded import op

OPS = [op(0, "aten::mm", 300_000), op(1, "aten::add", 40_000), op(2, "Optimizer.step", 400_000)]
PREEMPTED = OPS[1] | {"charged_ns": 900_000}


def process(**columns):
    counts = {"cores": 8, "ranks_on_host": 2, "operator_threads": 1, "cpu_ns": 2_050_000}
    return {"rank": 0, "repeat": 0, "start_ns": 0, "end_ns": 2_000_000} | counts | columns


FOUND = {"cpu_ops": OPS, "processes": [process()]}
EXPECTED = ("cpu_operators", 225_000, "`torch.set_num_threads` to 4")
PASSED = {
    "a thread for each core": {**FOUND, "processes": [process(operator_threads=4)]},
    "a thread for each physical core": {**FOUND, "processes": [process(operator_threads=2)]},
    "other threads use the cores": {**FOUND, "processes": [process(cpu_ns=5_000_000)]},
    "other programs use the cores": {**FOUND, "processes": [process(queued_ns=300_000)]},
    "threads of the program use the cores": {
        **FOUND,
        "cpu_ops": [row | {"tid": tid} for tid in range(4) for row in OPS],
    },
    "short operators": {**FOUND, "cpu_ops": OPS[1:2] * 9},
    "one of them lost its core": {
        **FOUND,
        "cpu_ops": [*OPS[1:2] * 9, OPS[1] | {"charged_ns": 9e5}],
    },
    "nothing is known of the cores": {"cpu_ops": OPS},
}
