"""Pages and drawings of one file: a template, its style and its script put together, and the data.

The template has ``$`` placeholders. Its style and its script lie beside it under the same name, and
are written into the page, which so needs no network and no other file.
"""

import json
from pathlib import Path
from string import Template
from typing import Any


def filled(template: Path, **texts: str) -> str:
    """Return the file `template` with its placeholders replaced by `texts`, style and script.

    `texts` are markup already: callers escape names that come from users.
    """
    page, style, script = (
        template.with_suffix(suffix).read_text(encoding="utf-8")
        for suffix in (template.suffix, ".css", ".js")
    )
    return Template(page).substitute(texts, style=style, script=script)


def embedded_json(value: Any) -> str:
    """Return `value` as JSON for a script element, which no text in it can end."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
