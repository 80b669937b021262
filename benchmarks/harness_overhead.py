"""What profkit adds to a step of a script: with no profiler, and under torch.profiler.

    python benchmarks/harness_overhead.py

``examples/ddp_gpt.py``, whose defaults are the sizes of ``gpt_tiny``, notes by itself when its
steps end, in four programs that take turns: bare; in a capture without a profiler; with a
``torch.profiler`` snippet written into it; in a capture with ``torch_profiler``. Each turn gives
two ratios of median step times, and the result is the median over the turns with the interval of
a bootstrap over them. The time that the process computes is less disturbed by what else runs on
the machine than the time that passes, so both are printed. One rank with one thread.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from profkit.errors import ProfkitError
from profkit.uncertainty import Times, interval

EXAMPLE = Path(__file__).parents[1] / "examples" / "ddp_gpt.py"
SKIPPED = 20

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
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60, help="steps that are measured per turn")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        programs = _programs(Path(folder), args.steps)
        taken: dict[str, list[Times]] = {name: [] for name in programs}
        for turn in range(args.turns):
            # Every other turn goes backwards: a machine that gets slower favours nobody.
            for name in list(programs)[:: -1 if turn % 2 else 1]:
                taken[name].append(_step_times(programs[name], Path(folder), args.steps))
    for with_it, without in (("baseline", "bare"), ("torch_profiler", "by hand")):
        for clock, what in enumerate(("elapsed", "computing")):
            print(f"{with_it} / {without}, {what}:", end="  ")
            print(
                _compared(
                    [each[:, clock] for each in taken[with_it]],
                    [each[:, clock] for each in taken[without]],
                )
            )


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
