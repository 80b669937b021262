"""Trace JSON to tables: MB/s and peak memory beside `json.loads` and HTA on the same file.

    python benchmarks/trace_reading.py [--trace FILE] [--replicas N] [--without-hta]

The trace is repeated in time `--replicas` times. Without `--trace` it is a real one where
`$PROFKIT_REAL_DATA` (or ``../shared/data``) has it, and otherwise one that torch.profiler makes.
Each reader runs in a process of its own, in turn, and the fastest of `--repeats` runs counts; the
peak is that process's resident memory.
"""

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_REAL = "kineto/tracelens/h100/google_owlv2-large-patch14-ensemble__1016001.json.gz"
_READERS = {"json": "json.loads", "hta": "HTA", "profkit": "profkit to Parquet"}
_GAP_US = 1000


def main(argv: Sequence[str]) -> None:
    """Print one line per reader."""
    options = _parser().parse_args(argv)
    if options.reader:
        _measure(options.reader, options.trace)
        return
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "trace" / "rank0.pt.trace.json"
        path.parent.mkdir()
        events = _replicate(options.trace or _default(Path(scratch)), path, options.replicas)
        size = path.stat().st_size
        print(f"{events:,} events, {size / 1e6:.0f} MB of JSON, {os.cpu_count()} cores")
        print(f"{'':22}{'seconds':>9}{'MB/s':>9}{'peak MB':>9}{'slower':>9}")
        readers = [each for each in _READERS if not (each == "hta" and options.without_hta)]
        runs = [{each: _run(each, path) for each in readers} for _ in range(options.repeats)]
        results = {each: min(run[each] for run in runs) for each in readers}
        best = results["profkit"][0]
        for reader, (seconds, peak_mb) in results.items():
            speed, ratio = size / 1e6 / seconds, seconds / best
            name = _READERS[reader]
            print(f"{name:22}{seconds:9.2f}{speed:9.1f}{peak_mb:9.0f}{ratio:8.1f}x")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="trace to repeat")
    parser.add_argument("--replicas", type=int, default=10, help="how often it is repeated")
    parser.add_argument("--repeats", type=int, default=2, help="runs of each reader")
    parser.add_argument("--without-hta", action="store_true", help="HTA takes most of the time")
    parser.add_argument("--reader", choices=_READERS, help=argparse.SUPPRESS)
    return parser


def _default(scratch: Path) -> Path:
    data = os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data")
    real = Path(data) / _REAL
    return real if real.is_file() else _recorded(scratch / "recorded.json")


def _recorded(path: Path) -> Path:
    """Record some training steps of a small network."""
    import torch  # noqa: PLC0415 - only where no real trace is at hand
    from torch.profiler import profile  # noqa: PLC0415

    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(20)))
    optimizer = torch.optim.AdamW(model.parameters())
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as profiler:
        for _ in range(40):
            model(torch.ones(4, 32)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(path))
    return path


def _replicate(source: Path, target: Path, replicas: int) -> int:
    """Write `source` `replicas` times, with new ids each time; return the number of events."""
    content = source.read_bytes()
    trace = json.loads(gzip.decompress(content) if source.suffix == ".gz" else content)
    events = trace.pop("traceEvents")
    spans = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") not in ("Trace", "overhead")
    ]
    span = int(max(end for _, end in spans) - min(start for start, _ in spans)) + _GAP_US
    ids = {key: 1 + _greatest(events, key) for key in ("correlation", "External id")}
    with target.open("w") as file:
        file.write(json.dumps(trace)[:-1] + ', "traceEvents": [')
        for number in range(replicas):
            moved = (_moved(event, number, span, ids) for event in events)
            text = ",\n".join(map(json.dumps, moved))
            file.write(("," if number else "") + text)
        file.write("]}")
    return len(events) * replicas


def _greatest(events: Sequence[dict[str, Any]], key: str) -> int:
    return max((int(event.get("args", {}).get(key, 0)) for event in events), default=0)


def _moved(event: dict[str, Any], number: int, span: int, ids: dict[str, int]) -> dict[str, Any]:
    moved = event | {"ts": round(event["ts"] + number * span, 3)}
    if "args" in event:
        moved["args"] = event["args"] | {
            key: event["args"][key] + number * step
            for key, step in ids.items()
            if key in event["args"]
        }
    return moved


def _run(reader: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, __file__, "--reader", reader, "--trace", str(path)]
    # HTA writes its log to stderr.
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, peak_mb = output.split()[-2:]
    return float(seconds), float(peak_mb)


def _measure(reader: str, path: Path) -> None:
    """Read `path` in this process; print seconds and peak resident MB. Imports do not count."""
    read = {"json": _with_json, "hta": _with_hta, "profkit": _with_profkit}[reader]
    seconds = read(path)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(seconds, peak_mb)


def _with_json(path: Path) -> float:
    begun = time.perf_counter()
    json.loads(path.read_bytes())
    return time.perf_counter() - begun


def _with_hta(path: Path) -> float:
    from hta.trace_analysis import TraceAnalysis  # noqa: PLC0415 - heavy, and only in its process

    begun = time.perf_counter()
    TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent))
    return time.perf_counter() - begun


def _with_profkit(path: Path) -> float:
    import pyarrow.parquet as pq  # noqa: PLC0415

    from profkit.convert import kineto  # noqa: PLC0415

    begun = time.perf_counter()
    for name, table in kineto.read(path, rank=0).tables.items():
        pq.write_table(table, path.with_name(f"{name}.parquet"), compression="zstd")
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(sys.argv[1:])
