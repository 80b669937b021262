"""Steps of a rank in a report: from its NVTX ranges, or from the harness that ran it."""

import json
from collections import Counter
from pathlib import Path

import numpy as np

from profkit.convert.linking.steps import StepSpans
from profkit.convert.nsys.gathered import OWN_DOMAIN, Rows
from profkit.convert.nsys.names import is_warm_up, round_of, step_of
from profkit.convert.nsys.report import Nvtx
from profkit.convert.nsys.store import Ints

_OWN = ("step#", "ProfilerStep#")


def steps(rows: Rows, folder: Path) -> StepSpans:
    """Return the steps that NVTX ranges mark; without one, those that a file in `folder` has.

    profkit's own ranges win over PyTorch's, those over what else is named like steps, and that over
    steps of a warm-up. Those in profkit's domain win over all: where nsys has PyTorch emit NVTX,
    each is there a second time.
    """
    marked = _marked(rows)
    if len(marked.number):
        return marked
    timed = _timed(rows, folder)
    if len(timed.number):
        rows.report.notes.append(
            f"No NVTX range marks a step of rank {rows.rank}: its steps are those that the harness"
            " timed."
        )
    return timed


def _marked(rows: Rows) -> StepSpans:
    nvtx = rows.report.nvtx
    ranges = _own_or_all(rows.ranges_of_rank(), nvtx)
    found = [step_of(nvtx.texts[row]) for row in ranges.tolist()]
    if not any(found):
        found = [round_of(nvtx.texts[row]) for row in ranges.tolist()]
    families = Counter(step[0] for step in found if step)
    if not families:
        return StepSpans.none()
    measured = [name for name, _ in families.most_common() if not is_warm_up(name)]
    family = next(name for name in (*_OWN, *measured, *families) if name in families)
    at = [row for row, step in enumerate(found) if step and step[0] == family]
    number = np.array([found[row][1] for row in at], dtype=np.int64)  # type: ignore[index]
    start, end = nvtx.columns["start"][ranges[at]], rows.ends(ranges[at])
    order = np.argsort(start, kind="stable")
    number, start, end = number[order], start[order], end[order]
    if family == _OWN[0]:
        # One that is begun again, after an evaluation, is the step; what was before is in none.
        last = np.append(number[1:] != number[:-1], [True])
        number, start, end = number[last], start[last], end[last]
    if len(np.unique(number)) < len(number):
        rows.report.notes.append(
            f"Ranges {family!r} of rank {rows.rank} repeat their numbers: steps are numbered by"
            " time instead."
        )
        number = np.arange(len(start))
    return StepSpans(number, start, end)


def _own_or_all(ranges: Ints, nvtx: Nvtx) -> Ints:
    """Return those of `ranges` that are steps in profkit's domain; all if none is."""
    domains = nvtx.domains_of(ranges)
    own = [
        row
        for row, domain in zip(ranges.tolist(), domains, strict=True)
        if domain == OWN_DOMAIN and step_of(nvtx.texts[row])
    ]
    return np.array(own, dtype=np.int64) if own else ranges


def _timed(rows: Rows, folder: Path) -> StepSpans:
    """Return the steps that the harness timed while the report was recorded."""
    files = sorted(folder.glob(f"rank{rows.rank}_*.steps.json"))
    if not files or not rows.report.base_ns:
        return StepSpans.none()
    try:
        timed = json.loads(files[0].read_bytes())["steps"]
        spans = np.array([step[:2] for step in timed], dtype=np.int64).reshape(len(timed), 2)
    except (ValueError, TypeError, KeyError, OSError) as error:
        rows.report.notes.append(f"{files[0].name} was not read: {error!r}")
        return StepSpans.none()
    start, end = (spans - rows.report.base_ns).T
    seen = np.flatnonzero((end > 0) & (start < rows.report.last_ns))
    if len(spans) and not len(seen):
        rows.report.notes.append(
            f"No step of rank {rows.rank}, of {len(spans)}, lies in what was recorded: choose other"
            " times, or steps (tools.nsys.capture_range)."
        )
    return StepSpans(seen, start[seen], end[seen])
