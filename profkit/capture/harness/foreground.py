"""What links a capture to the terminal of the person who waits for it, if somebody does.

Between the two is a workflow, which has neither the terminal's input nor its output for a job.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

INPUT = "PROFKIT_INPUT"
"""Environment variable with the path of what followed commands read, such as a terminal."""

OUTPUT = "PROFKIT_OUTPUT"
"""Environment variable with the path that their output is copied to as it comes."""

END = "PROFKIT_END"
"""Environment variable with the path of a file: once it exists, followed commands are interrupted
as by Ctrl-C, and what they recorded until then is kept."""

ENDED_EARLY = "ended_early"
"""File in the folder of a capture, of a process that was ended after the steps asked for."""

_QUIET_S = 120.0
"""Longer than other processes take to write what they recorded, when all were ended at once."""

_IDLE_S = 15.0
"""The same where all of them sleep."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreground:
    """Paths of what a command is linked to; "" for what it is not."""

    input: str = os.devnull
    output: str = ""
    end: str = ""
    folder: str = ""
    """Folder of the capture."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Foreground":
        """Return the links that the caller asks for."""
        return cls(
            input=environment.get(INPUT) or os.devnull,
            output=environment.get(OUTPUT, ""),
            end=environment.get(END, ""),
        )

    @contextmanager
    def opened_input(self) -> Iterator[int]:
        """Open the input while the context is open; it becomes no controlling terminal."""
        descriptor = os.open(self.input, os.O_RDONLY | os.O_NOCTTY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @property
    def is_to_end(self) -> bool:
        """Whether the command is to be interrupted."""
        return bool(self.end) and Path(self.end).exists()

    @property
    def has_ended_early(self) -> bool:
        """Whether a process was ended after the steps asked for."""
        return bool(self.folder) and (Path(self.folder) / ENDED_EARLY).exists()

    def is_left_waiting(self, worked_s: float) -> bool:
        """Say whether what is left of the command only waits for a process that was ended early.

        Nothing was printed, and no step made, for a while since; `worked_s` is when one of its
        processes was last seen at work.
        """
        if not self.has_ended_early:
            return False
        newest = 0.0
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it was just renamed
                    newest = max(newest, entry.stat().st_mtime)
        now = time.time()
        return now - newest > _QUIET_S or now - max(newest, worked_s) > _IDLE_S
