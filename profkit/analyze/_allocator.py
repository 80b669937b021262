"""Replay of PyTorch's caching allocator: memory that another configuration would reserve.

The rules are those of c10/cuda/CUDACachingAllocator.cpp: two pools for each stream, best fit,
splitting, merging of neighbours, and segments of fixed sizes. Left out are the release of
cached segments when the GPU is full, and pools of CUDA graphs.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

_LEAST_BLOCK = 512
_SMALL_SIZE = 1 << 20
_SMALL_SEGMENT = 2 << 20
_LARGE_SEGMENT = 20 << 20
_MIDDLE_SIZE = 10 << 20
_GRANULE = 2 << 20

DEFAULT = "default"
"""Name of the policy of an allocator that nothing was set for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Settings of ``PYTORCH_CUDA_ALLOC_CONF`` about segments."""

    name: str
    """The setting as in the variable; "" for the default."""

    expandable: bool = False
    """Whether segments can grow."""

    max_split_bytes: int = 1 << 62
    """Blocks of this size and more are not split."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Return the policy of the `allocator_settings` of a snapshot, whose sizes are in bytes."""
        expandable = settings.get("expandable_segments") == "True"
        limit = settings.get("max_split_size", "")
        conf = settings.get("PYTORCH_CUDA_ALLOC_CONF") or settings.get("PYTORCH_ALLOC_CONF") or ""
        if not limit.isdecimal():
            return cls(name=conf or DEFAULT, expandable=expandable)
        return cls(name=conf or DEFAULT, expandable=expandable, max_split_bytes=int(limit))


@dataclass(slots=True, eq=False)
class _Block:
    """A piece of a segment; neighbours are known, so that free ones can merge."""

    address: int
    size: int
    pool: "_Pool"
    free: bool = False
    before: "_Block | None" = None
    after: "_Block | None" = None


@dataclass(slots=True)
class _Pool:
    """Segments for small or for large blocks of one stream."""

    small: bool
    free: list[tuple[int, int]] = field(default_factory=list)
    """Size and address of free blocks, in order."""
    blocks: dict[int, _Block] = field(default_factory=dict)
    """Free blocks by address."""
    last: _Block | None = None
    """The end of the segment that grows."""
    start: int = 0
    """Its address."""

    @property
    def page(self) -> int:
        """By how much a segment that can grow does so."""
        return _SMALL_SEGMENT if self.small else _LARGE_SEGMENT

    def put(self, block: _Block) -> None:
        block.free = True
        self.blocks[block.address] = block
        insort(self.free, (block.size, block.address))

    def take(self, block: _Block) -> None:
        block.free = False
        del self.blocks[block.address]
        del self.free[bisect_left(self.free, (block.size, block.address))]


class Allocator:
    """Allocations and frees replayed under one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.reserved_bytes = 0
        self.peak_bytes = 0
        self._pools: defaultdict[tuple[int, bool], _Pool] = defaultdict(lambda: _Pool(small=False))
        self._next_address = 0

    def allocate(self, size_bytes: int, stream: int) -> _Block:
        """Return a block of at least `size_bytes`, reserving more where none is free."""
        size = max(_LEAST_BLOCK, -(-size_bytes // _LEAST_BLOCK) * _LEAST_BLOCK)
        small = size <= _SMALL_SIZE
        pool = self._pools[stream, small]
        pool.small = small
        block = self._best_fit(pool, size) or self._reserved(pool, size)
        if self._splits(block, size):
            self._split(block, size)
        return block

    def free(self, block: _Block) -> None:
        """Give `block` back and merge it with free neighbours."""
        for other in (block.before, block.after):
            if other is not None and other.free:
                block.pool.take(other)
                _merge(block, other)
        block.pool.put(block)

    def needed_bytes(self) -> int:
        """Return what stays reserved when all that is unused is given back to the device."""
        free = (block for pool in self._pools.values() for block in pool.blocks.values())
        return self.reserved_bytes - sum(map(self._releasable, free))

    def _releasable(self, block: _Block) -> int:
        """Return the bytes of a free block that the device can have back: whole pages, segments."""
        if not self.policy.expandable:
            return block.size if block.before is None and block.after is None else 0
        page, start = block.pool.page, block.address - block.pool.start
        first, last = -(-start // page), (start + block.size) // page
        return max(last - first, 0) * page

    def _best_fit(self, pool: _Pool, size: int) -> _Block | None:
        at = bisect_left(pool.free, (size, 0))
        if at == len(pool.free):
            return None
        block = pool.blocks[pool.free[at][1]]
        limit = self.policy.max_split_bytes
        oversized = size < limit <= block.size or (
            size >= limit and block.size >= size + _LARGE_SEGMENT
        )
        if oversized:
            return None
        pool.take(block)
        return block

    def _reserved(self, pool: _Pool, size: int) -> _Block:
        if self.policy.expandable:
            return self._grown(pool, size)
        if pool.small:
            wanted = _SMALL_SEGMENT
        elif size < _MIDDLE_SIZE:
            wanted = _LARGE_SEGMENT
        else:
            wanted = -(-size // _GRANULE) * _GRANULE
        return self._new(pool, wanted)

    def _new(self, pool: _Pool, size: int) -> _Block:
        block = _Block(self._next_address, size, pool)
        # A hole, so that blocks of two segments are never neighbours.
        self._next_address += size + 1
        self._reserve(size)
        return block

    def _reserve(self, size: int) -> None:
        self.reserved_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.reserved_bytes)

    def _grown(self, pool: _Pool, size: int) -> _Block:
        """Return a block at the end of the pool's one segment, which grows by whole pages."""
        page = pool.page
        last = pool.last
        if last is None:
            # Far away from others: the address space is larger than any GPU.
            self._next_address += 1 << 50
            block = self._new(pool, -(-size // page) * page)
            pool.last, pool.start = block, block.address
            return block
        spare = last.size if last.free else 0
        added = -(-(size - spare) // page) * page
        self._reserve(added)
        if last.free:
            pool.take(last)
            last.size += added
            return last
        block = _Block(last.address + last.size, added, pool, before=last)
        last.after = pool.last = block
        return block

    def _splits(self, block: _Block, size: int) -> bool:
        rest = block.size - size
        if block.pool.small or self.policy.expandable:
            return rest >= _LEAST_BLOCK
        return size < self.policy.max_split_bytes and rest > _SMALL_SIZE

    def _split(self, block: _Block, size: int) -> None:
        rest = _Block(
            block.address + size, block.size - size, block.pool, before=block, after=block.after
        )
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        if block.pool.last is block:
            block.pool.last = rest
        block.pool.put(rest)


def _merge(block: _Block, other: _Block) -> None:
    """Make `block` cover its neighbour `other` as well."""
    if other is block.before:
        block.address, block.before = other.address, other.before
        if other.before is not None:
            other.before.after = block
    else:
        block.after = other.after
        if other.after is not None:
            other.after.before = block
        if block.pool.last is other:
            block.pool.last = block
    block.size += other.size


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """What a policy would have reserved."""

    peak_bytes: int
    """At most."""

    needed_bytes: int
    """At the end, when all that is unused is given back to the GPU."""


def replayed(changes: Iterable[tuple[int, int, int]], policy: Policy) -> Replayed:
    """Return what `policy` would reserve.

    `changes` are number of the allocation, its bytes (negative when it is freed) and its stream,
    in the order of time.
    """
    allocator, live = Allocator(policy), {}
    for number, size_bytes, stream in changes:
        if size_bytes >= 0:
            live[number] = allocator.allocate(size_bytes, stream)
        else:
            allocator.free(live.pop(number))
    return Replayed(peak_bytes=allocator.peak_bytes, needed_bytes=allocator.needed_bytes())
