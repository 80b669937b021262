"""Examples of `frozen_layers`."""

from tests.patterns.recorded import op

FROZEN = [
    op(1, "aten::conv2d", 400_000, input_shapes="[[8,3,32,32],[64,3,3,3],[64]]"),
    op(2, "aten::relu_", 50_000),
    op(3, "aten::conv2d", 400_000, input_shapes="[[8,64,32,32],[64,64,3,3],[64]]"),
]
HEAD = [
    op(4, "aten::linear", 0, input_shapes="[[8,64],[10,64],[10]]"),
    op(5, "aten::addmm", 5_000, parent=4),
    op(6, "AddmmBackward0", 5_000, forward=5, phase="backward"),
    op(7, "torch::autograd::AccumulateGrad", input_shapes="[[10,64]]"),
]
OPTIMIZER = op(8, "Optimizer.step#SGD.step") | {"kind": "annotation", "end_ns": 2_000_000}

LOADING = op(8, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
LOADING |= {"kind": "annotation", "end_ns": 2_000_000}

FOUND = {"cpu_ops": [*FROZEN, *HEAD]}
EXPECTED = ("cpu_operators.aten::conv2d", 850_000, "2 layers per step get no gradient")
PASSED = {
    "inference": {"cpu_ops": FROZEN},
    "an average of the model that is trained": {
        "cpu_ops": [
            *(row | {"input_shapes": "[[8,64],[10,64],[10]]"} for row in FROZEN),
            *HEAD,
        ]
    },
    "layers whose gradients are linked to nothing": {
        "cpu_ops": [
            *FOUND["cpu_ops"],
            op(9, "torch::autograd::AccumulateGrad", input_shapes="[[64,3,3,3]]"),
            op(10, "torch::autograd::AccumulateGrad", input_shapes="[[64,64,3,3]]"),
        ]
    },
    "shapes that are not known": {
        "cpu_ops": [*(row | {"input_shapes": ""} for row in FROZEN), *HEAD]
    },
    "little of a step": {"cpu_ops": [row | {"charged_ns": 1} for row in FROZEN] + HEAD},
    "what an optimizer does": {
        "cpu_ops": [OPTIMIZER, *(row | {"parent": 8} for row in FROZEN), *HEAD]
    },
    "what blurs the images of a batch": {
        "cpu_ops": [LOADING, *(row | {"parent": 8} for row in FROZEN), *HEAD]
    },
}
