"""Examples of `threads_at_a_lock`."""

from profkit.testing import span
from tests.patterns.recorded import causes

LOCK = "threading.py(1002): _bootstrap;serve.py(45): handle;<built-in function __enter__>"
QUEUE = "serve.py(9): work;queue.py(171): get;threading.py(327): wait;<built-in function acquire>"


def look(tid, time_ns, stack):
    row = span(time_ns, time_ns, tid=tid, time_ns=time_ns, cpu_ns=0, queued_ns=0, stack=stack)
    return {name: of for name, of in row.items() if name not in ("start_ns", "end_ns", "step")}


def looks(stack):
    return [look(tid, 1_000 * n, stack) for n in range(10) for tid in (2, 3, 4)]


FOUND = {
    "python_threads": looks(LOCK),
    "causes": causes(("cpu_operators", 0.3, ""), ("python", 0.7, ""), ("python.x", 0.6, "")),
    "processes": [],
}
# Of two cores, as their number is not known, in a step of 1 ms.
EXPECTED = ("python", 500_000, "3 threads wait at serve.py(45): handle while one works")
PASSED = {
    "a queue, as where no request comes": {**FOUND, "python_threads": looks(QUEUE)},
    "seldom": {**FOUND, "python_threads": [*looks(QUEUE), *looks(LOCK)[:6]]},
    "nothing known": {**FOUND, "python_threads": []},
}
