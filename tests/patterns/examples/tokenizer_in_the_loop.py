"""Examples of `tokenizer_in_the_loop`."""

from tests.patterns.recorded import causes, python

CALLED = "transformers/tokenization_utils_fast.py(500): _batch_encode_plus"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "dataset.map")
PASSED = {
    "text for JSON": {"python_calls": [python(0, 90_000, "json/encoder.py(183): encode")]},
    "a model": {"python_calls": [python(0, 90_000, "model.py(3): forward")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
