"""Examples of `too_few_workers`."""

from profkit.testing import span
from tests.patterns.recorded import op

NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

WAIT = op(0, NEXT, 90_000, kind="annotation")
FOUND = {"cpu_ops": [WAIT], "steps": [{"step": 4, **span(0, 1_000_000)}]}
EXPECTED = ("loading_data", 90_000, "Make their work per batch cheaper")
PASSED = {
    "no workers": {
        **FOUND,
        "cpu_ops": [op(0, NEXT.replace("MultiProcessing", "SingleProcess"), 90_000)],
    },
    "batches are ready": {**FOUND, "cpu_ops": [op(0, NEXT, 40_000)]},
    "the first batch of a recording without steps": {"cpu_ops": [WAIT]},
}
