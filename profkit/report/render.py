"""Render the view to HTML: templates with style and scripts inlined."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from profkit.report import view
from profkit.report.embedded_json import embedded_json
from profkit.report.scripts import joined

_ASSETS = files("profkit.report") / "assets"
_FIRST_STYLES = ("colours", "base")
_LAST_STYLES = ("narrow", "print")
"""What others rest on, and what overrides them; between these the order has no meaning."""

_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AROUND_RULES = re.compile(r"\s*([{};])\s*|(?<=[:,])\s+")


def render(report: view.Report) -> str:
    """Return the page of `report`: one HTML text that needs nothing else."""
    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embedded_json"] = lambda value: Markup(embedded_json(value))  # noqa: S704 - encoded
    scripts = _scripts()
    return environment.get_template("report.html.j2").render(
        title=report.title,
        version=report.version,
        shell=_shell(report),
        runs=report.runs,
        blocks=report.blocks,
        style=Markup(styles()),  # noqa: S704 - our files
        scripts={name: Markup(text) for name, text in scripts.items()},  # noqa: S704 - our files
        policy=_policy(scripts.values()),
    )


def code_bytes() -> int:
    """Return the bytes of a page without what it shows: frame, style and scripts."""
    frame = _text("report.html.j2") + _policy(_scripts().values())
    return sum(len(text.encode()) for text in (frame, styles(), *_scripts().values()))


@cache
def _scripts() -> Mapping[str, str]:
    return {"theme": _text("theme_before_paint.js"), "page": joined(_ASSETS / "page", "page.js")}


def _shell(report: view.Report) -> dict[str, Any]:
    """Return what the page knows before a run is opened."""
    shown = {field.name: getattr(report, field.name) for field in fields(report)}
    del shown["blocks"]
    return shown | {"runs": [run.in_menu() for run in report.runs]}


def _text(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def styles() -> str:
    """Return the style sheets of the page as one, each file named after what it styles.

    Comments, and the space around rules and declarations, stay behind.
    """
    folder = _ASSETS / "styles"
    names = sorted(path.name.removesuffix(".css") for path in folder.iterdir())
    middle = [name for name in names if name not in (*_FIRST_STYLES, *_LAST_STYLES)]
    text = "".join(
        (folder / f"{name}.css").read_text(encoding="utf-8")
        for name in (*_FIRST_STYLES, *middle, *_LAST_STYLES)
    )
    return _AROUND_RULES.sub(lambda found: found[1] or "", _STYLE_COMMENT.sub("", text))


def _policy(scripts: Iterable[str]) -> str:
    """Return a Content-Security-Policy that runs these scripts and loads nothing.

    Styles stay open because shares and places are style attributes; images are what charts save.
    """
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
