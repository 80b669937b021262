"""What profkit prints, without control characters: names come from files, terminals obey them.

What the profiled program itself prints goes to the streams below, as bytes, and stays as it is.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from profkit.core.formatting import without_controls


class PrintedText:
    """Writes text to a stream without control characters but those that lay it out."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        """For what lays out text by control characters, and cleans what it is given itself."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write `text`."""
        return self.stream.write(without_controls(text, keeps_lines=True))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write `lines`, each as it comes."""
        for line in lines:
            self.write(line)


@contextmanager
def printed_text() -> Iterator[None]:
    """Write without control characters to both streams while the context is open."""
    with redirect_stdout(_cleaned(sys.stdout)), redirect_stderr(_cleaned(sys.stderr)):
        yield


def stream_below(stream: TextIO) -> TextIO:
    """Return what `stream` writes to, for what cleans text itself."""
    return stream.stream if isinstance(stream, PrintedText) else stream


def _cleaned(stream: TextIO) -> TextIO:
    # A job may be the fork of a command.
    return stream if isinstance(stream, PrintedText) else cast("TextIO", PrintedText(stream))
