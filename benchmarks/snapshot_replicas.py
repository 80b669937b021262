"""Write one memory snapshot with its history several times over, as large as is asked for.

python benchmarks/snapshot_replicas.py SOURCE TARGET MEGABYTES
"""

import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_GAP_US = 1000


def main(source: Path, target: Path, megabytes: int) -> None:
    """Write `target`, and print its size.

    Stacks, sizes and addresses stay those of `source`. Entries share what they share there: the
    frames among all of them, the list of frames between the entries of one replica.
    """
    with source.open("rb") as file:
        snapshot = pickle.load(file)  # noqa: S301 - a file that the user names
    trace = max(snapshot["device_traces"], key=len)
    # What a replica adds to the file is known only once the frames are in it.
    one, two = (len(_written(snapshot, trace, count)) for count in (1, 2))
    replicas = max(1, round((megabytes * 1e6 - one) / (two - one)) + 1)
    content = _written(snapshot, trace, replicas)
    target.write_bytes(content)
    print(f"{len(trace) * replicas:,} entries, {len(content) / 1e6:.0f} MB of pickle")


def _written(snapshot: dict[str, Any], trace: list[dict[str, Any]], replicas: int) -> bytes:
    first = trace[0].get("time_us", 0)
    span = trace[-1].get("time_us", 0) - first + _GAP_US
    entries = [entry for number in range(replicas) for entry in _moved(trace, number * span)]
    # torch.cuda.memory._dump_snapshot pickles with the default protocol.
    return pickle.dumps(snapshot | {"device_traces": [entries]})


def _moved(trace: Iterable[dict[str, Any]], later_us: int) -> Iterable[dict[str, Any]]:
    lists: dict[int, list[Any]] = {}
    for entry in trace:
        moved = dict(entry)
        if "frames" in entry:
            frames = entry["frames"]
            moved["frames"] = lists.setdefault(id(frames), list(frames))
        if "time_us" in entry:
            moved["time_us"] = entry["time_us"] + later_us
        yield moved


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
