"""Examples of `too_few_workers`."""

from tests.patterns.recorded import op

NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

FOUND = {"cpu_ops": [op(0, NEXT, 90_000, kind="annotation")]}
EXPECTED = ("loading_data", 90_000, "prefetch_factor")
PASSED = {
    "no workers": {"cpu_ops": [op(0, NEXT.replace("MultiProcessing", "SingleProcess"), 90_000)]},
    "batches are ready": {"cpu_ops": [op(0, NEXT, 900)]},
}
