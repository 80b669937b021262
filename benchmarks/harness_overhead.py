"""What profkit adds to a step of a script: with no profiler, and under torch.profiler.

    python benchmarks/harness_overhead.py

The script is ``examples/ddp_gpt.py``, whose defaults are the sizes of ``gpt_tiny``. It is compared
bare and in a capture without a profiler, and with a ``torch.profiler`` snippet written into it and
in a capture with ``torch_profiler``. These four take turns in two ways: inside of one process, a
block of steps each, which tells a thousandth even on a busy machine; and as whole programs that
note by themselves when their steps end, which is what a user sees, and wants a quiet machine.

Each turn gives a ratio of median step times; the result is the median over the turns, with its
interval from a bootstrap over them. The time that the process computes is disturbed less by others
than the time that passes, so both are printed. One rank with one thread.
"""

import argparse
import gc
import json
import os
import runpy
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
from profkit.capture.base import Rank, Session
from profkit.capture.baseline import Capture as Baseline
from profkit.capture.harness.clock import StepClock
from profkit.capture.harness.markers import markers
from profkit.capture.torch_profiler import Capture as TorchProfiler
from profkit.errors import ProfkitError
from profkit.uncertainty import Times, interval
from profkit.workloads.automatic.watch import Watch

EXAMPLE = Path(__file__).parents[1] / "examples" / "ddp_gpt.py"
SKIPPED = 20

_BLOCK = 12
_RECORDED: dict[str, Any] = {
    "skip_first": 1,
    "wait": 0,
    "warmup": 1,
    "active": _BLOCK + 2,
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
        on_trace_ready=lambda each: each.export_chrome_trace(os.environ["STEP_ENDS"] + ".trace"),
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
    )
    profiler.start()
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=30, help="turns inside of one process")
    parser.add_argument("--turns", type=int, default=10, help="turns of whole programs")
    parser.add_argument("--steps", type=int, default=60, help="measured steps of whole programs")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        inside = _inside(Path(folder))
        _print("inside", _taken(inside, args.blocks))
        programs = {
            name: partial(_step_times, command, Path(folder), args.steps)
            for name, command in _programs(Path(folder), args.steps).items()
        }
        _print("outside", _taken(programs, args.turns))


def _taken(kinds: Mapping[str, Callable[[], Times]], turns: int) -> dict[str, list[Times]]:
    """Return the times of each kind, which take turns."""
    taken: dict[str, list[Times]] = {name: [] for name in kinds}
    for turn in range(turns):
        # Every other turn goes backwards: a machine that gets slower favours nobody.
        for name in list(kinds)[:: -1 if turn % 2 else 1]:
            taken[name].append(kinds[name]())
    return taken


def _print(where: str, taken: Mapping[str, Sequence[Times]]) -> None:
    if not taken["bare"]:
        return
    for with_it, without in (("baseline", "bare"), ("torch_profiler", "by hand")):
        for clock, what in enumerate(("elapsed", "computing")):
            mine, theirs = ([each[:, clock] for each in taken[name]] for name in (with_it, without))
            print(f"{where}: {with_it} / {without}, {what}: {_compared(mine, theirs)}", flush=True)


def _inside(folder: Path) -> dict[str, Callable[[], Times]]:
    """Return what runs a block of steps of this process, bare and with whom looks on."""
    model = runpy.run_path(str(EXAMPLE))["GPT"](2048, 64, 4, 4, 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(2048, (2, 65))

    def step() -> None:
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

    def block(looking: Callable[[], AbstractContextManager[Callable[[], None]]]) -> Times:
        ends = []
        # What a profiler before this one recorded lies in cycles of references: hundreds of MB.
        gc.collect()
        with looking() as stepped:
            for _ in range(_BLOCK + 4):
                step()
                stepped()
                ends.append((time.perf_counter_ns(), time.process_time_ns()))
        # Recording begins with the third step, and the last writes the trace.
        return np.diff(np.array(ends, dtype=float), axis=0)[2:-1]

    looks: dict[str, Callable[[], AbstractContextManager[Callable[[], None]]]] = {
        "bare": lambda: nullcontext(lambda: None),
        "baseline": lambda: _harness(Baseline(), (), folder),
        "by hand": lambda: _by_hand(folder),
        "torch_profiler": lambda: _harness(TorchProfiler(**_RECORDED), markers(), folder),
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
        Watch("auto"),
    ):
        marks.listen(clock, markers=marking)
        yield lambda: None
        marks.listen()


@contextmanager
def _by_hand(folder: Path) -> Iterator[Callable[[], None]]:
    options = {key: _RECORDED[key] for key in ("skip_first", "wait", "warmup", "active", "repeat")}
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(**options),
        on_trace_ready=lambda each: each.export_chrome_trace(str(folder / "trace.json")),
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
    around = interval(ratio, [np.array([each]) for each in ratios])
    bounds = f"[{around.low:.4f}, {around.high:.4f}]" if around else "one turn has no interval"
    times = " and ".join(f"{np.median(each) / 1e6:.2f} ms" for each in zip(*medians, strict=True))
    return f"{ratio:.4f} {bounds}  ({times})"


if __name__ == "__main__":
    main()
