"""py-spy: sampled Python stacks, as a table, a flame graph and a file for speedscope.app."""

import gzip
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from profkit.convert._sampled_stacks import Sums, draw, table
from profkit.convert.base import Converted, Raw, converter
from profkit.convert.columns.values import LATEST_NS
from profkit.core.errors import InputError
from profkit.core.formatting import agreeing, counted

_NS = {
    "seconds": 1e9,
    "milliseconds": 1e6,
    "microseconds": 1e3,
    "nanoseconds": 1.0,
}
_TYPES = ("sampled", "evented")
_TOLERANCE = 0.01
_GZIP = b"\x1f\x8b"


class _Frame(msgspec.Struct):
    name: str
    file: str | None = None
    line: int | None = None


class _Shared(msgspec.Struct):
    frames: list[_Frame]


class _Event(msgspec.Struct):
    type: str
    frame: int
    at: float


class _Profile(msgspec.Struct):
    type: str
    name: str = ""
    unit: str = "none"
    samples: list[list[int]] = []
    weights: list[float] = []
    events: list[_Event] = []
    startValue: float = math.nan  # noqa: N815
    endValue: float = math.nan  # noqa: N815


class Speedscope(msgspec.Struct):
    """A file of https://www.speedscope.app/file-format-schema.json: one profile per thread."""

    shared: _Shared
    profiles: list[_Profile]


@converter("sampled_stacks", pattern="rank*.speedscope.json*")
def convert(raw: Raw, out: Path) -> Converted:
    """Read the speedscope file of one rank; leave it and its flame graph in `out`."""
    text = _text(raw.path)
    sums, notes = stacks(decoded(raw.path, text))
    name = f"{raw.label}.rep{raw.repeat}"
    (out / f"{name}.speedscope.json").write_bytes(text)
    draw(sums, raw, out)
    return Converted(tables={"sampled_stacks": table({-1: sums}, raw)}, notes=tuple(notes))


def _text(path: Path) -> bytes:
    content = path.read_bytes()
    try:
        return gzip.decompress(content) if content.startswith(_GZIP) else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip data: {error}", hint="capture again") from None


def decoded(path: Path, text: bytes) -> Speedscope:
    """Parse a speedscope file; raises `InputError` with the reason if it is damaged."""
    if not text.strip():
        raise InputError(f"{path}: the file is empty", hint="py-spy found no sample; run longer")
    try:
        return msgspec.json.decode(text, type=Speedscope)
    except msgspec.ValidationError as error:
        what = f"not a speedscope file: {error}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"damaged JSON: {error}"
    raise InputError(f"{path}: {what}", hint="write it with `py-spy record --format speedscope`")


def stacks(file: Speedscope) -> tuple[Sums, list[str]]:
    """Return the samples of `file` summed over equal stacks, and notes on unusable ones."""
    names = [_name(frame) for frame in file.shared.frames]
    sums: Sums = defaultdict(lambda: (0, 0.0))
    notes = []
    for profile in file.profiles:
        unit_ns = _NS.get(profile.unit)
        if unit_ns is None:
            notes.append(f"Profile {profile.name!r} counts {profile.unit}, not time: left out.")
            continue
        lost = absurd = 0
        for count, frames, weight in _weighted_stacks(profile):
            if not 0 <= weight * unit_ns < LATEST_NS:
                absurd += 1
                continue
            if not all(0 <= frame < len(names) for frame in frames):
                lost += 1
                continue
            key = profile.name, tuple(names[frame] for frame in frames)
            samples, time_ns = sums[key]
            sums[key] = (samples + count if count >= 0 else -1, time_ns + weight * unit_ns)
        faults = {"name[s|] no known frame": lost, "last[s|] as no sample can": absurd}
        notes += [
            agreeing(count, f"{{}} sample[s] of {{name!r}} {fault}: left out.", name=profile.name)
            for fault, count in faults.items()
            if count
        ]
        notes += _contradictions(profile)
    return dict(sums), notes


def _contradictions(profile: _Profile) -> Iterator[str]:
    """Yield what a profile says against itself."""
    name, start, end = repr(profile.name), profile.startValue, profile.endValue
    if profile.type not in _TYPES:
        yield f"Profile {name} is of type {profile.type!r}, which is not known: left out."
        return
    if not profile.samples and not profile.events:
        yield f"Profile {name} holds no sample."
    if len(profile.samples) != len(profile.weights):
        yield (
            f"Profile {name} has {counted(len(profile.samples), 'sample')} and"
            f" {counted(len(profile.weights), 'weight')}: what has no partner is left out."
        )
    lasting = sum(profile.weights)
    # Comparing with NaN, where it states no start or end, is never true.
    if profile.weights and abs(end - start - lasting) > _TOLERANCE * max(lasting, 0):
        yield (
            f"Profile {name} begins at {start:g} and ends at {end:g}, but its samples last"
            f" {lasting:g}, in {profile.unit}."
        )
    if wrong := _wrong_events(profile.events):
        yield agreeing(
            wrong,
            "{} event[s] of {name} go[es|] back in time, or open[s|] or close[s|] what [it|they]"
            " cannot.",
            name=name,
        )


def _wrong_events(events: Sequence[_Event]) -> int:
    """Return how many events contradict those before them; frames that are never closed too."""
    opened: list[int] = []
    wrong, now = 0, float("-inf")
    for event in events:
        wrong += event.at < now
        now = event.at
        if event.type == "O":
            opened.append(event.frame)
        elif event.type != "C" or not opened or opened.pop() != event.frame:
            wrong += 1
    return wrong + len(opened)


def _weighted_stacks(profile: _Profile) -> Iterator[tuple[int, Sequence[int], float]]:
    """Yield count, frames from the root, and weight."""
    if profile.type == "sampled":
        for frames, weight in zip(profile.samples, profile.weights, strict=False):
            yield 1, frames, weight
        return
    if profile.type not in _TYPES:
        return
    # Evented: frames open and close, and the time between two events belongs to the open stack.
    opened: list[int] = []
    for event, following in zip(profile.events, profile.events[1:], strict=False):
        if event.type == "O":
            opened.append(event.frame)
        elif opened:
            opened.pop()
        if opened and following.at > event.at:
            yield -1, tuple(opened), following.at - event.at


def _name(frame: _Frame) -> str:
    line = frame.file or ""
    if line and frame.line:
        line = f"{line}:{frame.line}"
    return f"{frame.name} ({line})" if line else frame.name
