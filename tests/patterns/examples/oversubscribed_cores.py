"""Examples of `oversubscribed_cores`."""


def process(**columns):
    counts = {"cores": 4, "ranks_on_host": 2, "operator_threads": 8, "queued_ns": 900_000}
    counts |= {"start_ns": 0, "end_ns": 2_000_000, "involuntary_switches": 4}
    return {"rank": 0, "repeat": 0, "charged_ns": 300_000} | counts | columns


FOUND = {"processes": [process()]}
EXPECTED = ("cpu_operators", 300_000, "OMP_NUM_THREADS=2")
PASSED = {
    "a thread for each core": {"processes": [process(operator_threads=2)]},
    "cores are free": {"processes": [process(queued_ns=1_000)]},
    "operators do not wait": {"processes": [process(charged_ns=1_000)]},
}
