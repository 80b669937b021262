"""``profkit list [KIND]``: what there is to choose from, in the plugins' own first lines."""

import argparse
import sys
from collections.abc import Sequence

from rich.table import Table

from profkit.cli.terminal import Terminal
from profkit.core import registry, resources
from profkit.core.settings import known

_PACKAGES = {
    "tools": "profkit.capture",
    "analyses": "profkit.analyze",
    "patterns": "profkit.patterns",
}


def main(argv: Sequence[str]) -> None:
    """Print the names of one kind, or of every kind."""
    parser = argparse.ArgumentParser(prog="profkit list", description=__doc__)
    parser.add_argument("kind", nargs="?", help="tools, analyses, models, workloads, ...")
    args = parser.parse_args(argv)
    groups = kinds()
    wanted = [args.kind] if args.kind else list(groups)
    console = Terminal(sys.stdout, soft_wrap=True)
    for kind in wanted:
        group = known("kind of thing", kind, groups)
        if kind in _PACKAGES:
            rows = _plugins(_PACKAGES[kind])
        else:
            options = resources.options(group)
            rows = {path.stem: _comment(path.read_text()) for path in options}
        if kind == "models":
            others = registry.external("profkit.workloads.models")
            rows |= {point.name: registry.first_line(point.value) for point in others}
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for name, about in rows.items():
            table.add_row(f"  {name}", about)
        if not args.kind:
            console.print(f"{kind}:")
        console.print(table)


def kinds() -> dict[str, str]:
    """Return what there is to choose from, each kind with its group in ``conf/``."""
    folders = [path for path in sorted(resources.CONF.iterdir()) if path.is_dir()]
    return {_plural(path.name): path.name for path in folders} | {"patterns": ""}


def _plugins(package: str) -> dict[str, str]:
    names = registry.module_names(package)
    return {name: registry.first_line(module) for name, module in names.items()}


def _comment(text: str) -> str:
    """Return the first comment that is not Hydra's package header."""
    comments = (line[1:].strip() for line in text.splitlines() if line.startswith("#"))
    return next((line for line in comments if not line.startswith("@package")), "")


def _plural(group: str) -> str:
    irregular = {"analysis": "analyses", "hardware": "hardware", "zero": "zero"}
    return irregular.get(group, f"{group}s")
