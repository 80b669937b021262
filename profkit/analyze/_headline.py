"""The headline of a verdict: at most 15 words, the milliseconds of a step first."""

from collections.abc import Mapping, Sequence

from profkit.analyze._cause_advice import operator_on_cpu
from profkit.analyze._late_advice import late_part
from profkit.analyze._uneven_steps import SLOW_STEPS
from profkit.analyze.division import cpu, gpu, names
from profkit.analyze.division.cpu_threads import BLOCKED, NOT_RECORDED, PYTHON, START_UP
from profkit.analyze.division.details import AT_PLACE, COVERS, IN_COMMUNICATION, LINE, OTHER
from profkit.analyze.division.phases import inside
from profkit.analyze.division.thread_waits import IN_CALL, WAITING
from profkit.core.formatting import milliseconds, without_arguments
from profkit.core.verdict import TIME_SHARE, Action, Cause, Limiter

_SHORT = "CPU operators"
"""What operators on the CPU are called where a line is named as well."""
_ROOTS = (gpu.IDLE, gpu.EXPOSED, "exposed_copies", WAITING)
_MANY_WORDS = 15
_MOST = 0.6
_MUCH_OF_TIME = 0.4
_MUCH_IDLE = 0.2
_COVERING, _LITTLE_IDLE = 0.9, 0.25
_OF_ONE_KIND = 0.1
"""Part of computing from which on an operator is named."""

_TELLING = 0.2
"""Part of the time from which on start-up is what there is to say."""

PER_STEP, PER_TRACED_STEP, RECORDED = "per step", "per traced step", "recorded"


def headline(limiter: Limiter, causes: Sequence[Cause], step_ms: float, per: str) -> str:
    """Return the sentence that a reader should leave with; `per` says what `step_ms` is of."""
    whole = f"of {milliseconds(step_ms)} ms {per}"
    top = _largest(causes, limiter)
    if limiter is Limiter.UNSTABLE:
        steps = "traced steps" if per == PER_TRACED_STEP else "steps"
        text = f"Unstable: {steps} of {milliseconds(step_ms)} ms vary. Rerun on an idle machine."
    elif top is None or (START_UP in top.id and top.ms_per_step < _TELLING * step_ms):
        of_what = "" if per == RECORDED else f" {per}"
        time = f"{milliseconds(step_ms)} ms{of_what}"
        known = _known(causes, step_ms)
        text = (
            f"Not enough recorded: of {time} {milliseconds(known.ms_per_step)} ms are "
            f"{'in ' if BLOCKED in known.id.split('.') else ''}{names.lower(known.title)}."
            if known
            else f"Not enough recorded to say what limits {time}."
        )
    elif limiter is Limiter.STRAGGLER:
        text = f"Waiting {milliseconds(top.ms_per_step)} {whole}{late_part(top)}."
    elif START_UP in top.id:
        text = f"One-off start-up {milliseconds(top.ms_per_step)} {whole}: no steady step."
    else:
        unknown = "Not enough recorded: " if limiter is Limiter.UNKNOWN else ""
        text = f"{unknown}{_sentence(top, causes, whole)}"
    return _short(text)


def of_time_outside(actions: Sequence[Action], step_ms: float) -> tuple[Limiter | None, str]:
    """Return the sentence of the first action beside the steps, and the limiter that it is."""
    if not actions:
        return None, ""
    first = actions[0]
    time = milliseconds(first.gain_ms)
    if slow := first.evidence.get(SLOW_STEPS):
        share = float(first.evidence[TIME_SHARE])
        return Limiter.UNKNOWN, f"{share:.0%} of the time is in {slow} steps, none of them traced."
    is_mostly = float(first.evidence.get("call_share", 0.0)) >= _MOST
    where = f", mostly in {first.evidence['call']}" if is_mostly else ""
    text = f"Between steps {time} ms pass for each step of {milliseconds(step_ms)} ms{where}."
    return Limiter.OUTSIDE, text


def of_some_steps(actions: Sequence[Action], limiter: Limiter, *, is_typical: bool) -> str:
    """Return the sentence on an action in some steps that is the limiter, "" if none is.

    Where the limiter `is_typical`, that of the other steps too, only of a first action that gains
    much of the time.
    """
    of_limiter = (one for one in actions if names.limiter(one.cause) is limiter)
    found = next((one for one in of_limiter if one.in_steps), None)
    if found is None:
        return ""
    share = float(found.evidence[TIME_SHARE])
    if is_typical and (found is not actions[0] or share < _MUCH_OF_TIME):
        return ""
    return _short(f"{share:.0%} of the time: {found.title}.")


def _short(text: str) -> str:
    """Return a sentence of at most 15 words: one with more loses its last part."""
    if len(text.split()) > _MANY_WORDS and (cut := max(text.rfind(", "), text.rfind(": "))) > 0:
        text = f"{text[:cut]}."
    return " ".join(text.split()[:_MANY_WORDS])


def _sentence(top: Cause, causes: Sequence[Cause], whole: str) -> str:
    by_id = {cause.id: cause for cause in causes}
    time = milliseconds(top.ms_per_step)
    if top.id == NOT_RECORDED:
        return _unknown(top, whole)
    if top.id.startswith(gpu.IDLE):
        return _of_idle(top, causes, by_id, whole)
    if top.id == IN_CALL and top.evidence.get("call"):
        return f"Waiting in {top.evidence['call']} {time} {whole}{_where(top)}."
    if top.id.startswith(gpu.EXPOSED):
        parts = [cause for cause in causes if cause.id.startswith(f"{gpu.EXPOSED}.")]
        most = max(parts, key=lambda cause: cause.ms_per_step, default=top)
        exposed = milliseconds(by_id[gpu.EXPOSED].ms_per_step)
        part = f"{milliseconds(most.ms_per_step)} ms {names.lower(most.title)}"
        return f"Exposed communication {exposed} {whole}: {part}."
    if top.id in (gpu.COMPUTING, cpu.COMPUTING, "python"):
        mostly = _mostly(causes, top)
        title = _SHORT if top.id == cpu.COMPUTING and ".py(" in mostly else names.title(top.id)
        return f"{title} {time} {whole}{mostly}."
    blocked = "CPU blocked in " if top.id.startswith(f"{BLOCKED}.") else ""
    return f"{blocked}{top.title} {time} {whole}{_where(top)}."


def _of_idle(top: Cause, causes: Sequence[Cause], by_id: Mapping[str, Cause], whole: str) -> str:
    """Return why the GPU waits for the CPU; one that is hardly idle may keep up with it."""
    if top.id == f"{gpu.IDLE}.{PYTHON}" and _keeps_up(by_id):
        computing = milliseconds(by_id[gpu.COMPUTING].ms_per_step)
        return f"launching throughout, GPU computing {computing} {whole}."
    idle = f"{_idle(causes)} {milliseconds(by_id[gpu.IDLE].ms_per_step)}"
    return f"{idle} {whole}: {_because(top)}."


def _keeps_up(by_id: Mapping[str, Cause]) -> bool:
    """Tell whether a GPU that is hardly idle only computes what the CPU launches meanwhile."""
    computing = by_id.get(gpu.COMPUTING)
    covers = float(computing.evidence.get(COVERS, 0.0)) if computing else 0.0
    return covers >= _COVERING and by_id[gpu.IDLE].share < _LITTLE_IDLE


def _unknown(top: Cause, whole: str) -> str:
    """Return how much is not known, and in which range of the program most of it is."""
    time = milliseconds(top.ms_per_step)
    if not top.place:
        return f"what ran in {time} {whole.removesuffix(f' {RECORDED}')} is not known."
    there = milliseconds(top.ms_per_step * float(top.evidence[AT_PLACE]))
    return f"{time} {whole} not known, {there} in {top.place}."


def _idle(causes: Sequence[Cause]) -> str:
    """Return what a GPU does that has nothing to compute, as the CPU is behind."""
    idle_ms = sum(cause.ms_per_step for cause in causes if cause.id == gpu.IDLE)
    hidden_ms = sum(
        cause.ms_per_step * float(cause.evidence.get(IN_COMMUNICATION, 0.0)) for cause in causes
    )
    return "GPU idle or communicating" if hidden_ms > _MUCH_IDLE * idle_ms else "GPU idle"


def _where(cause: Cause) -> str:
    return f": {cause.place}" if cause.place else ""


def _largest(causes: Sequence[Cause], limiter: Limiter) -> Cause | None:
    """Return the largest part of the partition that has this limiter, calls each by itself."""
    divided = [
        cause
        for cause in causes
        if names.limiter(cause.id) is limiter and not cause.id.endswith(_ROOTS)
    ]
    top = max(divided, key=lambda cause: (cause.ms_per_step, -cause.id.count(".")), default=None)
    if top is None or top.id.rpartition(".")[2] not in (BLOCKED, START_UP):
        return top
    calls = [cause for cause in divided if cause.id.startswith(f"{top.id}.")]
    if not calls:  # such as the first communication, in which no call blocks
        return top
    first = max(calls, key=lambda cause: cause.ms_per_step)
    is_one = top.id.endswith(BLOCKED) and first.ms_per_step > _MOST * top.ms_per_step
    return first if is_one else top


def _known(causes: Sequence[Cause], step_ms: float) -> Cause | None:
    """Return the wait that is most of the time, if its name says for what."""
    leaves = [
        cause
        for cause in causes
        if not names.has_parts(cause.id, [other.id for other in causes])
        and names.limiter(cause.id) is not Limiter.UNKNOWN
        and cause.id.rpartition(".")[2] not in (PYTHON, OTHER)
        and not cause.id.startswith((gpu.COMPUTING, cpu.COMPUTING))
    ]
    most = max(leaves, key=lambda cause: cause.ms_per_step, default=None)
    return most if most and most.ms_per_step >= _MOST * step_ms else None


def _because(cause: Cause) -> str:
    if f".{BLOCKED}." in cause.id:
        text = f"blocked in {cause.title}"
    elif operator := operator_on_cpu(cause):
        text = f"CPU operators, mostly {operator}"
    else:
        text = names.lower(cause.title)
    return f"{milliseconds(cause.ms_per_step)} ms {text}"


def _mostly(causes: Sequence[Cause], above: Cause) -> str:
    parts = [cause for cause in causes if cause.id.startswith(f"{above.id}.")]
    parts = [cause for cause in parts if not cause.id.endswith(".other")]
    if not parts:
        return ""
    first = max(parts, key=lambda cause: cause.ms_per_step)
    if above.id != PYTHON and first.ms_per_step < _OF_ONE_KIND * above.ms_per_step:
        place = f", {inside(above.place)}" if ".py(" in above.place else ""
        return f", of many kinds{place}"
    line = f", {first.evidence[LINE]}" if LINE in first.evidence else ""
    return f", {milliseconds(first.ms_per_step)} ms {inside(without_arguments(first.title))}{line}"
