"""Checks of a recording, made before anything is said about it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profkit.analyze.base import Recording
from profkit.analyze.division.periods import Periods, slowest_ns
from profkit.analyze.division.profiler_overhead import in_words, is_usual
from profkit.analyze.division.unrecorded_gpu import LOST, OF_APPLE
from profkit.core.formatting import agreeing, counted, duration
from profkit.core.result import Metric
from profkit.core.verdict import Trust
from profkit.patterns import patterns
from profkit.tables.rank_clocks import MatchedCollectives

_LOST = re.compile(
    r"missing|could not be read|cut off|left out|dropped|lost|Not read|damaged|blank"
)
_CUT = re.compile(r"cut off at|gzip data|not in the order of time")
_OF_EVERY_STEP = re.compile(r"events of every step may be missing")
_REPAIRED = {
    "repeated steps": re.compile(r"numbered on|repeat their numbers"),
    "overlaps": re.compile(r"ends? after the r|stands? in the file twice"),
    "odd times": re.compile(r"0 ns long|absurd"),
}
_FOREIGN = re.compile("^PyTorch was not found")
_AT_ONCE = re.compile(r"threads call the model at the same time")
_WITHIN_STEP = re.compile(r"recording ended within it")
_THINNED = re.compile(r"runtime calls? (?:is|are) in the file")
_WITHOUT_WORK = re.compile(r"([\d,]+) of ([\d,]+) launches have no work on a device")
_OF_ROWS = ("overlaps", "odd times")
_RANKS = re.compile(r"Rank \d+ of (\d+);")
_OTHER_RANKS = re.compile(r"The command names [\d,]+ ranks?, and [\d,]+ ran")
_COUNT = re.compile(r"[\d,]+")
_FEW_ROWS = 0.01
_BUSY = re.compile(r"other processes|other virtual machines|clock")
_OF_GPU = re.compile(r"of GPU \d")
_REPEAT, _FEW = "repeat on an idle machine", " or with fewer threads (`OMP_NUM_THREADS`)"
_ENOUGH_STEPS = 3
_FEWEST_COMPARED = 2
_FEW_STEPS = "few steps"
MOST_VARIATION = 0.3
"""Coefficient of variation that three steps may have."""

_USUAL_STEPS = 3
_MOST_RESIDUAL = 0.25
_OTHER_RUN = 0.5
"""Of the time without the profiler: steps that take no longer with it are those of another run."""

FAR_STEPS = "other steps"
MACHINE = "machine"
SIZES = "sizes"
_MOST_QUEUED = 0.1
_MANY_CALLS = 100
"""Of which each takes about one microsecond more."""
_MANY_RANGES = 30
"""Of which each takes several microseconds more, as its text is made."""
_MOST_ON_CPU = 0.2
_MOST_UNKNOWN = 0.05
_LEAST_MISSING = 0.05
_EXCERPT = 100
_MOSTLY = 0.5
_NEARLY_ALL = 0.7
_MOST_OVER_USUAL = 1.5
_WORTHWHILE_NS = 10e6
EVERYTHING = (
    *("gpu_computing", "gpu_idle", "exposed_communication", "exposed_copies", "exposed_sets"),
    *("cpu_operators", "loading_data", "python", "garbage_collection", "compiler"),
    *("waiting_for_thread", "waiting_in_call", "blocked"),
)
"""First parts of the ids of all causes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What the checks look at."""

    periods: Periods
    matched: MatchedCollectives
    collectives: pd.DataFrame
    recordings: Mapping[str, Recording]
    slowdown: Metric | None
    """Step time with the profiler over that without; None if that was not measured."""

    over_usual: float
    """Time of the traced steps without the profiler over that of a step of the whole unprofiled
    run; 1 if that was not measured."""

    misplaced: int
    """Kernels whose times cannot be: long before or after their launch."""

    kernels: int
    unlaunched: int
    """Kernels whose launch was not recorded."""

    has_cpu: bool
    """Whether anything of the CPU was recorded."""

    lacks_operators: bool
    """Whether a profiler that records operators recorded none, but calls of the runtime."""

    unrecorded_gpu: str
    """What is missing of a GPU where no kernel was recorded, "" if nothing."""

    is_one_host: bool
    """Whether all ranks are known to have run on one host."""

    known_anyway: frozenset[str]
    """First parts of ids of causes that are known whatever that GPU did, or was not recorded."""

    steps: int
    """Steps that were recorded, those left out included."""

    rows: int
    """Operators, kernels and calls that were recorded."""

    working: float
    """Part of the time in which the GPU computed or copied, or operators ran, 0 to 1."""

    missing_in_graphs: float
    """Part of the time in which a CUDA graph runs, and nothing of it was recorded, 0 to 1."""

    on_cpu: float
    """Part of the time that Python and operators of the CPU take, 0 to 1."""

    calls_per_ms: float
    """Calls of Python functions that were recorded, and not sampled, per millisecond."""

    ranges_per_ms: float
    """Operators per millisecond that a recorder knows as NVTX ranges, which PyTorch makes."""

    has_python: bool
    """Whether calls of Python functions were recorded, or sampled."""

    sizes_vary: Callable[[], bool]
    """Tells whether most steps have matrix products of other shapes than the step before."""

    queued: float
    """Most of the time that the program's thread of a rank was ready to run and had no core."""


def checks(seen: Seen) -> tuple[Trust, ...]:
    """Return every check that applies to the recording, those that failed first."""
    found = [*_of_steps(seen), *_of_ranks(seen), *_of_events(seen), *_of_surroundings(seen)]
    # What else failed says more.
    return tuple(sorted(found, key=lambda check: (check.passed, check.check == _FEW_STEPS)))


def _of_steps(seen: Seen) -> Iterator[Trust]:
    rows = seen.periods.rows
    by_step = slowest_ns(rows)
    if seen.periods.problem:
        message = f"{seen.periods.problem}: one-off work, such as start-up, is part of all times."
        yield Trust(check="steps", passed=False, message=message)
        return
    steps, repeats = len(by_step), rows["repeat"].nunique()
    message = f"{counted(steps, 'steady step')} traced in {counted(repeats, 'repeat')}"
    message += (left_out := seen.periods.left_out)
    if steps == 1:
        message += ": one-off work cannot be told from steady work"
    yield Trust(check="steps", passed=steps > 1, message=f"{message}.")
    variation = float(by_step.std(ddof=0) / by_step.mean()) if by_step.mean() else 0.0
    # What is said is of their mean, which many tell as well as a few that are more alike.
    is_steady = variation <= MOST_VARIATION * max(steps / _USUAL_STEPS, 1.0) ** 0.5
    if steps == _FEWEST_COMPARED and is_steady:
        message = f"Two traced steps are too few to say how much they vary{left_out}."
        yield Trust(check=_FEW_STEPS, passed=False, message=message)
    elif not is_steady and seen.sizes_vary():
        message = (
            f"Traced step times vary by {variation:.0%}, as the sizes of their tensors do: where"
            " batches are padded, let those of like length be one batch."
        )
        yield Trust(check=SIZES, passed=False, message=message)
    elif steps >= _FEWEST_COMPARED:
        by = f"{variation:.0%} (coefficient of variation){left_out}"
        yield Trust(check="variation", passed=is_steady, message=f"Traced step times vary by {by}.")


def _of_ranks(seen: Seen) -> Iterator[Trust]:
    there = seen.periods.rows["rank"].nunique()
    grouped = int(seen.collectives["group_size"].max()) if len(seen.collectives) else 0
    stated = [_RANKS.match(note) for one in seen.recordings.values() for note in one.notes]
    expected = max([there, grouped, *(int(found[1]) for found in stated if found)])
    if expected > 1:
        yield Trust(
            check="ranks",
            passed=there == expected,
            message=f"{there} of {expected} ranks recorded.",
        )
    else:
        yield Trust(check="one rank", passed=True, message="1 rank recorded.")
    warned = (warning for one in seen.recordings.values() for warning in one.warnings)
    if named := next(filter(_OTHER_RANKS.match, warned), ""):
        yield Trust(check="named ranks", passed=False, message=named)
    yield from _of_clocks(seen)


def _of_clocks(seen: Seen) -> Iterator[Trust]:
    """Yield whether the ends of matched collectives agree: those of one host have one clock."""
    clocks, rows = seen.matched.clocks, seen.matched.rows
    if rows.empty:
        return
    # Each wait is known to as much: what all of them are known to grows with their number.
    waited = float(rows["wait_ns"].clip(lower=0).mean())
    worst = float(clocks["residual_ns"].max())
    repeats = clocks["repeat"].nunique()
    by = f"{duration(worst)}{f' in the worst of {repeats} repeats' if repeats > 1 else ''}"
    limit = max(_MOST_RESIDUAL * max(waited, float(rows["transfer_ns"].median())), 1e3)
    passed = worst <= limit
    what = "Ends of collectives on one host" if seen.is_one_host else "Clocks of ranks"
    yield Trust(
        check="ends" if seen.is_one_host and not passed else "clocks",
        passed=passed,
        message=f"Clocks of ranks agree within {by}."
        if passed
        else f"{what} differ by up to {by}: who waits is not known.",
        silences=() if passed else ("exposed_communication.waiting",),
    )


def _of_events(seen: Seen) -> Iterator[Trust]:
    said = [*dict.fromkeys(note for one in seen.recordings.values() for note in one.notes)]
    if foreign := next(filter(_FOREIGN.search, said), ""):
        yield Trust(check="program", passed=False, message=foreign)
    notes = [note for note in said if note != foreign]
    # What ends up to 2 us after the row around it was rounded, and lowers no confidence.
    if cut := [note for note in notes if _CUT.search(note)]:
        silences = EVERYTHING if any(map(_OF_EVERY_STEP.search, cut)) else ()
        message = " ".join(cut[:2])
        yield Trust(check="cut off", passed=False, message=message, silences=silences)
    if at_once := next(filter(_AT_ONCE.search, notes), ""):
        yield Trust(check="threads", passed=False, message=at_once)
    others = [note for note in notes if note not in cut]
    for check, pattern in {"lost events": _LOST, **_REPAIRED}.items():
        if found := [note for note in others if pattern.search(note)]:
            yield _repaired(check, found, seen.rows)
    if seen.missing_in_graphs > _LEAST_MISSING:
        yield Trust(
            check="graphs",
            passed=False,
            message="Kernels of CUDA graphs are missing: for "
            f"{seen.missing_in_graphs:.0%} of the time none is there.",
            silences=("gpu_idle.not_started",),
        )
    elif not any(_LOST.search(note) for note in notes):
        yield Trust(check="lost events", passed=True, message="No event was lost.")
    yield from _of_launches(notes)
    if seen.misplaced:
        yield Trust(
            check="misplaced kernels",
            passed=False,
            message=agreeing(
                seen.misplaced,
                "{} kernel[s] lie[s|] far from [its|their] launch, as after a second profiler"
                " session: left out.",
            ),
        )
    if seen.rows < _EXCERPT and seen.steps < _ENOUGH_STEPS and not _is_filled(seen):
        yield Trust(
            check="excerpt",
            passed=False,
            message=agreeing(
                seen.rows,
                "Only {} [operator, kernel or call was|operators, kernels and calls were]"
                " recorded.",
            ),
            silences=_without_known(seen),
        )
    yield from _of_sides(seen)


def _without_known(seen: Seen) -> tuple[str, ...]:
    """Return all causes but those that are known anyway."""
    return tuple(name for name in EVERYTHING if name not in seen.known_anyway)


def _of_sides(seen: Seen) -> Iterator[Trust]:
    """Yield what is wrong where the GPU, the CPU or what ties them was not recorded."""
    if missing := seen.unrecorded_gpu:
        check = {LOST: "kernels", OF_APPLE: "MPS"}.get(missing, "GPU")
        yield Trust(check=check, passed=False, message=missing, silences=_without_known(seen))
    if not seen.kernels:
        return
    if not seen.has_cpu:
        yield Trust(
            check="CPU",
            passed=False,
            message="The CPU was not recorded: why the GPU is idle is unknown.",
            silences=("gpu_idle",),
        )
    elif seen.lacks_operators:
        yield Trust(
            check="operators",
            passed=False,
            message="No operator was recorded: for which code the GPU waits is unknown.",
        )
    elif (share := seen.unlaunched / seen.kernels) > _MOST_UNKNOWN:
        yield Trust(
            check="launches",
            passed=False,
            message=f"The launch of {share:.0%} of the kernels was not recorded.",
        )


def _of_launches(notes: Iterable[str]) -> Iterator[Trust]:
    for found in filter(None, map(_WITHOUT_WORK.search, notes)):
        without, launches = (int(count.replace(",", "")) for count in found.groups())
        if without > _NEARLY_ALL * launches:
            yield Trust(
                check="GPU work",
                passed=False,
                message=f"No GPU work was recorded for {without:,} of {launches:,} launches, as "
                "while a CUDA graph is captured.",
                silences=EVERYTHING,
            )


def of_machine(recordings: Mapping[str, Recording], without_core: str = "") -> list[Trust]:
    """Return the check that fails if the captures say that the machine had other work."""
    warnings = [text for one in recordings.values() for text in one.warnings]
    busy = next((text.partition(";")[0] for text in warnings if _BUSY.search(text)), "")
    if not busy:
        return []
    also = f", and {without_core}" if without_core else ""
    remedy = "its times vary with that" if _OF_GPU.search(busy) else _REPEAT + _FEW * bool(also)
    message = f"{busy[:1].upper()}{busy[1:]}{also}: {remedy}."
    return [Trust(check=MACHINE, passed=False, message=message)]


def _is_filled(seen: Seen) -> bool:
    """Say whether work fills the recording, as in a benchmark of one operator."""
    rows = seen.periods.rows
    recorded_ns = float((rows["end_ns"] - rows["start_ns"]).sum())
    return seen.has_cpu and seen.working >= _MOSTLY and recorded_ns >= _WORTHWHILE_NS


def _repaired(check: str, notes: Sequence[str], rows: int) -> Trust:
    """Return a check that fails for what was lost, or repaired in more than a few of the rows."""
    counts = [_COUNT.match(note) for note in notes]
    count = sum(int(found[0].replace(",", "")) if found else rows for found in counts)
    message = " ".join(notes[:2])
    silences = ("gpu_idle",) if any(map(_THINNED.search, notes)) else ()
    if check == "overlaps":
        message = agreeing(
            count,
            "{} of {rows:,} operators overlap[s|] without nesting: [its|their] time may belong to"
            " either.",
            rows=rows,
        )
    passed = check in _OF_ROWS and count <= _FEW_ROWS * rows
    return Trust(check=check, passed=passed, message=message, silences=silences)


def _of_surroundings(seen: Seen) -> Iterator[Trust]:
    if not seen.has_python:
        every = patterns().values()
        blind = sum("python_calls" in pattern.parameters for pattern in every)
        message = (
            f"Calls of functions were not recorded: {blind} of {len(every)} patterns need them."
        )
        yield Trust(check="patterns", passed=True, message=message)
    without_core = (
        f"the program's thread had no core for {seen.queued:.0%} of the time"
        if seen.queued > _MOST_QUEUED
        else ""
    )
    if busy := of_machine(seen.recordings, without_core):
        yield from busy
    elif without_core:
        message = f"{without_core[:1].upper()}{without_core[1:]}: more threads run than cores."
        yield Trust(check="cores", passed=False, message=message)
    for check, per_ms, most, what, without in (
        ("stacks", seen.calls_per_ms, _MANY_CALLS, "calls of Python functions", "with_stack"),
        ("ranges", seen.ranges_per_ms, _MANY_RANGES, "NVTX ranges of operators", "emit_nvtx"),
    ):
        if seen.slowdown is None and per_ms > most and seen.on_cpu > _MOST_ON_CPU:
            said = f"{per_ms:.0f} {what} were recorded per ms, which slows the CPU: compare with"
            yield Trust(
                check=check, passed=False, message=f"{said} a recording without `{without}`."
            )
    is_far = seen.slowdown is not None and seen.slowdown.value <= _OTHER_RUN
    warned = [warning for one in seen.recordings.values() for warning in one.warnings]
    if within := next(filter(_WITHIN_STEP.search, warned), ""):
        yield Trust(check="whole steps", passed=False, message=within)
    elif (slowdown := seen.slowdown) is not None:
        check = FAR_STEPS if is_far else "profiler overhead"
        yield Trust(check=check, passed=is_usual(slowdown), message=in_words(slowdown))
    if seen.over_usual > _MOST_OVER_USUAL and not is_far:
        yield Trust(
            check="usual steps",
            passed=False,
            message="Without the profiler the traced steps take "
            f"{seen.over_usual:.1f} times as long as steps of the whole run: they show its"
            " beginning, as where caches are filled. With `--all"
            " tools.torch_profiler.skip_first=N` steps after the first N are traced.",
        )
