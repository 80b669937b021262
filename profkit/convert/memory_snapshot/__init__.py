"""memory_snapshot: the history of PyTorch's allocator, as tables, flame graphs and a timeline."""

import json
from pathlib import Path

from profkit.convert.base import Converted, Importable, Raw, converter
from profkit.convert.memory_snapshot import flame_graphs, pickles, snapshot, tables, timeline


@converter(
    "allocations",
    "memory_events",
    "stacks",
    "segments",
    "blocks",
    "out_of_memory",
    "allocator_settings",
    pattern="rank*.memory.pickle",
    importable=Importable(
        word="snapshot",
        patterns=("*.pickle", "*.pkl"),
        suffix=".memory.pickle",
        stated_rank=pickles.stated_rank,
        begins=(b"\x80",),
    ),
    after_oom=True,
    whole=True,
)
def convert(raw: Raw, out: Path) -> Converted:
    """Read the snapshot of one rank; leave its flame graphs and its timeline in `out`."""
    taken = snapshot.read(raw.path)
    steps = _steps(raw)
    stem = f"{raw.path.name.removesuffix('.memory.pickle')}.rep{raw.repeat}"
    title = f"{raw.label}, repeat {raw.repeat}"
    for name, drawing in flame_graphs.flame_graphs(taken, title).items():
        (out / f"{stem}.{name}.svg").write_text(drawing, encoding="utf-8")
    for device in taken.devices:
        which = f".{device.name.replace(':', '')}" if len(taken.devices) > 1 else ""
        page = timeline.page(device, taken, steps, f"{title}, {device.name}")
        (out / f"{stem}{which}.timeline.html").write_text(page, encoding="utf-8")
    return Converted(tables=tables.tables(taken, raw, steps), notes=taken.notes)


def _steps(raw: Raw) -> tables.Windows:
    """Return the steps that the harness timed on this rank; none for imported snapshots."""
    path = raw.path.with_name(f"{raw.label}.steps.json")
    if not path.is_file():
        return ()
    return [(start, end) for start, end, *_ in json.loads(path.read_bytes())["steps"]]
