"""Texts of strangers in Markdown: nothing in them makes a link, calls a person or ends a table."""

import re

from profkit.core.formatting import shortened, without_controls
from profkit.core.secret_masking import Masker

_LONGEST = 400
# What GitHub, GitLab and Jira give a meaning within a line; an underscore within a word has none.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ADDRESS = re.compile(r"://|(?<=www)\.")
# A reference to a person or to another issue would reach people who have nothing to do with it.
_REFERENCE = re.compile(r"(?<!\w)@(?=\w)|#(?=\d)|!(?=\d)")
_CODE = re.compile(r"`([^`]+)`")
_PAGE = re.compile(r"https?://[^\s<>\\]+")
_TICKS = re.compile(r"`+")


class Words:
    """Writes words as Markdown within one line, without the secrets that `masker` knows."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker

    def plain(self, text: str) -> str:
        """Return `text` as it reads, whatever is in it."""
        return _escaped(self._line(text))

    def prose(self, text: str) -> str:
        """Return a sentence in which what stands between backticks is code."""
        pieces = _CODE.split(self._line(text))
        return "".join(
            _code(piece) if index % 2 else _escaped(piece) for index, piece in enumerate(pieces)
        )

    def code(self, text: str) -> str:
        """Return `text` as code."""
        return _code(self._line(text))

    def link(self, text: str, address: str) -> str:
        """Return a link to a page of the web; empty if `address` is none."""
        return f"[{text}](<{address}>)" if _PAGE.fullmatch(address) else ""

    def block(self, text: str) -> list[str]:
        """Return the lines of a block of code."""
        lines = [self._line(line, len(line)) for line in text.splitlines()]
        longest = max((len(ticks) for line in lines for ticks in _TICKS.findall(line)), default=0)
        fence = "`" * max(3, longest + 1)
        return [f"{fence}text", *lines, fence]

    def _line(self, text: str, longest: int = _LONGEST) -> str:
        return without_controls(shortened(self._masker.text(text), longest))


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(r"\\\g<0>", text)
    text = _ADDRESS.sub(r"\\\g<0>", text)
    return _REFERENCE.sub(r"\g<0><!-- -->", text)


def _code(text: str) -> str:
    """Return a code span; a bar would end the cell of a table even within one."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest or not text.strip() else ""
    escaped = text.replace("|", r"\|")
    return f"{fence}{space}{escaped}{space}{fence}"


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table whose cells are written as Markdown already."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
