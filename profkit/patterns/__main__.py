"""``python -m profkit.patterns > docs/patterns.md``: all patterns and the documents behind them."""

import sys

from profkit.core import registry
from profkit.patterns import patterns


def document() -> str:
    """Return the table of patterns that the documentation shows."""
    modules = registry.module_names("profkit.patterns")
    lines = [
        "# Patterns",
        "",
        "What the verdict of a run recognises in a recording, and the document behind its advice.",
        "Add one as `profkit/patterns/NAME.py`, or from your own package through the entry point",
        "group `profkit.patterns`; `profkit/patterns/base.py` has the contract.",
        "",
        "| pattern | what it finds | source |",
        "| --- | --- | --- |",
    ]
    for name, pattern in patterns().items():
        about = registry.first_line(modules[name])
        lines.append(f"| `{name}` | {about} | [{pattern.title}]({pattern.source}) |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{document()}\n")
