"""How much a command prints: ``-q`` and ``-v``."""

import argparse


def add_loudness(parser: argparse.ArgumentParser) -> None:
    """Let a user choose how much a command prints."""
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-v", "--verbose", action="store_true", help="show what Snakemake says")
    about = "print errors and the path of the report only"
    loudness.add_argument("-q", "--quiet", action="store_true", help=about)
