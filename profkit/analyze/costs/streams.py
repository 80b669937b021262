"""Costs of operators that memory bounds: they do little with each element that they read.

FLOPs are conventions, for rooflines only, and never part of those of a model: one for each output
of an elementwise operator, whatever it computes, and for each input of a reduction; the others are
given below. Bytes are those of every input read once and every output written once.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from profkit.analyze.costs.call import Call, Formula, UncountedError, Work

_LISTED_ITEM_BYTES = 4
"""Bytes of an element in a list of tensors, whose type no trace holds: fp32, as optimizers have."""

_BOOLEAN = 1
_INDEX = 8


def elementwise(operations: int = 1, item: float = 0.0, *, inputs: int = 2) -> Formula:
    """Return the costs of an operator on tensors of shapes that broadcast.

    `operations` are those for each output; `item` is the size of one, that of the inputs if 0.
    A tensor beyond the `inputs` that it can have is the one that ``out=`` names: it is written.
    """

    def formula(call: Call) -> Work:
        tensors = call.tensors()[:inputs]
        # A tensor of no dimension does not decide the type of the result.
        typed = [position for position in tensors if call.shape(position)]
        if not typed:
            raise UncountedError
        elements = math.prod(_broadcast([call.shape(position) for position in tensors]))
        written = item or max(call.item_bytes(position) for position in typed)
        numbers = (call.item_bytes(position) for position in tensors if position not in typed)
        read = sum(call.size_bytes(position) for position in typed) + sum(numbers)
        return Work(float(operations * elements), read + elements * written)

    return formula


def _broadcast(shapes: Sequence[list[int]]) -> list[int]:
    most = max(map(len, shapes))
    padded = [[1] * (most - len(shape)) + shape for shape in shapes]
    found = []
    for sizes in zip(*padded, strict=True):
        distinct = set(sizes) - {1}
        if len(distinct) > 1:
            raise UncountedError
        found.append(distinct.pop() if distinct else 1)
    return found


def _copy(call: Call) -> Work:
    """Return the costs of ``copy_(to, from)``: no operation, one read, one write."""
    if not call.is_tensor(1):
        raise UncountedError
    written = call.elements(0)
    return Work(0.0, call.size_bytes(1) + written * call.item_bytes(0))


def _fill(call: Call) -> Work:
    return Work(0.0, call.size_bytes(0))


def reduction(item: float = 0.0) -> Formula:
    """Return the costs of a reduction of input 0 over the dimensions in input 1, or over all."""

    def formula(call: Call) -> Work:
        elements = call.elements(0)
        written = math.prod(_kept(call.shape(0), call)) * (item or call.item_bytes(0))
        return Work(float(elements), call.size_bytes(0) + written)

    return formula


def _kept(shape: list[int], call: Call) -> list[int]:
    """Return the dimensions that a reduction leaves."""
    reduced = _dimensions(call)
    dims = {dim % len(shape) for dim in reduced} if shape else set()
    return [size for position, size in enumerate(shape) if dims and position not in dims]


def _dimensions(call: Call) -> list[int]:
    """Return the first list of dimensions, or the first number, among the values."""
    values: list[Any] = []
    for position in range(1, len(call.values)):
        try:
            values.append(call.value(position))
        except UncountedError:
            continue
    lists = [value for value in values if isinstance(value, list)]
    if lists:
        return [int(dim) for dim in lists[0]]
    return [int(dim) for dim in values[:1] if type(dim) is int]


def softmax(call: Call) -> Work:
    """Return the costs of five operations: largest, difference, exponential, sum and quotient."""
    elements = call.elements(0)
    return Work(5.0 * elements, 2 * call.size_bytes(0))


def _softmax_backward(call: Call) -> Work:
    """Return the costs of four operations: product with the output, sum, difference, product."""
    elements = call.elements(0)
    return Work(4.0 * elements, call.size_bytes(0) * 2 + call.size_bytes(1))


def normalisation(affine: int) -> Formula:
    """Return the costs of normalising input 0, with weight and bias from position `affine` on.

    Five operations for each element: mean, difference, its square, their sum and a product; one
    more each for weight and bias.
    """

    def formula(call: Call) -> Work:
        given = [position for position in (affine, affine + 1) if call.is_tensor(position)]
        read = call.size_bytes(0) + sum(call.size_bytes(position) for position in given)
        return Work(call.elements(0) * (5.0 + len(given)), read + call.size_bytes(0))

    return formula


def _normalisation_backward(call: Call) -> Work:
    """Return the costs of a backward pass: twice the operations of the forward, two inputs."""
    if call.shape(0) != call.shape(1):
        raise UncountedError
    return Work(14.0 * call.elements(0), 2 * call.size_bytes(0) + call.size_bytes(1))


def embedding(indices: int, pooled: bool = False) -> Formula:
    """Return the costs of reading rows of input 0 at the input `indices`, summed if `pooled`."""

    def formula(call: Call) -> Work:
        rows = call.elements(indices)
        row = math.prod(call.shape(0)[1:])
        bags = call.elements(indices + 1) if pooled else rows
        moved = (rows + bags) * row * call.item_bytes(0)
        return Work(float(pooled * rows * row), moved + call.size_bytes(indices))

    return formula


def _embedding_backward(call: Call) -> Work:
    """Return the costs of ``embedding_dense_backward(gradient, indices, rows)``.

    The whole table is written.
    """
    table = int(call.value(2)) * call.shape(0)[-1] * call.item_bytes(0)
    return Work(float(call.elements(0)), call.size_bytes(0) + call.size_bytes(1) + table)


def foreach(operations: int = 1, *, writes: bool = True) -> Formula:
    """Return the costs of ``_foreach_*``: lists of tensors, the result as large as the first."""

    def formula(call: Call) -> Work:
        first = _first(call)
        others = range(1, len(call.shapes))
        lists = [0, *(position for position in others if _is_list(call, position))]
        moved = sum(sum(call.listed(position)) for position in lists) + writes * first
        return Work(float(operations * first), float(moved * _LISTED_ITEM_BYTES))

    return formula


def _first(call: Call) -> int:
    """Return the elements of all tensors in the first list, whose shapes must be known."""
    counts = call.listed(0)
    if not any(call.shapes[0]):
        raise UncountedError
    return sum(counts)


def _is_list(call: Call, position: int) -> bool:
    shape = call.shapes[position]
    return isinstance(shape, list) and bool(shape) and isinstance(shape[0], list)


def optimizer(operations: int, written: Sequence[int]) -> Formula:
    """Return the costs of a fused step on parameters, input 0, and the lists that follow.

    `operations` are those for each parameter; lists at the positions `written` are written, too.
    """

    def formula(call: Call) -> Work:
        parameters = _first(call)
        lists = [position for position in range(len(call.shapes)) if _is_list(call, position)]
        again = [position for position in written if position in lists]
        moved = sum(sum(call.listed(position)) for position in (*lists, *again))
        return Work(float(operations * parameters), float(moved * _LISTED_ITEM_BYTES))

    return formula


def _named(names: str, formula: Formula) -> dict[str, Formula]:
    """Return operators by name, each also in place."""
    return {f"aten::{name}{end}": formula for name in names.split() for end in ("", "_")}


ELEMENTWISE: Mapping[str, Formula] = MappingProxyType(
    _named(
        "neg abs sqrt rsqrt exp log log1p sin cos tanh sigmoid silu gelu relu hardtanh leaky_relu "
        "elu softplus reciprocal square floor ceil round sign erf bitwise_not cumsum tril triu "
        "threshold",
        elementwise(inputs=1),
    )
    | _named(
        "add sub rsub mul div pow clamp_min clamp_max maximum minimum fmod remainder atan2 "
        "bitwise_and bitwise_or sigmoid_backward tanh_backward silu_backward gelu_backward "
        "threshold_backward hardtanh_backward leaky_relu_backward",
        elementwise(),
    )
    | _named("clamp where masked_fill mse_loss_backward", elementwise(inputs=3))
    | _named("binary_cross_entropy_with_logits", elementwise(inputs=4))
    | _named("addcmul addcdiv lerp", elementwise(3, inputs=3))
    | _named("eq ne lt le gt ge logical_and logical_or", elementwise(item=_BOOLEAN))
    | _named("logical_not isnan isinf", elementwise(item=_BOOLEAN, inputs=1))
    | {"aten::copy_": _copy, "aten::fill_": _fill, "aten::zero_": _fill}
)
"""Operators on elements, copies and sets."""

REDUCTIONS: Mapping[str, Formula] = MappingProxyType(
    _named("sum mean prod amax amin max min logsumexp linalg_vector_norm norm var std nansum",
           reduction())
    | _named("argmax argmin", reduction(_INDEX))
    | _named("all any", reduction(_BOOLEAN))
)  # fmt: skip
"""Reductions over some or all dimensions."""

SOFTMAXES: Mapping[str, Formula] = MappingProxyType(
    _named("_softmax _log_softmax", softmax)
    | _named("_softmax_backward_data _log_softmax_backward_data", _softmax_backward)
)
"""Softmax and its logarithm."""

NORMALISATIONS: Mapping[str, Formula] = MappingProxyType(
    _named("native_layer_norm _fused_rms_norm rms_norm", normalisation(2))
    | _named("native_batch_norm cudnn_batch_norm miopen_batch_norm native_group_norm "
             "_native_batch_norm_legit _batch_norm_with_update", normalisation(1))
    | _named("native_layer_norm_backward native_batch_norm_backward cudnn_batch_norm_backward "
             "miopen_batch_norm_backward native_group_norm_backward batch_norm_backward "
             "_fused_rms_norm_backward", _normalisation_backward)
)  # fmt: skip
"""Normalisation by batch, layer, group and root mean square."""

EMBEDDINGS: Mapping[str, Formula] = MappingProxyType(
    {
        "aten::embedding": embedding(1),
        "aten::index_select": embedding(2),
        "aten::_embedding_bag": embedding(1, pooled=True),
        "aten::_embedding_bag_forward_only": embedding(1, pooled=True),
        "aten::embedding_dense_backward": _embedding_backward,
    }
)
"""Rows of tables."""

OPTIMIZERS: Mapping[str, Formula] = MappingProxyType(
    _named("_fused_adam", optimizer(13, (0, 2, 3, 4)))
    | _named("_fused_adamw", optimizer(14, (0, 2, 3, 4)))
    | _named("_fused_sgd", optimizer(4, (0, 2)))
    | _named("_fused_adagrad", optimizer(7, (0, 2)))
    | _named("_foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_sqrt _foreach_neg "
             "_foreach_pow _foreach_maximum _foreach_reciprocal _foreach_abs _foreach_exp",
             foreach())
    | _named("_foreach_addcmul _foreach_addcdiv _foreach_lerp", foreach(3))
    | _named("_foreach_norm", foreach(2, writes=False))
)  # fmt: skip
"""Steps of optimizers, fused or on lists of tensors."""
