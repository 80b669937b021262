"""Tables of snapshots against what facebookresearch/mosaic (BSD-3-Clause) computes of them.

It counts what the history holds and nothing else: not what was live before, which is why that is
taken off or added here. Ours starts from it, as PyTorch's own viewer does.
"""

from collections import Counter

import pytest

from profkit.analyze.shared.allocation_origins import live_at, peak_event, with_origins
from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import snapshot
from profkit.convert.memory_snapshot.tables import tables

# What its tests state of mosaic_output. 466 bytes were live before, without a range or a context.
BEFORE = 466
CONTEXTS = {"context1": 528274631, "context2": 1212434191, "context3": 514689310}
LEVELS = {0x2263C194BDA7: 1783600757, 0x32FA0599C7F59: 400913725}
WINDOW_US, WINDOW_PEAK = (1759252605604106, 1759252631649942), 202846821

# What it printed when run on each file, of the peak of the history: bytes, blocks, stacks, bytes
# of the largest stack, and its categories ACTIVATION, BACKWARD and OPTIMIZER in our words; all
# that it calls UNKNOWN is of other origins, among them what we tell to be set-up.
AT_PEAK = {
    "drisspg_mini_snapshot": (402752512, 24, 9, 268435456, {"forward": 99328}),
    "magma27_memory_snapshot": (12877758464, 276, 27, 2415919104, {"forward": 11894554624}),
    "mosaic_output": (2255398132, 40, 40, 99091130, {}),
    "niu_forward_100": (412643888, 158, 46, 51200000, {"forward": 321850096}),
    "niu_forward_backward_100": (
        682735240,
        242,
        43,
        90785792,
        {"forward": 321850100, "backward": 88519684, "optimizer": 272357376},
    ),
    "silmont_forward_bf16_128": (256025600, 90, 12, 56623104, {"forward": 256025600}),
    "silmont_mem_snapshot": (3249143816, 17, 14, 1073741824, {"backward": 2694971396}),
}


def read(folder, name):
    """Return a real snapshot, its allocations and its events."""
    path = folder / "memory" / f"{name}.pickle"
    taken = snapshot.read(path)
    made = tables(taken, Raw(path=path, label="r", rank=0, repeat=0), ())
    return taken, made["allocations"].to_pandas(), made["memory_events"].to_pandas()


@pytest.mark.parametrize("name", AT_PEAK)
def test_blocks_stacks_and_origins_at_the_peak_of_the_history_are_those_of_mosaic(real_data, name):
    taken, allocations, _ = read(real_data, name)
    own = with_origins(allocations)
    own = own[own["start_event"] >= 0]
    event, peak_bytes = peak_event(own)
    live = live_at(own, event)
    # Mosaic tells stacks apart by files and lines. Functions of C++ often have neither, so in
    # silmont_mem_snapshot a neg and a mul are one stack to it; by function they are two.
    sums = Counter()
    numbers = taken.devices[0].allocations.stack[live.index]
    for number, size_bytes in zip(numbers, live["size_bytes"], strict=True):
        frames = taken.stacks.known[number] if number >= 0 else ()
        sums[tuple((file, line) for file, line, _ in frames)] += size_bytes
    origins = live.groupby("origin", observed=True)["size_bytes"].sum().to_dict()
    by_origin = {
        word: origins[word] for word in ("forward", "backward", "optimizer") if word in origins
    }
    assert (peak_bytes, len(live), len(sums), max(sums.values()), by_origin) == AT_PEAK[name]


def test_totals_by_context_and_range_are_those_of_mosaic(real_data):
    _, allocations, events = read(real_data, "mosaic_output")
    event, peak_bytes = peak_event(allocations)
    live = live_at(allocations, event).groupby
    by_context = live("context", observed=True)["size_bytes"].sum().to_dict()
    assert by_context == {"": BEFORE, **CONTEXTS}
    by_range = live("annotation", observed=True)["size_bytes"].sum().to_dict()
    assert by_range == {"": BEFORE, "Annotation1": 2255398132}
    assert peak_bytes == 2255398132 + BEFORE
    freed = events[(events["action"] == "free_completed").to_numpy()].set_index("address")
    for address, level in LEVELS.items():
        assert freed.loc[address, "allocated_bytes"] == level + BEFORE
    # Its allocation made the local peak that they state.
    part = events[(events["address"] == 0x32FA0599C7F59).to_numpy()]
    assert part["allocated_bytes"].max() == 577984171 + BEFORE
    inside = events[(events["time_ns"] // 1000).between(*WINDOW_US)]
    highest = inside.loc[inside["allocated_bytes"].idxmax()]
    assert (highest["address"], highest["allocated_bytes"]) == (
        0x231DF1F389C4C,
        WINDOW_PEAK + BEFORE,
    )
