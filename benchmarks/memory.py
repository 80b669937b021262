"""Memory snapshots at size: from pickle to drawings, timeline and tables, beside PyTorch's own.

    python benchmarks/memory.py [--snapshot FILE] [--megabytes 1600]

The history of a real snapshot (by default one of `$PROFKIT_REAL_DATA` or ``../shared/data``) is
repeated until its pickle has the size asked for. Each program runs in a process of its own,
imports included; its peak is the largest resident set that the system saw (``ru_maxrss``).
PyTorch's functions print the text that flame graphs are drawn from, and no more: the command
around them then downloads what draws it. profkit's job `convert` leaves all drawings, the
timeline and the tables. At the end, what it left is opened in Chromium, where that is installed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.core.errors import ProfkitError
from profkit.planning.imported_runs import add_run, find, import_kinds

_REAL = "memory/niu_forward_backward_100.pickle"
_TOOL, _KIND = import_kinds()["snapshot"]

_LOAD = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
"""
_UNCOLLECTED = "import gc; gc.disable()" + _LOAD
_TORCH = (
    _LOAD
    + """
from torch.cuda import _memory_viz
with open(sys.argv[1] + ".txt", "w") as file:
    file.write(_memory_viz.{function}(snapshot, format_flamegraph=str))
"""
)
_READ = """
import sys
from pathlib import Path
from profkit.convert.memory_snapshot import snapshot
snapshot.read(Path(sys.argv[1]))
"""
_DRAWN = """
new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a program took."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def main(argv: Sequence[str]) -> None:
    """Print the comparison."""
    options = _parser().parse_args(argv)
    source = options.snapshot or _default()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        os.chdir(scratch)
        path = Path("rank0.pickle").resolve()
        writer = Path(__file__).with_name("snapshot_replicas.py")
        command = [sys.executable, str(writer), str(source), str(path), str(options.megabytes)]
        subprocess.run(command, check=True)
        run = add_run(find([path], _KIND), _TOOL, _KIND, name="benchmark", command="benchmark")
        _compare(path, run)
        _open_all(Path("results/runs") / run / "convert" / _TOOL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshot", type=_absolute, help="pickle whose history is repeated")
    parser.add_argument("--megabytes", type=int, default=1600, help="size of the pickle")
    parser.add_argument("--scratch", type=_absolute, help="folder for temporary files")
    return parser


def _absolute(path: str) -> Path:
    return Path(path).resolve()


def _default() -> Path:
    data = os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data")
    if not (real := Path(data) / _REAL).is_file():
        sys.exit(f"{real}: no such file; name a snapshot with --snapshot")
    return real.resolve()


def _compare(path: Path, run: str) -> None:
    """Print a line for each program, on the same file."""
    programs = {
        "pickle.load": ["-c", _LOAD, str(path)],
        "pickle.load without gc": ["-c", _UNCOLLECTED, str(path)],
        "PyTorch: segments, text": ["-c", _TORCH.format(function="segments"), str(path)],
        "PyTorch: memory, text": ["-c", _TORCH.format(function="memory"), str(path)],
        "profkit: read": ["-c", _READ, str(path)],
        "profkit: convert": ["-m", "profkit", *_convert(run)],
    }
    found = {}
    print(f"{'':26}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}{'of pickle.load: CPU':>21}{'peak':>7}")
    for name, command in programs.items():
        cost = found[name] = _measured([sys.executable, *command])
        base = found["pickle.load"]
        ratios = f"{cost.cpu_seconds / base.cpu_seconds:20.2f}x{cost.peak_mb / base.peak_mb:6.2f}x"
        numbers = f"{cost.seconds:9.1f}{cost.cpu_seconds:8.1f}{cost.peak_mb:9.0f}"
        print(f"{name:26}{numbers}{ratios}", flush=True)
    base, ours = found["pickle.load"], found["profkit: convert"]
    _judge("time", ours.cpu_seconds / base.cpu_seconds, 3)
    _judge("memory", ours.peak_mb / base.peak_mb, 1.3)


def _judge(what: str, ratio: float, goal: float) -> None:
    said = "met" if ratio <= goal else "missed"
    print(f"goal: at most {goal} times the {what} of pickle.load: {ratio:.2f}, {said}")


def _convert(run: str) -> list[str]:
    folder = Path("results/runs") / run
    capture = folder / "capture" / _TOOL / "rep0"
    tables, files = folder / "tables" / _TOOL, folder / "convert" / _TOOL
    words = ["convert", _TOOL, "--captures", capture, "--tables", tables, "--files", files]
    return [str(word) for word in words]


def _measured(command: Sequence[str]) -> Measured:
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        started = subprocess.Popen(command, stdout=said, stderr=said)
        _, status, used = os.wait4(started.pid, 0)
        seconds = time.perf_counter() - begun
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            said.seek(0)
            raise ProfkitError(f"{command[1:3]} failed: {said.read()[-2000:]}")
    return Measured(
        seconds=seconds,
        cpu_seconds=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss * 1024 / 1e6,
    )


def _open_all(folder: Path) -> None:
    """Print how long each drawing takes to open, until the browser has painted it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - for this part alone
    except ImportError:
        program = None
    if program is None:
        print("Chromium or playwright is not installed: no file was opened")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for path in sorted([*folder.resolve().glob("*.svg"), *folder.resolve().glob("*.html")]):
            page = browser.new_page()
            begun = time.perf_counter()
            page.goto(path.as_uri())
            page.evaluate(_DRAWN)
            seconds = time.perf_counter() - begun
            name = path.name.partition(".")[2]
            print(f"opened {name:34}{path.stat().st_size / 1e6:6.2f} MB {seconds:6.2f} s")
            page.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
