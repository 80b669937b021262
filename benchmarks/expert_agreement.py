"""The verdict on every real recording beside what an expert says of it.

    python benchmarks/expert_agreement.py [PART OF A NAME ...]

Takes each file of `tests/expected/verdicts.md` that is a trace, a snapshot, or a report of Nsight
from `$PROFKIT_REAL_DATA` (or ``../shared/data``), and prints what ``profkit show FILE`` says of it,
and whether the limiter and the first action agree; of every step, whether its causes sum to it. For
snapshots and Nsight Compute, whose words differ, it prints both sides. Ends with 1 if fewer than
90 % agree in the limiter or in the first action, or if the causes of a step do not sum to it. Takes
about two CPU seconds a file.
"""

import gzip
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from profkit.cli.answer import verdict_on
from profkit.cli.run_folders import RunFolder
from profkit.cli.unkept_run import unkept_run
from profkit.core import result
from profkit.core.errors import ProfkitError
from profkit.core.verdict import Verdict
from profkit.report.verdict_text import lines

ROOT = Path(__file__).parents[1]
GOAL = 0.9
MOST_REST = 0.001
NOTHING = "record-more"
SYNONYMS = {"one-off-startup": NOTHING}
"""Kinds that are one thing to do: record steady steps."""

OF_PATTERN = {
    "short_kernels": "cuda-graphs",
    "fp32_matmuls": "mixed-precision",
    "unfused_elementwise": "compile-fusion",
    "unfused_norm": "compile-fusion",
    "loading_in_main_process": "dataloader-workers",
    "images_in_the_main_process": "dataloader-workers",
    "layout_changes": "channels-last",
    "broadcast_buffers": "ddp-broadcast-buffers",
    "unfused_attention": "sdpa",
    "start_up_in_steps": "one-off-startup",
    "one_large_gather": "reduce-communication",
    "attention_on_hopper": "attention-kernel",
    "results_copied_back": "blocking-call",
    "values_read_back": "blocking-call",
}
OF_CAUSE = {
    r"exposed_communication\.waiting$": "fix-straggler",
    r"exposed_communication": "overlap-communication",
    r"gpu_idle\.(?:blocked|not_started)": "blocking-call",
    r"gpu_idle\.python": "cuda-graphs",
}


def main(argv: Sequence[str]) -> int:
    """Compare on every file whose name contains one of `argv`; return 1 below the goal."""
    data = Path(os.environ.get("PROFKIT_REAL_DATA", ROOT.parent / "shared/data"))
    agreed: list[tuple[bool, bool]] = []
    steps: list[bool] = []
    for expert in said_by_expert():
        name = expert["file"]
        kind = kind_of(name)
        if not kind or (argv and not any(part in name for part in argv)):
            continue
        verdict, sums = shown(data / name, kind)
        steps += sums
        print(f"{name}:", *(lines(verdict) if verdict else ["no verdict"]), sep="\n", flush=True)
        if expert["part"] != "step":
            print(f"    expert: {expert['limiter']}, {expert['first_action_kind']}", flush=True)
            continue
        agreed.append(compared(expert, asdict(verdict) if verdict else {}))
    counts = [sum(limiter for limiter, _ in agreed), sum(action for _, action in agreed)]
    print(f"of {len(agreed)}: {counts[0]} agree in the limiter, {counts[1]} in the first action")
    print(f"of {len(steps)} steps: the causes of {sum(steps)} sum to the step, none negative")
    return int(min(counts) < GOAL * len(agreed) or not all(steps))


def said_by_expert() -> Iterator[dict[str, Any]]:
    """Yield the block of each file."""
    text = (ROOT / "tests/expected/verdicts.md").read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        yield yaml.safe_load(block)


def kind_of(name: str) -> str:
    """Return what `profkit import` calls the file; empty if it imports none such."""
    if name.startswith("kineto/"):
        return "trace"
    suffixes = {".sqlite.gz": "nsys", ".pickle": "snapshot", ".ncu-rep": "ncu"}
    return next((kind for suffix, kind in suffixes.items() if name.endswith(suffix)), "")


def shown(path: Path, kind: str) -> tuple[Verdict | None, list[bool]]:
    """Return the verdict on one file or folder, as ``profkit show`` has it, and `step_sums`."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "nsys":
            unpacked = Path(folder, path.name.removesuffix(".gz"))
            unpacked.write_bytes(gzip.decompress(path.read_bytes()))
            path = unpacked
        try:
            with unkept_run([path]) as (run, *_):
                return verdict_on(RunFolder(run)), list(step_sums(run))
        except ProfkitError as error:
            print(f"{path}: {error}")
            return None, []


def step_sums(run: Path) -> Iterator[bool]:
    """Yield for each step of each rank whether its causes sum to it and none is negative."""
    path = run / "analyze/causes.json"
    tables = result.read(path).result.tables if path.is_file() else {}
    for row in tables["by_step"].records() if "by_step" in tables else ():
        step_ns = row.pop("step_time_ns")
        times = [time for name, time in row.items() if name.endswith("_ns")]
        yield min(times) >= 0 and abs(sum(times) - step_ns) <= MOST_REST * step_ns


def compared(expert: Mapping[str, Any], verdict: Mapping[str, Any]) -> tuple[bool, bool]:
    """Print both sides; return whether the limiter and the first action agree."""
    limiter = verdict.get("limiter", "no verdict")
    kinds = [kind_of_action(action) for action in verdict.get("actions", ())] or [NOTHING]
    wanted = expert["first_action_kind"]
    found = limiter == expert["limiter"], same(wanted, kinds[0])
    second = "" if found[1] or not any(same(wanted, kind) for kind in kinds) else " (not first)"
    print(f"    limiter {'agrees' if found[0] else 'differs'}: {expert['limiter']} | {limiter}")
    print(
        f"    action {'agrees' if found[1] else 'differs'}: {wanted}{second} | {kinds}", flush=True
    )
    return found


def same(one: str, other: str) -> bool:
    """Say whether two kinds are one thing to do."""
    return SYNONYMS.get(one, one) == SYNONYMS.get(other, other)


def kind_of_action(action: Mapping[str, Any]) -> str:
    """Return the expert's word for an action; the name of its pattern or cause if there is none."""
    pattern, cause = str(action.get("pattern", "")), str(action["cause"])
    if pattern:
        return OF_PATTERN.get(pattern, pattern)
    if str(action["advice"]).startswith("Record "):
        return NOTHING
    return next((kind for part, kind in OF_CAUSE.items() if re.match(part, cause)), cause)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
