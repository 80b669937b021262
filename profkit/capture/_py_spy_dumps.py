"""Starts the workload and has ``py-spy dump`` look at it now and then, until it ends.

Run as ``python -m``, as the parent of a rank. Every dump is a line of ``<label>.dumps.jsonl`` at
once, with all threads; what they say together becomes a file for speedscope.app at the end.
"""

import argparse
import ctypes
import json
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from profkit.capture.base import executable

_DUMP_TIMEOUT_S = 60
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
# <linux/prctl.h>: "Yama" in ASCII, and any process.
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = -1

Dump = list[dict[str, Any]]
"""The threads of one dump, as py-spy describes them."""


def main(argv: Sequence[str]) -> int:
    """Run the workload that `argv` ends with; return its exit status."""
    options = _parser().parse_args(argv)
    workload = subprocess.Popen(options.workload, preexec_fn=_tracing_allowed())  # noqa: PLW1509
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda number, _: workload.send_signal(number))
    taken: list[tuple[float, Dump]] = []
    last_s = time.monotonic()
    with options.out.with_suffix(".dumps.jsonl").open("w", buffering=1) as file:
        while (status := _waited(workload, options.period_s)) is None:
            threads = _dump(workload.pid, options.flag)
            now_s = time.monotonic()
            if threads is not None:
                file.write(json.dumps({"time_ns": time.time_ns(), "threads": threads}) + "\n")
                taken.append((now_s - last_s, threads))
            last_s = now_s
    document = speedscope(taken, options.filename, options.only)
    options.out.with_suffix(".speedscope.json").write_text(json.dumps(document))
    # What a shell makes of a process that a signal has ended.
    return status if status >= 0 else 128 - status


def _waited(process: "subprocess.Popen[bytes]", period_s: float) -> int | None:
    """Return the exit status of `process`, or None if it still runs after `period_s`."""
    try:
        return process.wait(period_s)
    except subprocess.TimeoutExpired:
        return None


def _dump(pid: int, flags: Sequence[str]) -> Dump | None:
    """Return the threads of process `pid` now; None, and why in the log, if that fails."""
    command = [executable("py-spy"), "dump", "--json", *flags, "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_DUMP_TIMEOUT_S, check=True)
        threads: Dump = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
    except (subprocess.TimeoutExpired, ValueError) as error:
        said = str(error)
    else:
        return threads
    sys.stderr.write(f"py-spy dump: {said}\n")
    return None


def _tracing_allowed() -> Callable[[], None]:
    """Return what lets a process that is no ancestor trace this one, which Yama may forbid."""
    if sys.platform != "linux":
        return lambda: None
    library = ctypes.CDLL(None)

    def allow() -> None:
        # Kernels without Yama have no such call, and need none.
        library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(_PR_SET_PTRACER_ANY), 0, 0, 0)

    return allow


def speedscope(
    taken: Sequence[tuple[float, Dump]], filename: str, only: Sequence[str]
) -> dict[str, Any]:
    """Return dumps, with the seconds since the one before, as a file for speedscope.app.

    Each dump stands for those seconds. `filename` is the key of a frame's file, and a thread
    counts where all its flags in `only` are set.
    """
    frames: dict[tuple[str, str, int], int] = {}
    samples: dict[str, list[list[int]]] = defaultdict(list)
    weights: dict[str, list[float]] = defaultdict(list)
    for seconds, threads in taken:
        for thread in threads:
            # A process that begins or ends has threads without Python in them.
            if not thread["frames"] or not all(thread[flag] for flag in only):
                continue
            name = f"Process {thread['pid']} Thread {thread['os_thread_id']}"
            name = f'{name} "{thread["thread_name"]}"' if thread["thread_name"] else name
            keys = [
                (each["name"], each.get(filename) or each["filename"], each["line"])
                for each in reversed(thread["frames"])
            ]
            samples[name].append([frames.setdefault(key, len(frames)) for key in keys])
            weights[name].append(seconds)
    common = {"type": "sampled", "unit": "seconds", "startValue": 0}
    return {
        "$schema": _SCHEMA,
        "exporter": "profkit, from dumps of py-spy",
        "shared": {"frames": [{"name": n, "file": f, "line": at} for n, f, at in frames]},
        "profiles": [
            {
                **common,
                "name": name,
                "endValue": sum(weights[name]),
                "samples": samples[name],
                "weights": weights[name],
            }
            for name in samples
        ],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the files, without their endings")
    parser.add_argument("--period-s", type=float, required=True, help="seconds between dumps")
    parser.add_argument("--flag", action="append", default=[], help="a flag for py-spy dump")
    parser.add_argument("--only", action="append", default=[], help="threads that are active...")
    parser.add_argument("--filename", default="short_filename", help="which name files go by")
    parser.add_argument("workload", nargs="+", help="after --: the command to run")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
