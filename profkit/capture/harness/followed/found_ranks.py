"""Settle which processes of a followed command were its ranks, and name their files so."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from profkit.capture.base import Rank
from profkit.capture.harness.followed import process_record
from profkit.capture.harness.followed.process_record import ProcessRecord
from profkit.capture.harness.followed.request import TOO_OLD
from profkit.capture.harness.foreground import ENDED_EARLY
from profkit.capture.harness.ranks import clock, rank_files
from profkit.capture.harness.ranks.coordinates import configured_rank
from profkit.capture.harness.record import rank_errors
from profkit.core.formatting import counted, cut
from profkit.core.parallel_layout import Parallel
from profkit.core.secret_masking import Masker
from profkit.process import parent_watch

_SHOWN = 120
UNSTEPPED = "unstepped_passes"
"""In `FoundRanks.facts`: calls of a model while there was an optimizer that has made no step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundRanks:
    """The ranks of a command."""

    ranks: list[Rank]
    named_by: list[str]
    """Sources of the coordinates of the ranks."""

    processes: dict[int, Rank] = field(default_factory=dict)
    """The ranks on this host by the numbers of their processes, for a followed command."""

    facts: dict[str, Any] = field(default_factory=dict)
    """For the record: number of ranks, what started them, as far as they say, how many
    processes made steps without being ranks, and what a step was, if not an optimizer's."""

    notes: list[str] = field(default_factory=list)
    """What readers should know of processes that are no ranks."""

    have_ended: bool = False
    """Whether all of them came to their end: then no signal has killed them."""

    lack: str = ""
    """Why there is no rank, or none that came to its end; "" if there is one."""


def settle(out: Path, parallel: Parallel, named: int = 1, replacing: str = "") -> FoundRanks:
    """Choose the ranks among the processes with files in `out`, and remove the files of others.

    `named` is the number of ranks that the command names, 1 if it names none; `replacing` the line
    of a script that replaces PYTHONPATH, or "".
    """
    early = out / ENDED_EARLY
    was_cut_short = {"ended_early": True} if early.exists() else {}
    early.unlink(missing_ok=True)
    records = [_counted(out, record) for record in process_record.read(out)]
    chosen, notes = _numbered(_candidates(out, records))
    left_out = {"left_out": len(notes)} if notes else {}
    world_size = max([record.world_size for record in chosen], default=0)
    ranks, sources = [], set()
    # In the order of their ranks, as launchers number them too.
    hosts = list(dict.fromkeys(record.numbering for record in chosen))
    for record in records:
        (out / f"{record.as_rank().label}{process_record.SUFFIX}").unlink()
    for record in chosen:
        rank, source = _located(out, record, parallel)
        rank_files.rename(out, record.as_rank().label, rank.label)
        clock.renumber(out, rank, hosts.index(record.numbering))
        ranks.append(rank)
        sources.add(source)
    absent = sorted({*range(world_size)} - {rank.rank for rank in ranks})
    if absent:
        few = ", ".join(map(str, absent[:8]))
        notes.append(f"No step was seen on {counted(len(absent), 'rank')} of {world_size}: {few}.")
    if named > 1 and chosen and world_size != named:
        notes.append(
            f"The command names {counted(named, 'rank')}, and {world_size} ran; the name of the run"
            f" says w{named} all the same."
        )
    for record in records:
        for path in out.glob(f"{record.as_rank().label}.*"):
            path.unlink()
    return FoundRanks(
        ranks=ranks,
        named_by=sorted(sources - {""}),
        processes={
            record.process: rank
            for record, rank in zip(chosen, ranks, strict=True)
            if record.numbering == parent_watch.numbering()
        },
        facts={
            "world_size": world_size,
            "launched_by": chosen[0].launcher if chosen else "",
            "numbered_by": chosen[0].numbered_by if chosen else "",
            **left_out,
            **was_cut_short,
            **(_step_facts(chosen[0]) if chosen else _unstepped(records)),
        },
        notes=notes,
        have_ended=bool(records) and all(record.ended_ns for record in chosen or records),
        lack="" if chosen else _lack(out, records, replacing),
    )


def only_passes(facts: Mapping[str, Any], exit_code: int | None) -> int:
    """Return how many forward passes a program made that ended well without a step, else 0."""
    return int(facts.get(UNSTEPPED, 0)) if exit_code == 0 else 0


def made_no_step(passes: int) -> str:
    """Return what readers should know of steps that are forward passes."""
    return (
        f"The optimizer made no step in {counted(passes, 'forward pass', 'es')}: the program was"
        " started once more, with each of them as a step."
    )


def _step_facts(record: ProcessRecord) -> dict[str, Any]:
    """Return what is special about the steps of `record`."""
    names = ("step_is", "first_passes", "has_several_threads", "round")
    return {name: fact for name in names if (fact := getattr(record, name))}


def _unstepped(records: Sequence[ProcessRecord]) -> dict[str, Any]:
    """Return how often the model was called, in the process that did so most, if it was."""
    passes = max((record.unstepped_passes for record in records), default=0)
    return {UNSTEPPED: passes} if passes else {}


def _counted(out: Path, record: ProcessRecord) -> ProcessRecord:
    """Return `record` with the steps that a process had made when it was killed."""
    return replace(record, steps=max(record.steps, clock.steps_so_far(out, record.as_rank())))


def _candidates(out: Path, records: Sequence[ProcessRecord]) -> list[ProcessRecord]:
    """Return the processes that made a step or failed; those that train, if there are such."""
    failed = [
        record
        for record in records
        if (out / f"{record.as_rank().label}{rank_errors.SUFFIX}").exists()
    ]
    some = [record for record in records if record.steps or record in failed]
    if any(record.is_training for record in some):
        # Another process may evaluate, beside those that train or after them.
        some = [record for record in some if record.is_training or record in failed]
    return some


def _numbered(candidates: Sequence[ProcessRecord]) -> tuple[list[ProcessRecord], list[str]]:
    """Return the ranks, in order and with their numbers, and notes on processes left out.

    Of several programs that ran one after the other, the ranks are those of the first one.
    """
    chosen: dict[int, ProcessRecord] = {}
    left_out = []
    has_numbers = any(record.numbered_by for record in candidates)
    first_end = min((record.ended_ns or sys.maxsize for record in candidates), default=0)
    for record in candidates:
        number = record.rank if has_numbers else len(chosen)
        is_beside = record.numbered_by if has_numbers else record.begun_ns < first_end
        if number in chosen or not is_beside:
            left_out.append(record)
        elif has_numbers:
            chosen[number] = record
        else:
            chosen[number] = replace(record, rank=number, local_rank=number)
    size = len(chosen)
    ranks = [
        record if record.numbered_by else replace(record, world_size=size)
        for _, record in sorted(chosen.items())
    ]
    return ranks, [_left_out(record) for record in left_out if record.steps]


def _left_out(record: ProcessRecord) -> str:
    words = cut(" ".join(record.command), _SHOWN, Masker().text)
    return (
        f"A process that is left out made {counted(record.steps, 'step')} as well: {words}. It ran"
        " beside the first program or after it; profile it by a command of its own."
    )


def _located(out: Path, record: ProcessRecord, parallel: Parallel) -> tuple[Rank, str]:
    """Return the rank with its coordinates, and what named them."""
    located = rank_files.pop_coordinates(out, record.as_rank())
    if located.source and located.source != "configuration":
        numbers = {"rank": record.rank, "world_size": record.world_size}
        rank = Rank(
            **numbers,
            local_rank=record.local_rank,
            dp=located.rank.dp,
            tp=located.rank.tp,
            pp=located.rank.pp,
            ep=located.rank.ep,
        )
        return rank, located.source
    rank = configured_rank(record.rank, record.world_size, record.local_rank, parallel)
    return rank, "configuration"


def _lack(out: Path, records: Sequence[ProcessRecord], replacing: str) -> str:
    if (out / TOO_OLD).is_file():
        return (
            f"{(out / TOO_OLD).read_text().strip()}, and profkit looks into programs of Python 3.11"
            " and newer: run it with such a Python"
        )
    if not records and replacing:
        return (
            f"{replacing} replaces PYTHONPATH, by which profkit reaches the program: keep the"
            " earlier value there as well, as PYTHONPATH=src:$PYTHONPATH does"
        )
    if not records:
        return (
            "no process of the command imported torch where profkit could see it: check that it"
            " runs PyTorch on this host, waits for it (what it leaves in the background is ended"
            " with it), and runs it neither as python -I or -E nor with a PYTHONPATH that a script"
            " replaces"
        )
    return (
        f"{counted(len(records), 'process', 'es')} imported torch, and none made a step: call"
        " profkit.step() at the end of each step, or set workload.step=forward if the program"
        " calls a module but no optimizer"
    )
