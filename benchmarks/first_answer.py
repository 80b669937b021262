"""How long the first answer takes: on a trace, on a program, on the default run; beside peers.

    python benchmarks/first_answer.py [traces] [program] [default] [--times 5]

Each number is the median of several processes, from start to exit, each in an empty folder: seconds
of the clock, and CPU seconds of all processes that were started. Traces are two of those in
`$PROFKIT_REAL_DATA` (or ``../shared/data``), or those that ``--traces`` names. The program trains
for about ten seconds; py-spy and pyinstrument profile the same one. Of the default run, the second
number is what it takes where the captures are there already.
"""

import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_BIN = Path(sys.executable).parent
_PROFKIT = str(_BIN / "profkit")
_TRACES = (
    "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta/trace_diff/control/control.json.gz",
)
_HTA = "import sys; from hta.trace_analysis import TraceAnalysis; "
_HTA += "TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='.')"
_PROGRAM = """\
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(256, 512)).square().mean().backward()
    optimizer.step()
"""
_PROGRAM_S = 10.0
_STEPS = 50
"""Steps by which it is found how many take that long here."""

_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
"""An installed package is compiled: one that may not be would be compiled by each process."""

_FROM_CAPTURES = ("tables", "convert", "analyze", "timeline", "manifest.json")
"""What jobs after the captures leave in the folder of a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """Medians of several processes."""

    clock_s: float
    cpu_s: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(_PARTS)}; all if left out")
    parser.add_argument("--times", type=int, default=5, help="processes per number")
    parser.add_argument("--traces", type=Path, nargs="+", help="traces to take, packed or not")
    args = parser.parse_args()
    for part in args.parts or _PARTS:
        _PARTS[part](args)


def _traces(args: argparse.Namespace) -> None:
    """Print how long the report, and the answer in the terminal, of each trace take."""
    data = Path(os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data"))
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(args.traces or [data / "kineto" / name for name in _TRACES]):
            trace = Path(folder, f"trace{number}.json")
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rb") as packed, trace.open("wb") as plain:
                shutil.copyfileobj(packed, plain)
            size = f"{trace.stat().st_size / 1e6:.0f} MB"
            hta = _median([sys.executable, "-c", _HTA, str(trace)], args.times)
            print_taken(f"{size}: HTA's load", hta)
            shown = _median([_PROFKIT, "show", str(trace)], args.times)
            print_taken(f"{size}: profkit show", shown, hta)
            made = _median([_PROFKIT, "import", "trace", str(trace)], args.times)
            print_taken(f"{size}: profkit import, to the report", made, hta)


def _program(args: argparse.Namespace) -> None:
    """Print how much longer a program takes under each profiler."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        command = [sys.executable, str(script)]
        script.write_text(_PROGRAM.replace("STEPS", str(_STEPS)))
        started_s = _median([sys.executable, "-c", "import torch"], 3).clock_s
        step_s = max(0.001, _median(command, 3).clock_s - started_s) / _STEPS
        script.write_text(_PROGRAM.replace("STEPS", str(int((_PROGRAM_S - started_s) / step_s))))
        plain = _median(command, args.times)
        print_taken("the program", plain)
        peers = {
            "py-spy record": [str(_BIN / "py-spy"), "record", "-o", "out.svg", "--", *command],
            "pyinstrument": [str(_BIN / "pyinstrument"), "-r", "html", "-o", "o.html", str(script)],
            "profkit profile, to the report": [_PROFKIT, "profile", "--", *command],
            "profkit profile --all": [_PROFKIT, "profile", "--all", "--", *command],
        }
        for name, peer in peers.items():
            print_taken(name, _median(peer, args.times), plain)


def _default(args: argparse.Namespace) -> None:
    """Print how long the default run takes, and what of it is not capturing."""
    whole, rest = [], []
    for _ in range(args.times):
        with tempfile.TemporaryDirectory() as folder:
            command = [_PROFKIT, "run", "--quiet"]
            whole.append(measured(command, folder))
            for run in Path(folder, "results/runs").iterdir():
                for name in _FROM_CAPTURES:
                    path = run / name
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            Path(folder, "results/report.html").unlink()
            rest.append(measured(command, folder))
    print_taken("the default run", middle(whole))
    print_taken("without its captures", middle(rest))


def _median(command: Sequence[str], times: int) -> Taken:
    taken = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            taken.append(measured(command, folder))
    return middle(taken)


def middle(taken: Sequence[Taken]) -> Taken:
    """Return the medians of `taken`."""
    return Taken(
        clock_s=statistics.median(one.clock_s for one in taken),
        cpu_s=statistics.median(one.cpu_s for one in taken),
    )


def measured(command: Sequence[str], folder: str) -> Taken:
    """Run `command` in `folder`; raises `RuntimeError` with what it said if it fails."""
    with tempfile.TemporaryFile("w+") as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        _, status, usage = os.wait4(process.pid, 0)
        clock_s = time.perf_counter() - begun
        if status:
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{said.read()[-2000:]}")
    return Taken(clock_s=clock_s, cpu_s=usage.ru_utime + usage.ru_stime)


def print_taken(name: str, taken: Taken, peer: Taken | None = None) -> None:
    """Print a line about `taken`, beside that of a peer."""
    ratio = f"  {taken.clock_s / peer.clock_s:5.2f} times as long" if peer else ""
    more = f", {taken.clock_s - peer.clock_s:+.1f} s" if peer else ""
    print(f"{name:36} {taken.clock_s:6.2f} s  {taken.cpu_s:6.2f} CPU s{ratio}{more}", flush=True)


_PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "traces": _traces,
    "program": _program,
    "default": _default,
}


if __name__ == "__main__":
    main()
