"""``profkit init [FOLDER]``: write a starting point, a study of one's own to change."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from profkit.cli import new_files
from profkit.core import resources

_STUDY = """\
# @package _global_
# A first study: what differs from the defaults, and what is swept.
defaults:
  - override /model: gpt_tiny
  - override /launcher: python

world_size: 1
steps: 12
warmup_steps: 2
repeats: 3

hydra:
  sweeper:
    params:
      batch: 1,2
"""

_README = """\
# Options of one's own for profkit

Each file in a folder here is an option of the group that the folder is called after: `model/`,
`launcher/`, `tool/`, `experiment/`, ... Of two options of one name, the one here counts. What an
option may say stands in those that come with profkit, in {shipped}.

    profkit list                           # every option, these included
    profkit plan +experiment=first_study   # what would run
    profkit run +experiment=first_study    # ends in results/report.html
"""


def main(argv: Sequence[str]) -> None:
    """Write ``conf/`` with an example; write nothing if a file of it is there already."""
    parser = argparse.ArgumentParser(prog="profkit init", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where (here)")
    conf = parser.parse_args(argv).folder / "conf"
    files = {
        conf / "README.md": _README.format(shipped=resources.CONF),
        conf / "experiment" / "first_study.yaml": _STUDY,
    }
    new_files.write(files)
    sys.stdout.write("try: profkit run +experiment=first_study\n")
