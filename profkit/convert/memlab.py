"""memlab: the memory that each line of a function needed, as a table."""

from pathlib import Path

import msgspec

from profkit.convert.base import Converted, Raw, converter
from profkit.core.errors import InputError
from profkit.tables import schema


class _Line(msgspec.Struct):
    function: str
    file: str
    line: int
    code: str
    peak_bytes: int
    reserved_peak_bytes: int
    allocated_bytes: int
    freed_bytes: int


class _Recorded(msgspec.Struct):
    lines: list[_Line]
    missing: list[str]
    device: str


@converter("memory_lines", pattern="rank*.memlab.json")
def convert(raw: Raw, out: Path) -> Converted:
    """Read the lines of one rank; raises `InputError` for a file of another kind."""
    del out
    try:
        recorded = msgspec.json.decode(raw.path.read_bytes(), type=_Recorded)
    except msgspec.MsgspecError as error:
        raise InputError(f"{raw.path}: not what memlab left: {error}") from None
    count = len(recorded.lines)
    where = {
        "rank": [raw.rank] * count,
        "repeat": [raw.repeat] * count,
        "device": [recorded.device] * count,
    }
    lines = {
        name: [getattr(line, name) for line in recorded.lines] for name in _Line.__struct_fields__
    }
    return Converted(
        tables={"memory_lines": schema.table("memory_lines", where | lines)},
        notes=tuple(_notes(recorded)),
    )


def _notes(recorded: _Recorded) -> list[str]:
    notes = [
        f"There is no Python function {name}: check tools.memlab.functions."
        for name in recorded.missing
    ]
    if not recorded.lines:
        notes.append("None of the functions ran within the window of steps.")
    return notes
