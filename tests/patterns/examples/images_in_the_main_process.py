"""Examples of `images_in_the_main_process`."""

from tests.patterns.recorded import causes, python

CALLED = "transformers/image_transforms.py(390): normalize"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "`num_workers` of the DataLoader).")
PASSED = {
    "a model": {"python_calls": [python(0, 90_000, "model.py(3): forward")]},
    "a layer made of them": {
        "python_calls": [
            python(0, 90_000, "torch/autograd/function.py(596): apply"),
            python(5_000, 85_000, "scipy/ndimage/_filters.py(422): gaussian_filter"),
        ],
        "causes": causes(("gpu_idle", 0.08, "")),
    },
    "images that are saved": {
        "python_calls": [
            python(0, 90_000, "torchvision/utils.py(281): save_image"),
            python(5_000, 85_000, "PIL/Image.py(2600): save"),
        ],
        "causes": causes(("gpu_idle", 0.08, "")),
    },
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
