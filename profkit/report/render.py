"""Render the view to HTML: templates with style and scripts inlined."""

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from profkit.report import view
from profkit.report.embedded_json import embedded_json

_ASSETS = files("profkit.report") / "assets"
_THEME = ("theme_before_paint.js",)
_PLOTLY = ("vendor/plotly-cartesian-4.1.1.min.js",)
_PAGE = ("format.js", "table.js", "figure.js", "tree.js", "chart.js", "page.js")


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
    scripts = {"theme": _script(_THEME), "plotly": _script(_PLOTLY), "page": _wrapped(_PAGE)}
    return environment.get_template("report.html.j2").render(
        report=report,
        style=_own("page.css"),
        scripts={name: Markup(text) for name, text in scripts.items()},  # noqa: S704 - our files
        policy=_policy(scripts.values()),
    )


def _text(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _own(name: str) -> Markup:
    return Markup(_text(name))  # noqa: S704 - a file of this package


def _script(names: tuple[str, ...]) -> str:
    return "\n".join(_text(name) for name in names)


def _wrapped(names: tuple[str, ...]) -> str:
    """Give the page's own scripts one scope, away from Plotly's."""
    return f'(() => {{\n"use strict";\n{_script(names)}\n}})();'


def _policy(scripts: Iterable[str]) -> str:
    """Return a Content-Security-Policy that runs these scripts and loads nothing.

    Styles stay open because Plotly writes style attributes; images are what it exports.
    """
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
