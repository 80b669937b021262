"""Snapshots of a caching allocator, made event by event, so that what they hold is known."""

import pickle

MIB = 1 << 20
DEFAULT = {
    "PYTORCH_CUDA_ALLOC_CONF": "",
    "expandable_segments": False,
    "max_split_size": -1,
    "garbage_collection_threshold": 0.0,
}
EXPANDABLE = DEFAULT | {
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "expandable_segments": True,
}
_DISTANCE = 1 << 32


class Device:
    """A GPU whose allocator is told what to do; stacks are (name, file, line) from the inside."""

    def __init__(self, settings=DEFAULT):
        self.settings = settings
        self.events = []
        self.segments = {}
        self.live = {}

    def segment(self, mib, stack):
        """Reserve a segment; return its address."""
        address = (len(self.segments) + 1) * _DISTANCE
        self.segments[address] = mib * MIB
        self._note("segment_alloc", mib * MIB, stack, addr=address)
        return address

    def allocate(self, address, mib, stack):
        """Allocate at the begin of a segment."""
        self.live[address] = mib * MIB, stack
        self._note("alloc", mib * MIB, stack, addr=address)

    def free(self, address):
        """Free what begins there."""
        size, stack = self.live.pop(address)
        for action in ("free_requested", "free_completed"):
            self._note(action, size, stack, addr=address)

    def run_out(self, mib, free_mib, stack):
        """Ask for more than there is."""
        self._note("oom", mib * MIB, stack, device_free=free_mib * MIB)

    def write(self, path):
        """Write the snapshot."""
        segments = [self._segment(address, size) for address, size in self.segments.items()]
        content = {
            "segments": segments,
            "device_traces": [self.events],
            "allocator_settings": self.settings,
        }
        path.write_bytes(pickle.dumps(content))

    def _note(self, action, size, stack, **more):
        when = 10 * len(self.events)
        event = {"action": action, "size": size, "stream": 0, "time_us": when}
        self.events.append(event | {"frames": _frames(stack)} | more)

    def _segment(self, address, total):
        size, stack = self.live.get(address, (0, ()))
        block = {"size": size, "requested_size": size, "state": "active_allocated"}
        rest = {"size": total - size, "requested_size": total - size, "state": "inactive"}
        blocks = [block | {"frames": _frames(stack)}, rest | {"frames": []}]
        where = {"address": address, "total_size": total, "stream": 0, "device": 0}
        kept = [block for block in blocks if block["size"]]
        return where | {"segment_type": "large", "blocks": kept}


def _frames(stack):
    return [{"name": name, "filename": file, "line": line} for name, file, line in stack]
