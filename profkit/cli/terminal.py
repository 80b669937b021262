"""A console of rich that colors and lays out, and passes on no control character of a text."""

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from profkit.cli.printed_text import stream_below
from profkit.core.formatting import without_controls


class Terminal(Console):
    """Prints words and tables of them, which may come from strangers, to `stream`."""

    def __init__(self, stream: TextIO, **options: Any) -> None:
        super().__init__(file=stream_below(stream), highlight=False, **options)

    def on_broken_pipe(self) -> None:
        """Pass on that the reader has gone, as all that prints without a console does."""
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> Text:
        """Return `text`, which takes the room that is measured, to be laid out."""
        return super().render_str(without_controls(text, keeps_lines=True), **options)
