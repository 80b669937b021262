"""The person at the terminal and the program that a workflow runs: its output, input and end."""

import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from profkit.capture.harness import foreground
from profkit.capture.harness.record.last_words import OF_PROFILER
from profkit.cli import snakemake_process
from profkit.process import caller_environment

_BLOCK_BYTES = 1 << 16
_SAME_S = 0.3
"""Within this another signal is the same one: ``timeout`` sends it to the group as well."""

_MAY_BE_OF_PROFILER = re.compile(rb"USDT:|ERROR: External|\[W\d{4} ")


@dataclass
class ProgramLink:
    """What the program prints, and which signal has ended it early."""

    folder: Path
    ended_by: int = 0
    """The number of the signal, 0 if there was none."""
    ended_s: float = 0.0
    """When that signal came, by `time.monotonic`."""
    printed: bytearray = field(default_factory=bytearray)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables by which captures find the link."""
        own = {foreground.OUTPUT: str(self._output), foreground.END: str(self._end)}
        return own | ({foreground.INPUT: os.ttyname(0)} if os.isatty(0) else {})

    @property
    def _output(self) -> Path:
        return self.folder / "output"

    @property
    def _end(self) -> Path:
        return self.folder / "end"

    def take(self) -> bytes:
        """Return what was printed since the last call, without what is only of the profiler."""
        with self.lock:
            printed = bytes(self.printed)
            last = printed.rfind(b"\n") + 1
            kept = len(printed) if _MAY_BE_OF_PROFILER.match(printed, last) is None else last
            del self.printed[:kept]
        return OF_PROFILER.sub(b"", printed[:kept])

    def listen(self) -> None:
        """Read what programs print, one after the other, until this process ends."""
        os.mkfifo(self._output)
        # Open for writing as well, as it would else be at its end with the end of the first one.
        descriptor = os.open(self._output, os.O_RDWR)
        threading.Thread(target=self._read, args=(descriptor,), daemon=True).start()

    def _read(self, descriptor: int) -> None:
        while block := os.read(descriptor, _BLOCK_BYTES):
            with self.lock:
                self.printed += block

    def end(self, signum: int, frame: FrameType | None) -> None:
        """End the program, and at the second time everything."""
        del frame
        if self.ended_by:
            if time.monotonic() - self.ended_s > _SAME_S:
                snakemake_process.stop(signum)
            return
        self.ended_by, self.ended_s = signum, time.monotonic()
        self._end.touch()
        again = "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name
        sys.stderr.write(
            "\nending the program, which has a minute for that; the report is made of what was"
            f" recorded until now ({again} again ends that as well)\n"
        )


@contextmanager
def linked_program() -> Iterator[ProgramLink]:
    """Link the program that the workflow of this context runs to the terminal, and Ctrl-C to it.

    And SIGTERM, by which ``timeout`` and schedulers end what takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="profkit-") as folder:
        link = ProgramLink(Path(folder))
        link.listen()
        heeded = caller_environment.heeded([signal.SIGINT, signal.SIGTERM])
        before = {signum: signal.signal(signum, link.end) for signum in heeded}
        try:
            yield link
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
