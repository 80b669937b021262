"""The keys of a trace beside its events, and how a file with both is decoded."""

from collections.abc import Iterator
from typing import Any

import msgspec

from profkit.convert.columns.values import LATEST_NS
from profkit.convert.linking.collectives import groups_of
from profkit.convert.linking.messages import RANKS_BELOW, listed_ranks, plausible
from profkit.convert.torch_profiler.events import DecimalEvent, FloatEvent
from profkit.convert.torch_profiler.plain_events import Block, ExactBlock
from profkit.core.formatting import agreeing


class Header(msgspec.Struct):
    """Top-level keys of a trace, wherever in the file they stand."""

    schemaVersion: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    deviceProperties: Any = None  # noqa: N815
    baseTimeNanoseconds: Any = None  # noqa: N815
    displayTimeUnit: Any = None  # noqa: N815
    metadata: Any = None

    @property
    def base_ns(self) -> int:
        """Time, in unix ns, that timestamps are relative to; 0 if they are not."""
        return max(self._base_ns, 0)

    @property
    def _base_ns(self) -> int:
        """The same, -1 if it is no time."""
        if self.baseTimeNanoseconds is None:
            return 0
        try:
            base = int(self.baseTimeNanoseconds)
        except (TypeError, ValueError, OverflowError):
            return -1
        return base if 0 <= base < LATEST_NS else -1

    @property
    def rank(self) -> int:
        """Global rank that the trace itself states; -1 if it does not."""
        info = self.distributedInfo
        rank = info.get("rank") if isinstance(info, dict) else None
        try:
            return plausible(int(rank), RANKS_BELOW) if rank is not None else -1
        except (TypeError, ValueError, OverflowError):
            return -1

    def faults(self) -> Iterator[str]:
        """Yield what cannot be known because a key has a value that is none."""
        if self._base_ns < 0:
            yield "baseTimeNanoseconds is no time: times count from an unknown start."
        if self.distributedInfo is not None and self.rank < 0:
            yield "distributedInfo states no rank."
        if isinstance(self.distributedInfo, dict):
            yield from self._faults_of_ranks(self.distributedInfo)

    def _faults_of_ranks(self, info: dict[str, Any]) -> Iterator[str]:
        """Yield how ranks and groups contradict the number of ranks."""
        if "world_size" not in info:
            return
        ranks = plausible(info["world_size"], RANKS_BELOW)
        if ranks < 1:
            yield "distributedInfo states no number of ranks."
            return
        if self.rank >= ranks:
            yield f"distributedInfo contradicts itself: rank {self.rank} of {ranks}."
        sizes = [(group.size, listed_ranks(group.ranks)) for group in {*groups_of(info).values()}]
        if wrong := sum(
            size > ranks or max(own, default=0) >= ranks or bool(own and 0 <= size != len(own))
            for size, own in sizes
        ):
            yield agreeing(
                wrong,
                "{} group[s] in distributedInfo [has|have] ranks that contradict their numbers.",
            )

    def merge(self, other: "Header") -> None:
        """Take from `other` what is not known here."""
        for field in self.__struct_fields__:
            if getattr(self, field) is None:
                setattr(self, field, getattr(other, field))


class FloatDocument(Header):
    """The end of a file in object form: the last events and the keys after them."""

    traceEvents: list[FloatEvent] = msgspec.field(default_factory=list)  # noqa: N815


class PlainDocument(Header):
    """The same, if all its events are plain."""

    traceEvents: Block = msgspec.field(default_factory=list)  # noqa: N815


class ExactDocument(Header):
    """The same, where no float holds their times."""

    traceEvents: ExactBlock = msgspec.field(default_factory=list)  # noqa: N815


class DecimalDocument(Header):
    """The end of a file whose events are not plain, with exact times."""

    traceEvents: list[DecimalEvent] = msgspec.field(default_factory=list)  # noqa: N815
