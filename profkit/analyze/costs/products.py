"""Costs of operators that multiply matrices, which the FLOPs of a model are counted by.

Two operations per multiply-add, as in ``torch.utils.flop_counter``; adding a bias is free.
Attention is counted in full, masked or not, as that counter and most published MFU do. Bytes are
those of every input read once and every output written once, by each product.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

from profkit.analyze.costs.call import Call, Formula, UncountedError, Work

# c10::ScalarType, as _scaled_mm gets the type of its result.
_SCALAR_TYPE_BYTES = {5: 2, 6: 4, 15: 2}


def matmul(first: int, dims: int) -> Formula:
    """Return the costs of multiplying input `first` by the next, both of `dims` dimensions.

    With `first` 1, input 0 is added to the product.
    """

    def formula(call: Call) -> Work:
        left, right = call.shape(first, dims), call.shape(first + 1, dims)
        written = math.prod(left[:-1]) * right[-1] * call.item_bytes(first)
        added = call.size_bytes(0) if first else 0.0
        read = call.size_bytes(first) + call.size_bytes(first + 1) + added
        return Work(2.0 * math.prod(left) * right[-1], read + written)

    return formula


def scaled_matmul(call: Call) -> Work:
    """Return the costs of ``_scaled_mm``: products of 8 bit, whose type is an argument."""
    left, right = call.shape(0, 2), call.shape(1, 2)
    try:
        item = float(_SCALAR_TYPE_BYTES.get(call.value(6), call.item_bytes(0)))
    except UncountedError:
        item = math.nan
    read = call.size_bytes(0) + call.size_bytes(1)
    return Work(2.0 * math.prod(left) * right[1], read + left[0] * right[1] * item)


def linear(call: Call) -> Work:
    """Return the costs of ``linear(input, weight, bias)`` where no other operator does the work."""
    inputs, weight = call.shape(0), call.shape(1, 2)
    if not inputs or inputs[-1] != weight[1]:
        raise UncountedError
    written = math.prod(inputs[:-1]) * weight[0] * call.item_bytes(0)
    bias = call.size_bytes(2) if call.is_tensor(2) else 0.0
    read = call.size_bytes(0) + call.size_bytes(1) + bias
    return Work(2.0 * math.prod(inputs) * weight[0], read + written)


def vector(first: int) -> Formula:
    """Return the costs of a matrix times a vector, or of two vectors, from input `first` on."""

    def formula(call: Call) -> Work:
        left, right = call.shape(first), call.shape(first + 1, 1)
        if left[-1:] != right:
            raise UncountedError
        written = math.prod(left[:-1]) * call.item_bytes(first)
        read = call.size_bytes(first) + call.size_bytes(first + 1)
        return Work(2.0 * math.prod(left), read + written)

    return formula


def convolution(*, stride: int, transposed: int, groups: int) -> Formula:
    """Return the costs of a convolution with input 0 and weight 1; the rest are positions.

    `stride` is followed by padding and dilation; `transposed` is negative where it never is, and
    otherwise followed by output_padding.
    """

    def formula(call: Call) -> Work:
        batch, channels, *size = call.shape(0)
        weight = call.shape(1, len(size) + 2)
        out_channels = weight[0]
        spatial = math.prod(size)
        strides, padding, dilation = (
            call.numbers(position, len(size)) for position in range(stride, stride + 3)
        )
        if transposed >= 0 and call.value(transposed):
            extra = call.numbers(transposed + 1, len(size))
            out_channels = weight[1] * int(call.value(groups))
            out = [
                (size[i] - 1) * strides[i] - 2 * padding[i]
                + dilation[i] * (weight[i + 2] - 1) + extra[i] + 1
                for i in range(len(size))
            ]  # fmt: skip
        else:
            if channels != weight[1] * int(call.value(groups)):
                raise UncountedError
            out = [
                (size[i] + 2 * padding[i] - dilation[i] * (weight[i + 2] - 1) - 1) // strides[i] + 1
                for i in range(len(size))
            ]
            spatial = math.prod(out)
        written = batch * out_channels * math.prod(out) * call.item_bytes(0)
        bias = call.size_bytes(2) if call.is_tensor(2) else 0.0
        read = call.size_bytes(0) + call.size_bytes(1) + bias
        return Work(2.0 * batch * spatial * math.prod(weight), read + written)

    return formula


def convolution_backward(call: Call) -> Work:
    """Return the costs of ``convolution_backward``: one product for each gradient asked for."""
    gradient, inputs, weight = (call.shape(position) for position in range(3))
    # Gradients of input and weight; that of the bias is no product.
    wanted = sum(map(bool, call.numbers(10, 3)[:2]))
    # Each weight of the kernel is multiplied with each position of the smaller side once.
    spatial = math.prod((inputs if call.value(7) else gradient)[2:])
    product = 2.0 * gradient[0] * spatial * math.prod(weight)
    all_bytes = sum(call.size_bytes(position) for position in range(3))
    return Work(product * wanted, all_bytes * wanted)


def attention(first: int, *, heads: int, backward: bool = False) -> Formula:
    """Return the costs of attention whose query, key and value are the inputs from `first`.

    `heads` is the dimension of the heads, 1 or 2; the other of the two counts the positions.
    Forward multiplies twice: queries by keys, and the scores by the values. Backward multiplies
    four times, and once more to compute the scores again: that is recomputation. Between products
    nothing is written, as in every fused kernel.
    """

    def formula(call: Call) -> Work:
        query, key, value = (call.shape(first + i, 4) for i in range(3))
        queries, keys = query[3 - heads], key[3 - heads]
        scores = 2.0 * query[0] * query[heads] * queries * keys
        forward = scores * (query[3] + value[3])
        out = math.prod(query[:3]) * value[3] * call.item_bytes(first)
        sizes = [call.size_bytes(first + i) for i in range(3)]
        if not backward:
            return Work(forward, sum(sizes) + out)
        again = scores * query[3]
        # The gradient and the output are read, three gradients written.
        return Work(2 * forward + again, 2 * sum(sizes) + 2 * out, recomputed_flops=again)

    return formula


_CONVOLUTION = convolution(stride=3, transposed=6, groups=8)
_CONV_ND = convolution(stride=3, transposed=-1, groups=6)
_KINDS = (
    *("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu"),
    "fused_attention_overrideable",  # of XPUs and of backends outside of PyTorch
)

MATMULS: Mapping[str, Formula] = MappingProxyType(
    {
        "aten::mm": matmul(0, 2),
        "aten::addmm": matmul(1, 2),
        "aten::_addmm_activation": matmul(1, 2),
        "aten::bmm": matmul(0, 3),
        "aten::baddbmm": matmul(1, 3),
        "aten::mv": vector(0),
        "aten::addmv": vector(1),
        "aten::dot": vector(0),
        "aten::_scaled_mm": scaled_matmul,
        "aten::linear": linear,
        "aten::mkldnn_linear": linear,
    }
)
"""Products of matrices and vectors."""

CONVOLUTIONS: Mapping[str, Formula] = MappingProxyType(
    {
        "aten::convolution": _CONVOLUTION,
        "aten::_convolution": _CONVOLUTION,
        "aten::convolution_overrideable": _CONVOLUTION,
        "aten::conv1d": _CONV_ND,
        "aten::conv2d": _CONV_ND,
        "aten::conv3d": _CONV_ND,
        "aten::convolution_backward": convolution_backward,
    }
)
"""Convolutions, forward and backward."""

ATTENTIONS: Mapping[str, Formula] = MappingProxyType(
    {
        f"aten::_scaled_dot_product_{kind}{suffix}": attention(
            first, heads=1, backward=bool(suffix)
        )
        for kind in _KINDS
        for suffix, first in (("", 0), ("_backward", 1))
    }
    | {
        f"{space}{name}": attention(int(backward), heads=2, backward=backward)
        for space, name, backward in (
            ("aten::", "_flash_attention_forward", False),
            ("aten::", "_flash_attention_backward", True),
            ("aten::", "_efficient_attention_forward", False),
            ("aten::", "_efficient_attention_backward", True),
            ("flash_attn::", "_flash_attn_forward", False),
            ("flash_attn::", "_flash_attn_backward", True),
        )
    }
)
"""Fused attention; unfused attention is counted by its products."""
