"""Work beside the model: functions of the program outside of forward, backward and optimizer."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import IS_UPDATE, of_parameters
from profkit.patterns._parameter_loops import advice as loop_advice
from profkit.patterns._python_calls import (
    MODEL,
    calls_of,
    contained,
    functions,
    least_ns,
    long_lasting,
    outermost,
    spent_on_cpu,
)
from profkit.patterns._rows import Chosen, called, equal, having, inside, trains, within
from profkit.patterns._shapes import MATMULS
from profkit.patterns.base import CHARGED, Match, Step, charged, pattern
from profkit.tables.frame_files import imported_library
from profkit.tables.python_frames import called_functions

_TRAINING = rf"{MODEL}|torch/optim/|torch/utils/data/|torch/nn/utils/"
_STEPS = r"torch/optim/(?!optimizer\.py)\w+\.py\(\d+\): step$"
"""What calls no code of the program but a closure: its own optimizers are called otherwise."""
_MANY, _SHORT_NS = 200, 50_000
"""Operators of a loop, and how long it takes for each of them, with Python between them."""
_LOOP = 20
"""Operators in a loop over parameters: fewer are no matter."""
_OF_UPDATE, _MUCH, _MOSTLY, _ALMOST_ALL = 0.05, 0.25, 0.5, 0.95
_FOR_MANY = "in a loop: call few on whole batches, with a further dimension or `torch.vmap`."
_OF_LISTS = (
    "that make tensors of lists or numbers: collect these in one array, and make one tensor of it."
)
_MAKING = r"^aten::(?:lift_fresh|detach_|to|empty)$"
"""Operators of ``torch.tensor``."""
_SELDOM = "Make this cheaper, or do it less often if not each step needs it"
_ONCE = "Make this cheaper, or do it once for all requests where it is the same for each"
_BEST = "Take the best few alone, by `torch.topk`, unless all are needed in order"
_KEEP = "Keep the data in one array that is made once and written in place, and index its rows"
_JOINING = ("array", "asarray", "concatenate", "hstack", "stack", "vstack")
_INSTEAD = {
    "json": "Pass arrays as bytes, or through a faster library for JSON",
    "sort": _BEST,
    "argsort": _BEST,
    "randperm": "Draw as many indices as are needed by `torch.randint`, or permute once per epoch",
    "multinomial": "Draw for many steps at once, with `replacement=True` where rows may repeat",
    **dict.fromkeys(_JOINING, _KEEP),
}
"""What to do about packages and functions of Python that are slow, by their names."""
_OF_TRAINING = ("torch.optim.", "torch.nn.modules.", "torch.autograd.")
"""What is no work beside the model: samples of one line may be placed within another."""
_OF_SERVERS = frozenset({"http", "socketserver", "socket", "asyncio", "selectors", "ssl"})
"""Packages that a server waits in for those whom it answers."""
_BEST_OF = r"^aten::(?:topk|argmax)$"
_PHASES = r"^(?:forward|backward|Optimizer\.step#.*)$"


@pattern(
    title="Work beside the model",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    calls=_TRAINING,
    without_gpu=True,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Iterator[Match]:
    """Find functions, and lines of the loop, that take time and call no part of the model.

    What gradients are computed of, such as a loss, is part of it unless it is many operators. So is
    what calls all of backward, as by `torch.autograd.grad`.
    """
    model = _model(python_calls, cpu_ops)
    if having(causes, "^gpu_", "id").any() or model.empty:
        return
    keys = _keys(python_calls, model)
    lines = {*keys}
    in_backward = equal(cpu_ops, "phase", "backward")
    # What is sampled seldom may reach into the model, whose phases are known.
    called_by_program = called(cpu_ops) & ~in_backward & ~within(cpu_ops, model)
    said = set()
    for calls in long_lasting(python_calls, keys, step):
        spent = spent_on_cpu(python_calls, calls, cpu_ops, causes)
        # Functions that call one another have the line with most of their time in common.
        if spent.place in said or spent.gain_ns < least_ns(step):
            continue
        said.add(spent.place)
        if imported_library(spent.place):  # is not the program's to change
            continue
        lie_inside = within(cpu_ops, python_calls[calls]) & equal(cpu_ops, "kind", "operator")
        backward_ns = charged(cpu_ops, in_backward)
        if 0 < _ALMOST_ALL * backward_ns < charged(cpu_ops, lie_inside & in_backward):
            continue
        chosen = lie_inside & called_by_program
        # Other lines of a function that calls the model are none of this.
        at_place = calls if spent.place in lines else calls_of(python_calls, spent.place)
        most = _mostly_in(python_calls, at_place)
        if most.partition(".")[0] in _OF_SERVERS or _is_answer(cpu_ops, chosen, most):
            continue
        there = int(within(cpu_ops[chosen], python_calls[at_place]).sum())
        count = round(there / step.count)
        are_many = count >= _MANY and spent.gain_ns < _SHORT_NS * there
        if _has_gradients(cpu_ops, lie_inside) and not are_many:
            continue
        is_update = count >= _LOOP and _are_mostly(chosen, of_parameters(cpu_ops))
        # A function that goes through the values of parameters may do something else with them.
        is_update &= charged(cpu_ops, chosen) > _OF_UPDATE * spent.gain_ns
        share = 1.0 if are_many or is_update else _replaced(python_calls, calls, most)
        yield Match(
            cause=spent.cause,
            advice=f"{spent.place} calls {count:,} operators per step, {are_many * 'short ones '}"
            f"{loop_advice(cpu_ops, chosen) if is_update else _for_many(cpu_ops, chosen)}"
            if are_many or is_update
            else f"{_cheaper(most, trains(cpu_ops))}: {spent.place} runs outside of the calls of "
            f"modules, backward and optimizer{most and f', mostly in `{most}`'}.",
            gain_ns=spent.gain_ns * share,
            place=spent.place,
            confidence=Confidence.MEDIUM if is_update else Confidence.LOW,
            also={cause: part * share for cause, part in spent.also.items()},
            evidence={
                "calls_per_step": round(int(calls.sum()) / step.count, 1),
                **(IS_UPDATE if is_update else {}),
            },
        )


def _mostly_in(python_calls: pd.DataFrame, at_place: Chosen) -> str:
    """Return what the program calls at a place that has most of the time there, "" for none.

    That is a function, or else the package of several.
    """
    inside = within(python_calls, python_calls[at_place])
    called = called_functions(python_calls)[inside]
    # Parts of lines that have no name are the program's own.
    names = [str(name) if "<" not in str(name) else "" for name in called]
    packages = [name.partition(".")[0] if "." in name else "" for name in names]
    for of_calls in (called, np.array(packages, dtype=object)):
        time_ns = python_calls[CHARGED][inside].groupby(of_calls).sum()
        most = str(time_ns.idxmax())
        is_named = time_ns[most] > _MOSTLY * time_ns.sum() and "<" not in most
        if is_named and most != "torch" and not most.startswith(_OF_TRAINING):
            return most
    return ""


def _is_answer(cpu_ops: pd.DataFrame, chosen: Chosen, most: str) -> bool:
    """Tell whether work is a search with what the model gave: the best of products with it."""
    if most or trains(cpu_ops) or not (chosen & having(cpu_ops, _BEST_OF)).any():
        return False
    searched = chosen & having(cpu_ops, rf"{MATMULS}|{_BEST_OF}")
    return charged(cpu_ops, searched) > _MOSTLY * charged(cpu_ops, chosen)


def _cheaper(most: str, is_training: bool) -> str:
    """Return what to do where the program calls `most` most of the time."""
    return _instead(most) or (_SELDOM if is_training else _ONCE)


def _instead(most: str) -> str:
    """Return what to do instead of `most`, "" if that is not known."""
    named = (most.partition(".")[0], most.rpartition(".")[-1])
    return next((_INSTEAD[name] for name in named if name in _INSTEAD), "")


def _replaced(python_calls: pd.DataFrame, calls: Chosen, most: str) -> float:
    """Return the share of the time of `calls` that is gained: of `most` where that is replaced."""
    if not _instead(most):
        return 1.0
    inside = within(python_calls, python_calls[calls])
    time_ns = python_calls[CHARGED][inside]
    names = called_functions(python_calls)[inside].astype(str)
    are_most = (names == most) | np.char.startswith(names, f"{most}.")
    return float(time_ns[are_most].sum() / max(time_ns.sum(), 1))


def _for_many(cpu_ops: pd.DataFrame, chosen: Chosen) -> str:
    """Return what the many operators do that are `chosen`, and what to do instead."""
    return _OF_LISTS if _are_mostly(chosen, having(cpu_ops, _MAKING)) else _FOR_MANY


def _are_mostly(chosen: Chosen, of_kind: Chosen) -> bool:
    return bool((chosen & of_kind).sum() > _MOSTLY * chosen.sum())


def _has_gradients(cpu_ops: pd.DataFrame, chosen: Chosen) -> bool:
    """Tell whether most of the time of `chosen` is in operators whose gradients are computed."""
    forward = cpu_ops.loc[cpu_ops["forward"] >= 0, "forward"]
    differentiated = inside(cpu_ops, cpu_ops["op"].isin(forward).to_numpy(dtype=np.bool_))
    return charged(cpu_ops, chosen & differentiated) > charged(cpu_ops, chosen) / 2


def _model(python_calls: pd.DataFrame, cpu_ops: pd.DataFrame) -> pd.DataFrame:
    """Return when the model ran: calls of its parts, and phases, which few samples may lie in."""
    closures = _in_steps(python_calls) & (functions(python_calls) != "")
    # Trainers call the model from within the optimizer's step, and the program's hooks with it.
    begins = python_calls["start_ns"][having(python_calls, MODEL) | closures]
    calls_model = having(python_calls, "torch/optim/") & (contained(python_calls, begins) > 0)
    calls = python_calls[outermost(python_calls, having(python_calls, _TRAINING) & ~calls_model)]
    in_phases = having(cpu_ops, _PHASES) & equal(cpu_ops, "kind", "annotation")
    phases = cpu_ops[in_phases & (contained(cpu_ops, begins) == 0)]
    columns = ["tid", "start_ns", "end_ns"]
    made: pd.DataFrame = pd.concat([calls[columns], phases[columns]], ignore_index=True)
    return made


def _in_steps(python_calls: pd.DataFrame) -> Chosen:
    """Choose the calls that optimizers make in their steps, such as closures.

    All frames of one sample last equally long: the numbers of calls tell callers from called.
    """
    steps = python_calls[having(python_calls, _STEPS)].sort_values("start_ns", kind="stable")
    inside = within(python_calls, steps)
    if not inside.any():
        return inside
    start, call = (python_calls[name].to_numpy(np.int64) for name in ("start_ns", "call"))
    begun, maker = (steps[name].to_numpy(np.int64) for name in ("start_ns", "call"))
    latest = np.searchsorted(begun, start, "right") - 1
    later = (start > begun[latest]) | (call > maker[latest])
    return np.asarray(inside & later & (latest >= 0), dtype=np.bool_)


def _keys(python_calls: pd.DataFrame, model: pd.DataFrame) -> NDArray[np.object_]:
    """Return for each call of a function of the program what it counts under, "" for no function.

    That is the function; where that calls the model it is the line, of which only samples know.
    """
    names = python_calls["name"].astype(object).to_numpy()
    own = functions(python_calls)
    calls_model = contained(python_calls, model["start_ns"]) > 0
    counted = (own != "") & ~within(python_calls, model)
    loops = np.isin(own, np.unique(own[calls_model & counted]))
    calling = [
        name
        for name in np.unique(names[calls_model & counted])
        if _calls_model(model, python_calls[names == name])
    ]
    lines = np.isin(names, np.array(calling, dtype=object))
    return np.where(counted & ~lines, np.where(loops, names, own), "")


def _calls_model(model: pd.DataFrame, line: pd.DataFrame) -> bool:
    """Tell whether much of the time of a line is the model's, which may begin behind it as well.

    A line that was sampled lasts until the next sample. Only the traced time counts: outside of it
    nothing is known of the model.
    """
    traced = model["start_ns"].min(), model["end_ns"].max()
    time_ns = [
        float((rows["end_ns"].clip(*traced) - rows["start_ns"].clip(*traced)).sum())
        for rows in (model[within(model, line)], line)
    ]
    return time_ns[0] > _MUCH * time_ns[1]
