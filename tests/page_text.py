"""What a report holds, without a browser: the data that its script shows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DATA = re.compile(r'<script type="application/json" id="data-([^"]+)">(.*?)</script>', re.DOTALL)


def page_data(path: Path) -> dict[str, Any]:
    """Return the data of the report at `path`: `report` is the page's, `run-1` a run's."""
    return {name: json.loads(text) for name, text in _DATA.findall(path.read_text())}


def page_text(path: Path) -> str:
    """Return every text that the report at `path` can show, a line each."""
    return "\n".join(_texts(page_data(path)))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from _texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child)
