"""Examples of `tokenizer_in_the_loop`."""

from tests.patterns.recorded import causes, op, python

CALLED = "transformers/tokenization_utils_fast.py(500): _batch_encode_plus"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "dataset.map")
ENCODER = [
    python(0, 90_000, "vae.py(57): encode"),
    python(10_000, 80_000, "torch/nn/modules/module.py(1779): _wrapped_call_impl"),
]
PASSED = {
    "an autoencoder": {**FOUND, "python_calls": ENCODER},
    "operators of one": {**FOUND, "python_calls": ENCODER[:1], "cpu_ops": [op(0, "aten::addmm")]},
    "the line of one": {"causes": causes(("python", 0.08, "vae.py(57): encode"))},
    "text for JSON": {"python_calls": [python(0, 90_000, "json/encoder.py(183): encode")]},
    "a model": {"python_calls": [python(0, 90_000, "model.py(3): forward")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
