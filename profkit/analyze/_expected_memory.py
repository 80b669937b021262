"""Memory that a rank of a built-in program should hold, from its model and its sharding."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from profkit.core.errors import ProfkitError
from profkit.core.formatting import counted
from profkit.core.result import Abstention
from profkit.core.settings import checked
from profkit.workloads.models.base import ModelFamily
from profkit.workloads.runtime.request import Request
from profkit.workloads.train import Workload as Train

QUANTITIES = ("parameters", "gradients", "masters", "states", "activations")
_FP32_BYTES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """Expected bytes of each quantity on a rank, with the formulas behind them."""

    sizes_bytes: dict[str, float] = field(default_factory=dict)
    """By quantity; unknown ones are missing."""

    formulas: dict[str, str] = field(default_factory=dict)
    """How each of them is computed, in words."""

    states_per_tensor: int = 0
    """Tensors that the optimizer keeps for each tensor of parameters, one of which counts steps;
    0 where it counts none, or those of a flat tensor together."""

    missing: tuple[Abstention, ...] = ()
    """Unknown quantities, and why."""


def expected(behaviour: Mapping[str, Any], elements: int) -> Expected:
    """Return what the program of `behaviour` should hold on each rank.

    `elements` are the model's parameters as measured, for families without a formula.
    """
    name = dict(behaviour.get("workload") or {}).get("name", "")
    if name not in ("train", "infer"):
        return _unknown(f"the program ({name or 'not named'}) is not one of profkit's own")
    try:
        request = checked("", Request, dict(behaviour))
        family = request.family()
    except ProfkitError as error:
        return _unknown(f"the configuration cannot be read: {error}")
    count = family.parameter_count() or elements
    return _inferring(count) if name == "infer" else _training(request, family, count)


def _unknown(reason: str) -> Expected:
    return Expected(missing=(Abstention(what="the closed form of memory", reason=reason),))


def _inferring(count: int) -> Expected:
    return Expected(
        sizes_bytes={"parameters": float(count * _FP32_BYTES)},
        formulas={"parameters": f"{count:,} parameters of 4 bytes each"},
        missing=(_no_activations("inference saves nothing for a backward pass"),),
    )


def _training(request: Request, family: ModelFamily, count: int) -> Expected:
    zero, moments = request.sharding(), request.settings(Train).moments
    shares = zero.load().bytes_per_parameter(zero, request.world_size, request.precision, moments)
    per_parameter = {
        "parameters": shares.parameters,
        "gradients": shares.gradients,
        "masters": shares.masters,
        "states": shares.states,
    }
    sizes = {name: share * count for name, share in per_parameter.items()}
    formulas = {
        name: f"{count:,} parameters, {share:g} bytes of each on every rank"
        for name, share in per_parameter.items()
    }
    per_tensor = moments + 1 if moments and zero.backend == "torch" else 0
    saved, reason = _activations(request, family)
    if saved is None:
        return Expected(
            sizes_bytes=sizes,
            formulas=formulas,
            states_per_tensor=per_tensor,
            missing=(_no_activations(reason),),
        )
    return Expected(
        sizes_bytes=sizes | {"activations": float(saved)},
        formulas=formulas
        | {
            "activations": f"what autograd saves of {counted(request.batch, 'sample')}, run eagerly"
        },
        states_per_tensor=per_tensor,
    )


def _activations(request: Request, family: ModelFamily) -> tuple[int | None, str]:
    if request.compile != "none":
        return None, "compiled code decides itself what it saves and what it computes again"
    zero = request.sharding()
    computing = zero.load().compute_precision(zero, request.precision)
    how = {"fp32": "in fp32", "autocast": "under autocast", "half": "in 2 bytes throughout"}
    reason = f"no closed form is known of family {request.model.get('family')} {how[computing]}"
    return family.activation_bytes(request.batch, computing), reason


def _no_activations(reason: str) -> Abstention:
    return Abstention(what="the closed form of activations", reason=reason)
