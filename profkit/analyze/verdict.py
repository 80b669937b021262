"""Verdict: what limits a step, what to do about it, and how sure that is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from profkit.analyze import _late_rank
from profkit.analyze._actions_of_patterns import (
    fitting,
    with_known_causes,
    with_places_elsewhere,
)
from profkit.analyze._communication_advice import without_ranks
from profkit.analyze._compared_ranks import Compared
from profkit.analyze._headline import (
    PER_STEP,
    PER_TRACED_STEP,
    RECORDED,
    headline,
    of_some_steps,
    of_time_outside,
)
from profkit.analyze._late_advice import of_late_rank
from profkit.analyze._memory_growth import with_growth
from profkit.analyze._other_programs import PROGRAM, in_general, named
from profkit.analyze._record_more import record_more
from profkit.analyze._rows_of_causes import (
    cause_of,
    leaves,
    table_rows,
    trust_of,
    without_profiler,
)
from profkit.analyze._uneven_steps import (
    beside_steps,
    between_steps,
    growing_steps,
    is_most,
    not_said_beside,
    slow_steps,
    time_in_some_steps,
    uneven_steps,
    with_known_variation,
)
from profkit.analyze._worthwhile import (
    after_waits,
    in_order,
    is_in_vain,
    likely_ms,
    of_all,
    with_those,
    worthwhile,
)
from profkit.analyze.base import Behaviour, Recordings, analysis
from profkit.analyze.division import cpu, gpu, names
from profkit.analyze.division.cpu_threads import PYTHON, START_UP
from profkit.analyze.division.details import COVERS
from profkit.analyze.division.periods import SINGLE_STEPS
from profkit.analyze.division.trust import FAR_STEPS, MACHINE, SIZES, of_machine
from profkit.analyze.shared.step_times import UnprofiledSteps
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.core.verdict import Action, Cause, Confidence, Limiter, Trust, Verdict

_NS_PER_MS = 1e6
_OF_RANKS = (Limiter.STRAGGLER, Limiter.COMMUNICATION)
_COMPUTING = (Limiter.GPU, Limiter.CPU)
_COVERING = 0.9
"""Share of GPU computing that only covers launching, from which on the CPU is no longer ahead."""

_MOSTLY = 0.5
_STEADY_CHECKS = ("steps", "variation", MACHINE, FAR_STEPS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/verdict.yaml``; all but `actions` are shares of the step."""

    small: float = 0.02
    """What takes less of the step is not worth a word."""

    small_if_busy: float = 0.08
    """The same where other programs had the cores: of what takes less, much may be theirs. What a
    pattern is sure of counts from `small` on."""

    stalled: float = 0.2
    """From here on what the GPU waits for most limits the step, and not what it computes."""

    loading: float = 0.4
    """The same for loading data without a GPU, as the CPU that computes works for that as well:
    operators must not take longer."""

    starting: float = 0.05
    """Where no steps are marked and one-off start-up takes more, its Python is start-up as well."""

    actions: int = 3
    """Most things to do."""


@analysis(title="Verdict")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a result)
    causes: Result | None,
    steps: Result | None,
    unprofiled: UnprofiledSteps,
    memory_verdict: Result | None,
    kernel_verdict: Result | None,
    stragglers: Result | None,
    flops: Result | None,
    recordings: Recordings,
    behaviour: Behaviour,
    config: Config,
) -> Result:
    """What limits the step of this run, what should be done first, and how sure is that?

    The causes are those of one rank: the one that waits most for others, or else the slowest. Gains
    are upper bounds. Checks of the recording come first: one that failed lowers the confidence, or
    silences what depends on it.
    """
    memory = with_growth(memory_verdict.memory if memory_verdict else None, unprofiled)
    kernels = kernel_verdict.kernels if kernel_verdict else None
    if causes is not None and "causes" in causes.tables:
        has_unprofiled = unprofiled is not None and len(unprofiled)
        others = _Others(
            unprofiled=steps if has_unprofiled else None,
            ranks=Compared.of(causes, stragglers, flops),
            memory_grows=memory is not None and memory.is_growing,
            recordings=recordings,
            mean_ms=_mean_ms(unprofiled),
        )
        timed = replace(_of_time(causes, others, behaviour, config), steps=_count(unprofiled))
    elif memory or kernels:
        timed = Verdict(
            limiter=Limiter.UNKNOWN,
            headline="No step time was recorded.",
            step_ms=0.0,
            confidence=Confidence.LOW,
        )
    else:
        known = [one.reason for one in causes.abstentions] if causes else []
        return Result.abstain("the verdict", (*known, "no time of a step was divided")[0])
    if memory and memory.is_limit:
        timed = replace(timed, limiter=Limiter.MEMORY, headline=memory.headline)
    return Result(verdict=replace(timed, memory=memory, kernels=kernels))


def _count(unprofiled: pd.DataFrame | None) -> int:
    """Return how many steps a rank made in the unprofiled run, the most of all repeats."""
    if unprofiled is None or unprofiled.empty:
        return 0
    return int(unprofiled.groupby(["rank", "repeat"], observed=True).size().max())


def _mean_ms(unprofiled: pd.DataFrame | None) -> float:
    if unprofiled is None or unprofiled.empty:
        return 0.0
    return float((unprofiled["end_ns"] - unprofiled["start_ns"]).mean()) / _NS_PER_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Others:
    """What is known of the run beside the causes."""

    unprofiled: Result | None
    """On unprofiled steps, None without any."""

    ranks: Compared
    memory_grows: bool
    recordings: Recordings
    """That of the unprofiled capture."""

    mean_ms: float
    """Of all unprofiled steps, 0 without any."""

    @property
    def step_ms(self) -> float:
        """The unprofiled step time, that of all where there are but first steps; 0 without any."""
        metric = self.unprofiled.metrics.get("step_time_ns") if self.unprofiled else None
        return self.mean_ms if metric is None else metric.value / _NS_PER_MS


def _of_time(causes: Result, others: _Others, behaviour: Behaviour, config: Config) -> Verdict:
    """Return the verdict on the time of a traced step, with the step time of the run."""
    unprofiled = others.unprofiled
    beside = beside_steps(unprofiled, memory_grows=others.memory_grows)
    rank = next(row["rank"] for row in table_rows(causes, "ranks") if row["decisive"] == "true")
    of_ranks = _late_rank.of_stages(table_rows(causes, "causes"), rank)
    rows, overhead_ms = without_profiler(of_ranks, rank)
    traced_ms = causes.metrics["step_ms"].value - overhead_ms
    mine = [cause_of(row, traced_ms) for row in rows if row["rank"] == rank]
    mine = _late_rank.with_late_rank(mine, rows, rank, others.ranks)
    matches = table_rows(causes, "matches")
    known = time_in_some_steps(matches)
    checks = with_known_variation(_checks(causes, others, known, mine), matches)
    spoken = _spoken(mine, checks)
    typical = {row["id"]: row["median_ms"] for row in rows if row["rank"] == rank}
    failed = {check.check for check in checks if not check.passed}
    found = with_known_causes(fitting(matches, failed, mine), mine)
    mine = with_places_elsewhere(mine, found)
    unsure = (config.small_if_busy if MACHINE in failed else config.small) * traced_ms
    worth = not_said_beside(worthwhile(spoken, found, config.small * traced_ms, unsure), unprofiled)
    if PROGRAM in failed:
        mine, worth = named(mine), [*in_general(worth, mine)]
    spread = [action for action in worth if action.in_steps]
    said = frozenset(cause.id for cause in spoken)
    limiter = _of_most(worth, _limiter(mine, said, typical, spread, config), traced_ms)
    is_typical = limiter is _limiter(mine, said, typical, (), config)
    chosen = after_waits(in_order(worth, limiter), limiter, mine)[: config.actions]
    if MACHINE not in failed:
        on_gpu = any(cause.id.startswith("gpu_") for cause in mine)
        beside += slow_steps(unprofiled, known, traced_ms, behaviour, gpu=on_gpu)
    if "variation" in failed and not chosen and not beside:
        limiter = Limiter.UNSTABLE
    if "steps" in failed and _is_start_up(limiter, mine, said, config):
        limiter = Limiter.UNKNOWN
    if limiter is Limiter.UNKNOWN:
        chosen = [record_more(_largest_unknown(mine), failed, behaviour), *_on_gpu(worth, mine)]
    confidence = _confidence(checks)
    doubts = () if _late_rank.is_last_recorded(others.ranks.stragglers, rows) else checks
    step_ms = others.step_ms or traced_ms
    chosen = with_those(beside, chosen, step_ms, traced_ms)[: config.actions]
    is_own = others.step_ms > 0
    chosen = [_no_surer(without_ranks(one, doubts, is_own=is_own), confidence) for one in chosen]
    outer, said_of_outer = of_time_outside([*filter(is_most, beside)], step_ms)
    per = PER_TRACED_STEP if is_own and not overhead_ms else PER_STEP
    is_whole = any(missing.what == SINGLE_STEPS for missing in causes.abstentions)
    return Verdict(
        limiter=outer or limiter,
        headline=said_of_outer
        or of_some_steps(chosen, limiter, is_typical=is_typical)
        or headline(limiter, mine, traced_ms, RECORDED if is_whole else per),
        step_ms=step_ms,
        is_unprofiled=is_own,
        traced_ms=traced_ms,
        overhead_ms=overhead_ms,
        is_whole=is_whole,
        confidence=confidence,
        causes=tuple(_advised(mine, chosen)),
        actions=tuple(map(of_all, chosen) if is_whole else chosen),
        trust=tuple(checks),
    )


def _checks(causes: Result, others: _Others, known: float, mine: Sequence[Cause]) -> list[Trust]:
    """Return the checks of unprofiled steps, and those of the traced ones.

    A busy machine comes first: it may be why other checks failed.
    """
    steps = others.unprofiled
    loads_data = any("loading_data" in cause.id for cause in mine)
    traced = [*map(trust_of, table_rows(causes, "trust"))]
    made = {one.check for one in traced}
    found = [
        *between_steps(steps),
        *growing_steps(steps, table_rows(causes, "matches")),
        *uneven_steps(steps, known, loads_data=loads_data, sizes_vary=SIZES in made),
        *([] if MACHINE in made else of_machine(others.recordings)),
        *traced,
        *of_late_rank(mine),
    ]
    return sorted(found, key=lambda check: check.check != MACHINE)


def _spoken(mine: Sequence[Cause], checks: Iterable[Trust]) -> list[Cause]:
    """Return the causes that no check silences."""
    silent = {silenced for check in checks for silenced in check.silences}
    return [cause for cause in mine if silent.isdisjoint(names.parts_of(cause.id))]


def _limiter(
    mine: Sequence[Cause],
    spoken: frozenset[str],
    typical: Mapping[str, float | None],
    spread: Iterable[Action],
    config: Config,
) -> Limiter:
    """Return what a typical step waits for most; computing only where nothing else is long.

    Parts of the partition count by their median over the steps: a single slow step limits none.
    What happens in some steps only is `spread` over all.
    """
    times: dict[Limiter, float] = {}
    for cause in mine:
        time = typical.get(cause.id)
        if time is not None:
            limiter = names.limiter(cause.id) if cause.id in spoken else Limiter.UNKNOWN
            times[limiter] = times.get(limiter, 0.0) + time
    for action in spread:
        limiter = names.limiter(action.cause)
        times[limiter] = times.get(limiter, 0.0) + likely_ms(action)
    whole = sum(times.values())
    computing = Limiter.GPU if Limiter.GPU in times else Limiter.CPU
    stalls = {name: time for name, time in times.items() if name is not computing}
    if computing is Limiter.CPU:
        loading = config.loading * whole
        if times.get(Limiter.INPUT) == typical.get("loading_data"):  # no more is spread over all
            loading = max(loading, typical.get(cpu.COMPUTING) or 0.0)
        least = {Limiter.UNKNOWN: times.get(computing, 0.0), Limiter.INPUT: loading}
        stalls = {name: time for name, time in stalls.items() if time >= least.get(name, 0.0)}
    if not stalls or not whole:
        return computing
    most = max(stalls, key=lambda name: stalls[name])
    # Waiting for ranks and what follows are one communication, whichever is longer.
    long_ms = sum(
        stalls.get(name, 0.0) for name in {most, *(_OF_RANKS if most in _OF_RANKS else ())}
    )
    is_long = computing not in times or long_ms >= _stalled(mine, most, config) * whole
    return most if is_long else computing


def _of_most(worth: Iterable[Action], limiter: Limiter, step_ms: float) -> Limiter:
    """Return the limiter, or what takes most of a step that computes: an action gains all that.

    A typical step may compute, and others wait so long that they are most of the time.
    """
    if limiter not in _COMPUTING:
        return limiter
    most = (one for one in worth if not one.in_steps and one.gain_ms > _MOSTLY * step_ms)
    limiters = (names.limiter(one.cause) for one in most)
    return next((one for one in limiters if one not in (*_COMPUTING, Limiter.UNKNOWN)), limiter)


def _stalled(mine: Iterable[Cause], limiter: Limiter, config: Config) -> float:
    """Return from which share of the step on a GPU that waits is limited by that.

    Sooner by the CPU if most of what the GPU computes only covers that the CPU launches meanwhile.
    """
    shares = (float(one.evidence.get(COVERS, 0.0)) for one in mine if one.id == gpu.COMPUTING)
    is_behind = limiter is Limiter.CPU and max(shares, default=0.0) >= _COVERING
    return config.stalled / 2 if is_behind else config.stalled


def _no_surer(action: Action, recording: Confidence) -> Action:
    """Return the action, as sure as the recording at most that it was found in."""
    order = list(Confidence)
    return replace(action, confidence=max(action.confidence, recording, key=order.index))


def _is_start_up(
    limiter: Limiter, mine: Sequence[Cause], spoken: frozenset[str], config: Config
) -> bool:
    """Tell whether what limits is one-off start-up, and not a steady step.

    Where that is long, others wait for it, and its Python is start-up as well, unless other work of
    the CPU that is `spoken` of is long enough to be the limiter.
    """
    if limiter is not Limiter.CPU:
        return limiter is Limiter.STRAGGLER and _starts(mine) > config.stalled
    others = sum(
        cause.share
        for cause in leaves(mine)
        if names.limiter(cause.id) is Limiter.CPU
        and cause.id in spoken
        and PYTHON not in cause.id.split(".")
    )
    return _starts(mine) > config.starting and others < config.stalled


def _starts(mine: Sequence[Cause]) -> float:
    """Return the share of one-off start-up, for which other ranks wait as well."""
    return sum(cause.share for cause in mine if cause.id.rpartition(".")[2] == START_UP)


def _on_gpu(worth: Sequence[Action], mine: Sequence[Cause]) -> list[Action]:
    """Return what to do about what the GPU computes: at a start that takes as long as later."""
    own = [action for action in worth if names.limiter(action.cause) is Limiter.GPU]
    return in_order([one for one in own if not is_in_vain(one, mine)], Limiter.GPU)


def _largest_unknown(mine: Sequence[Cause]) -> Cause | None:
    """Return the largest cause that says nothing of what limits a step, else of all."""
    parts = leaves(mine)
    unknown = [cause for cause in parts if names.limiter(cause.id) is Limiter.UNKNOWN]
    return max(unknown or parts, key=lambda cause: cause.ms_per_step, default=None)


def _advised(causes: Sequence[Cause], chosen: Sequence[Action]) -> Iterator[Cause]:
    advice = {action.cause: action.advice for action in chosen}
    for cause in causes:
        yield replace(cause, advice=advice.get(cause.id, ""))


def _confidence(checks: Sequence[Trust]) -> Confidence:
    failed = [check for check in checks if not check.passed]
    if not failed:
        return Confidence.HIGH
    steady = any(check.check in _STEADY_CHECKS for check in failed)
    return Confidence.LOW if steady or len(failed) > 1 else Confidence.MEDIUM
