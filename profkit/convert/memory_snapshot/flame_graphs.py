"""Flame graphs of a snapshot: memory at the end by stack and by segment, and at the peak."""

from collections.abc import Iterator

from profkit.convert.drawing import flamegraph
from profkit.convert.memory_snapshot.segments import Segment
from profkit.convert.memory_snapshot.snapshot import Device, Snapshot
from profkit.convert.memory_snapshot.tables import by_stack

Weighted = Iterator[tuple[tuple[str, ...], float]]


def flame_graphs(snapshot: Snapshot, title: str) -> dict[str, str]:
    """Return the flame graphs of a snapshot as SVG, by name."""
    drawn = {}
    if snapshot.segments:
        shown = f"{title}: device memory at the end, by state and stack"
        drawn["memory"] = flamegraph.svg(weighted_blocks(snapshot), unit="bytes", title=shown)
        shown = f"{title}: device memory at the end, by segment"
        drawn["segments"] = flamegraph.svg(
            weighted_blocks(snapshot, segments=True), unit="bytes", title=shown
        )
    recorded = [device for device in snapshot.devices if len(device.events.action)]
    if recorded:
        shown = f"{title}: what was live at the peak, by stack"
        drawn["peak"] = flamegraph.svg(
            _weighted_at_peak(snapshot, recorded), unit="bytes", title=shown
        )
    return drawn


def weighted_blocks(snapshot: Snapshot, *, segments: bool = False) -> Weighted:
    """Yield device, stream, segment if `segments`, state and stack of each block, and its bytes.

    These are the sums of ``torch.cuda._memory_viz.memory`` and ``segments``: a block counts with
    its requested bytes, and the bytes added by rounding up stand below "(rounding)".
    """
    for segment in snapshot.segments:
        path: tuple[str, ...] = (f"{snapshot.kind}:{segment.device}", f"stream {segment.stream}")
        if segments:
            path += (f"segment {segment.address:#x} {segment.kind}".strip(),)
        yield from _of_segment(snapshot, segment, path)


def _of_segment(snapshot: Snapshot, segment: Segment, path: tuple[str, ...]) -> Weighted:
    for block in segment.blocks:
        state = (*path, block.state)
        if block.state == "inactive":
            yield state, block.size_bytes
            continue
        yield (*state, *snapshot.stacks.names(block.stack)), block.requested_bytes
        if block.size_bytes > block.requested_bytes:
            yield (*state, "(rounding)"), block.size_bytes - block.requested_bytes


def _weighted_at_peak(snapshot: Snapshot, devices: list[Device]) -> Weighted:
    for device in devices:
        for number, _, size in zip(*(column.tolist() for column in by_stack(device)), strict=True):
            if size:
                yield (device.name, *snapshot.stacks.names(number)), size
