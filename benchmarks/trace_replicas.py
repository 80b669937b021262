"""Write one trace several times over, one after the other in time, each with its own ids and steps.

python benchmarks/trace_replicas.py SOURCE TARGET REPLICAS

What has no category stands in it once, as in a recording of that length: the names of processes and
threads, and when recording began and ended.
"""

import gzip
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_GAP_US = 1000
_IDS = "correlation", "External id", "Sequence number"
_END = "Record Window End"
_STEP = re.compile(r"ProfilerStep#(\d+)")


def main(source: Path, target: Path, replicas: int) -> None:
    """Write `target`, plain JSON, and print its size."""
    content = source.read_bytes()
    trace = json.loads(gzip.decompress(content) if source.suffix == ".gz" else content)
    events = trace.pop("traceEvents")
    spans = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") not in ("Trace", "overhead")
    ]
    span = int(max(end for _, end in spans) - min(start for start, _ in spans)) + _GAP_US
    ids = {key: 1 + _greatest(events, key) for key in _IDS}
    marks = filter(None, (_STEP.fullmatch(event.get("name", "")) for event in events))
    steps = len({int(mark[1]) for mark in marks})
    with target.open("w") as file:
        file.write(json.dumps(trace)[:-1] + ', "traceEvents": [')
        for number in range(replicas):
            moved = (
                _numbered(_moved(event, number, span, ids), number * steps)
                for event in events
                if "cat" in event or number == (replicas - 1 if event.get("name") == _END else 0)
            )
            file.write(("," if number else "") + ",\n".join(map(json.dumps, moved)))
        file.write("]}")
    print(f"{replicas} times {len(events):,} events, {target.stat().st_size / 1e6:.0f} MB of JSON")


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


def _numbered(event: dict[str, Any], steps: int) -> dict[str, Any]:
    """Count the steps of one replica on from those of the one before."""
    mark = _STEP.fullmatch(event.get("name", ""))
    return event | {"name": f"ProfilerStep#{int(mark[1]) + steps}"} if mark else event


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
