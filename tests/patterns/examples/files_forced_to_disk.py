"""Examples of `files_forced_to_disk`."""

from tests.patterns.recorded import causes, python

CALLS = [
    python(0, 90_000, "train.py(7): note") | {"call": 0, "charged_ns": 10_000},
    python(5_000, 85_000, "<built-in function fsync>")
    | {"call": 1, "caller": 0, "charged_ns": 80_000},
]
FOUND = {"python_calls": CALLS, "causes": causes(("python", 0.09, ""))}
EXPECTED = ("python", 80_000, "os.fsync")
PASSED = {
    "written, and not forced": {
        **FOUND,
        "python_calls": [CALLS[0], {**CALLS[1], "name": "<built-in function write>"}],
    },
}
