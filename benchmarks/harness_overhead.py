"""What profkit adds to a step of a script: with no profiler, and under torch.profiler.

    python benchmarks/harness_overhead.py

Four kinds take turns: bare, in a capture without a profiler, with a ``torch.profiler`` snippet
written by hand, in a capture with ``torch_profiler``. They do so in two ways.

Inside of one process: what a step of a single layer computes longer. profkit does the same work
for each step whatever the model, so this is what it adds to any; a tenth of a percent of a step
can be measured even on a busy machine, where everything takes longer, this included.

As whole programs: ratios of the median step times that ``examples/ddp_gpt.py``, whose defaults are
the sizes of ``gpt_tiny``, measures itself. This is what a user sees, and wants a quiet machine.
The time that passes and the time that the process computes are both printed.

Results are medians over the rounds, with intervals from a bootstrap over them. One rank with one
thread.
"""

import argparse
import gc
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from profkit import marks
from profkit.analyze.shared.uncertainty import Times, interval, resampled
from profkit.capture.base import Rank, Session
from profkit.capture.baseline import Capture as Baseline
from profkit.capture.harness.ranks.clock import StepClock
from profkit.capture.harness.ranks.recording import step_markers
from profkit.capture.torch_profiler import Capture as TorchProfiler
from profkit.core.errors import ProfkitError
from profkit.workloads.automatic.step_hooks import StepHooks

EXAMPLE = Path(__file__).parents[1] / "examples" / "ddp_gpt.py"
SKIPPED = 20

PAIRS = (("baseline", "bare"), ("torch_profiler", "by hand"))

BLOCK = 200
RECORDED: dict[str, Any] = {
    "skip_first": 1,
    "wait": 0,
    "warmup": 1,
    "active": BLOCK + 2,
    "repeat": 1,
    "gzip": False,
    "key_averages_rows": 0,
}

LOOP = "    for index, (tokens, targets) in enumerate(loader):\n"
STEPPED = "            optimizer.zero_grad()\n"
ENDED = "    dist.destroy_process_group()\n"

NOTED = "            ends.append((time.perf_counter_ns(), time.process_time_ns()))\n"
WRITTEN = '    open(os.environ["STEP_ENDS"], "w").write(json.dumps(ends))\n'
PROFILER = """
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(skip_first={skipped}, wait=0, warmup=1, active={active}),
        on_trace_ready=lambda profile: profile.export_chrome_trace(
            os.environ["STEP_ENDS"] + ".trace"
        ),
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
    )
    profiler.start()
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=20, help="rounds inside of one process")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of whole programs")
    parser.add_argument("--steps", type=int, default=60, help="measured steps of whole programs")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        _print_added(_taken(_inside(Path(folder)), args.blocks))
        programs = {
            name: partial(_step_times, command, Path(folder), args.steps)
            for name, command in _programs(Path(folder), args.steps).items()
        }
        _print_ratios(_taken(programs, args.rounds))


def _taken(kinds: Mapping[str, Callable[[], Times]], rounds: int) -> dict[str, list[Times]]:
    """Return the times of each kind, which take turns."""
    taken: dict[str, list[Times]] = {name: [] for name in kinds}
    for turn in range(rounds):
        # Every other turn goes backwards: a machine that gets slower favours no kind.
        for name in list(kinds)[:: -1 if turn % 2 else 1]:
            taken[name].append(kinds[name]())
    return taken


def _print_added(taken: Mapping[str, Sequence[Times]]) -> None:
    for with_it, without in PAIRS:
        # The fastest steps are those that nothing disturbed.
        fast = {name: np.percentile(taken[name], 10, axis=1) for name in (with_it, without)}
        added = fast[with_it] - fast[without]
        draws = resampled([np.array([difference]) for difference in added], np.median, 2000)
        low, high = np.percentile(draws, [2.5, 97.5]) / 1e3
        print(f"{with_it} adds to {without}: {np.median(added) / 1e3:.0f} us a step", end=" ")
        print(f"[{low:.0f}, {high:.0f}], at best {added.min() / 1e3:.0f}", flush=True)


def _print_ratios(taken: Mapping[str, Sequence[Times]]) -> None:
    for with_it, without in PAIRS:
        for clock, what in enumerate(("passes", "computes")):
            mine, theirs = (
                [times[:, clock] for times in taken[name]] for name in (with_it, without)
            )
            print(f"{with_it} / {without}, {what}: {_compared(mine, theirs)}", flush=True)


def _inside(folder: Path) -> dict[str, Callable[[], Times]]:
    """Return what runs a block of steps in this process, and says how long each computed in ns."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def block(looking: Callable[[], AbstractContextManager[Callable[[], None]]]) -> Times:
        ends = []
        # What a profiler before this one recorded lies in cycles of references.
        gc.collect()
        with looking() as stepped:
            for _ in range(BLOCK + 4):
                torch.autograd.backward(model(torch.ones(2, 8)).sum())
                optimizer.step()
                optimizer.zero_grad()
                stepped()
                ends.append(time.process_time_ns())
        # Recording begins with the third step, and the last writes the trace.
        return np.diff(np.array(ends, dtype=float))[2:-1]

    looks: dict[str, Callable[[], AbstractContextManager[Callable[[], None]]]] = {
        "bare": lambda: nullcontext(lambda: None),
        "baseline": lambda: _harness(Baseline(), (), folder),
        "by hand": lambda: _by_hand(folder),
        "torch_profiler": lambda: _harness(TorchProfiler(**RECORDED), step_markers(), folder),
    }
    return {name: partial(block, looking) for name, looking in looks.items()}


@contextmanager
def _harness(
    tool: Session, marking: tuple[marks.Marker, ...], folder: Path
) -> Iterator[Callable[[], None]]:
    """Look on as a capture does, see `profkit.capture.harness.rank.observe`."""
    marks._marks = marks._Marks()  # noqa: SLF001 - a capture is made once in a process, not here
    rank = Rank()
    with (
        tool.record(folder, rank) as recorder,
        StepClock(folder, rank, recorder, {}) as clock,
        StepHooks("auto"),
    ):
        marks.listen(clock, markers=marking)
        yield lambda: None
        marks.listen()


@contextmanager
def _by_hand(folder: Path) -> Iterator[Callable[[], None]]:
    options = {key: RECORDED[key] for key in ("skip_first", "wait", "warmup", "active", "repeat")}
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(**options),
        on_trace_ready=lambda profile: profile.export_chrome_trace(str(folder / "trace.json")),
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
    ) as profiler:
        yield profiler.step


def _programs(folder: Path, steps: int) -> dict[str, list[str]]:
    """Write the scripts that time themselves, and return the four command lines."""
    bare = _edited(
        EXAMPLE.read_text(),
        {
            '"""Train': 'import json, time\n"""Train',
            LOOP: "    ends = []\n" + LOOP,
            STEPPED: STEPPED + NOTED,
            ENDED: WRITTEN + ENDED,
        },
    )
    profiler = PROFILER.format(skipped=SKIPPED - 1, active=steps)
    by_hand = _edited(
        bare,
        {
            LOOP: profiler + LOOP,
            NOTED: "            profiler.step()\n" + NOTED,
        },
    )
    (folder / "bare.py").write_text(bare)
    (folder / "by_hand.py").write_text(by_hand)
    arguments = ["--batch-size", "2", "--steps", str(SKIPPED + steps + 2)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    schedule = {"skip_first": SKIPPED - 1, "wait": 0, "warmup": 1, "active": steps, "repeat": 1}
    options = {**schedule, "gzip": False, "key_averages_rows": 0}
    script = [str(folder / "bare.py"), *arguments]
    return {
        "bare": [*torchrun, *script],
        "baseline": _capture("baseline", {}, script, folder),
        "by hand": [*torchrun, str(folder / "by_hand.py"), *arguments],
        "torch_profiler": _capture("torch_profiler", options, script, folder),
    }


def _edited(text: str, changes: Mapping[str, str]) -> str:
    """Replace each key, which must be in `text` exactly once."""
    for old, new in changes.items():
        if text.count(old) != 1:
            raise ProfkitError(f"{EXAMPLE} has changed: {old.strip()!r} is not in it once")
        text = text.replace(old, new)
    return text


def _capture(
    tool: str, settings: Mapping[str, object], script: Sequence[str], folder: Path
) -> list[str]:
    workload = {
        "workload": {"name": "script", "command": shlex.join(script)},
        "model": {"name": "none"},
        "launcher": {"name": "torchrun"},
        "world_size": 1,
    }
    out = folder / "results/runs/r/capture" / tool / "rep0"
    flags = ["--out", str(out), "--settings", json.dumps(settings)]
    command = [sys.executable, "-m", "profkit.capture", tool, *flags]
    return [*command, "--workload", json.dumps(workload)]


def _step_times(command: Sequence[str], folder: Path, steps: int) -> Times:
    """Run `command`; return elapsed and computing time in ns, a row for each measured step.

    These are the steps that the profilers record, but for the last, which writes the trace.
    """
    path = folder / "ends.json"
    path.unlink(missing_ok=True)
    environment = {**os.environ, "STEP_ENDS": str(path)}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=folder
    )
    if not path.is_file():
        raise ProfkitError(f"{shlex.join(command)} failed:\n{result.stdout}{result.stderr}")
    ends = np.array(json.loads(path.read_text()), dtype=float)
    return np.diff(ends, axis=0)[SKIPPED - 1 : SKIPPED + steps - 2]


def _compared(mine: Sequence[Times], theirs: Sequence[Times]) -> str:
    medians = [
        (float(np.median(a)), float(np.median(b))) for a, b in zip(mine, theirs, strict=True)
    ]
    ratios = [a / b for a, b in medians]
    ratio = float(np.median(ratios))
    around = interval(ratio, [np.array([value]) for value in ratios])
    bounds = f"[{around.low:.4f}, {around.high:.4f}]" if around else "one turn has no interval"
    times = " and ".join(f"{np.median(side) / 1e6:.2f} ms" for side in zip(*medians, strict=True))
    return f"{ratio:.4f} {bounds}  ({times})"


if __name__ == "__main__":
    main()
