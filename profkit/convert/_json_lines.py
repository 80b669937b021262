"""Files with a JSON object on each line, which a process writes for as long as it lives."""

from pathlib import Path
from typing import TypeVar

import msgspec

from profkit.core.formatting import counted

T = TypeVar("T")


def complete_lines(path: Path, kind: type[T]) -> tuple[list[T], list[str]]:
    """Return the lines as `kind`, and notes; a process that was killed leaves half a last one."""
    decode, found, broken = msgspec.json.Decoder(kind).decode, [], 0
    for text in path.read_bytes().splitlines():
        try:
            found.append(decode(text))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            broken += 1
    return found, [f"{counted(broken, 'damaged line')} left out."] if broken else []
