"""Examples of `objects_sent`."""

from profkit.testing import span
from tests.patterns.recorded import causes, collective, op, python

SENDS = "torch/distributed/distributed_c10d.py(4194): all_gather_object"
FOUND = {
    "python_calls": [
        python(0, 80_000, "train.py(9): main"),
        python(10_000, 50_000, SENDS) | {"charged_ns": 20_000},
    ],
    # Ten times as long as the last, which is of gradients.
    "collectives": [
        collective(1, "allgather") | span(20_000, 40_000),
        collective(2, "allreduce") | span(60_000, 62_000),
    ],
    "cpu_ops": [op(0, "aten::mm")],
    "causes": causes(("exposed_communication", 0.044, "")),
}
EXPECTED = ("exposed_communication", 20_000 + 40_000, "Send tensors instead of objects")
PASSED = {
    "tensors": {
        **FOUND,
        "python_calls": [python(0, 9_000, "torch/distributed/distributed_c10d.py(9): all_gather")],
    }
}
