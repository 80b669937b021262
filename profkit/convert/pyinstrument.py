"""pyinstrument: sampled Python stacks, as a table and a flame graph."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from profkit.convert._harness_steps import step_of, steps_of
from profkit.convert._sampled_stacks import Sums, draw, table
from profkit.convert.base import Converted, Raw, converter
from profkit.core.errors import InputError

# pyinstrument's own writing of a frame: name, file and first line of the function; then, each
# after the second mark, attributes that begin with a letter: l for the line, c for the class.
_PART = "\x00"
_ATTRIBUTE = "\x01"
_NS = 1e9
_THREAD = "<thread>"
_BUILT_IN = "<built-in>"


class Session(msgspec.Struct):
    """The parts of `pyinstrument.session.Session.to_json` that are needed here."""

    frame_records: list[tuple[list[str], float]]
    start_time: float = 0.0
    sys_path: list[str] = []
    sys_prefixes: list[str] = []


@converter("sampled_stacks", pattern="rank*.pyinstrument.json")
def convert(raw: Raw, out: Path) -> Converted:
    """Read the session of one rank; leave its flame graph in `out`."""
    session = decoded(raw.path)
    sums = stacks(session)
    notes = () if sums else ("No sample was taken: the workload was shorter than the interval.",)
    draw(sums, raw, out)
    of_steps = {step: stacks(part) for step, part in _by_step(session, steps_of(raw)).items()}
    return Converted(tables={"sampled_stacks": table(of_steps, raw)}, notes=notes)


def decoded(path: Path) -> Session:
    """Parse a session; raises `InputError` with the reason if it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Session)
    except msgspec.ValidationError as error:
        what = f"not a session of pyinstrument: {error}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"damaged JSON: {error}"
    raise InputError(f"{path}: {what}", hint="capture again")


def _by_step(session: Session, steps: NDArray[np.int64]) -> dict[int, Session]:
    """Return the session in parts, by the step in which half of the time of a sample was over."""
    times = np.array([seconds for _, seconds in session.frame_records])
    middle = session.start_time * _NS + (np.cumsum(times) - times / 2) * _NS
    numbers = step_of(middle.astype(np.int64), steps)
    return {
        step: msgspec.structs.replace(
            session,
            frame_records=[session.frame_records[at] for at in np.flatnonzero(numbers == step)],
        )
        for step in dict.fromkeys(numbers.tolist())
    }


def stacks(session: Session) -> Sums:
    """Return the samples summed over equal stacks, with files named from the folder of imports."""
    # The longest folder first: site-packages lies inside a prefix.
    folders = sorted({*session.sys_path, *session.sys_prefixes} - {""}, key=len, reverse=True)
    names: dict[str, str] = {}
    sums: Sums = defaultdict(lambda: (0, 0.0))
    for frames, seconds in session.frame_records:
        for frame in frames:
            if frame not in names:
                names[frame] = _name(frame, folders)
        threads = [frame for frame in frames if _is_thread(frame)]
        path = tuple(names[frame] for frame in frames if not _is_thread(frame))
        key = names[threads[0]] if threads else "", path
        samples, time_ns = sums[key]
        sums[key] = samples + 1, time_ns + seconds * 1e9
    return dict(sums)


def _is_thread(frame: str) -> bool:
    return frame.split(_PART)[1:2] == [_THREAD]


def _name(frame: str, folders: Sequence[str]) -> str:
    """Return a frame as `function (file:line)`, methods after their class."""
    identity, *attributes = frame.split(_ATTRIBUTE)
    function, file, first_line = (*identity.split(_PART), "", "")[:3]
    marked = {attribute[:1]: attribute[1:] for attribute in attributes}
    if not file or file == _THREAD:
        return function
    if class_name := marked.get("c"):
        function = f"{class_name}.{function}"
    if file == _BUILT_IN:
        return f"{function} (built-in)"
    line = marked.get("l") or first_line
    return f"{function} ({_shortened(file, folders)}:{line})"


def _shortened(file: str, folders: Sequence[str]) -> str:
    inside = (folder for folder in folders if file.startswith(f"{folder}/"))
    return file[len(folder) + 1 :] if (folder := next(inside, "")) else file
