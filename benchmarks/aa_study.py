"""An A/A study: how often one configuration, measured twice, is said to differ from itself.

    python benchmarks/aa_study.py --repeats 20

Two runs that differ in nothing but the seed of their synthetic data are captured in turn, as all
runs are, and compared as the report does it. Then every window of a few repeats is taken for a
study of its own, with the names of the two runs exchanged in every combination of its repeats:
where nothing differs, that changes nothing. Beside each rate stands the level that must hold.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from profkit.analyze.comparison import Config, analyze
from profkit.core import result
from profkit.core.errors import ProfkitError
from profkit.core.result import Result

Pair = tuple[Result, Result]


def main() -> None:
    """Capture, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="captures of each run")
    parser.add_argument("--windows", type=int, nargs="+", default=[3, 5], help="repeats of a study")
    parser.add_argument("overrides", nargs="*", help="overrides of both runs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pair = _measured(Path(folder), args.repeats, args.overrides)
    config = Config()
    together = _study(pair, config)
    print(f"{args.repeats} repeats: {'; '.join(finding.message for finding in together.findings)}")
    for size in args.windows:
        found = [_announces(_study(study, config)) for study in _studies(pair, size)]
        rate = sum(found) / len(found)
        print(
            f"{size} repeats: a difference is announced in {sum(found)} of {len(found)} studies, "
            f"{rate:.1%}; the level is {1 - config.confidence:.1%}"
        )


def _measured(folder: Path, repeats: int, overrides: list[str]) -> Pair:
    """Return the steps of two equal runs."""
    alone = ["world_size=1", "launcher=python", "tool=[]", "analysis=[steps,comparison]"]
    words = ["run", "seed=0,1", f"repeats={repeats}", *alone, *overrides]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-m", "profkit", *words]
    if subprocess.run(command, cwd=folder, env=here, check=False).returncode:
        raise ProfkitError("the captures have failed", hint="see what was printed above")
    paths = sorted(folder.glob("results/runs/*/analyze/steps.json"))
    one, other = (result.read(path).result for path in paths)
    return one, other


def _study(pair: Pair, config: Config) -> Result:
    return analyze.run(dict(zip(("one", "other"), pair, strict=True)), config=config)


def _announces(compared: Result) -> bool:
    """Say whether a report with this comparison says that anything differs."""
    return any(finding.value for finding in compared.findings)


def _studies(pair: Pair, size: int) -> Iterator[Pair]:
    """Yield the pair in each window of `size` repeats, its names exchanged in every way.

    Exchanging all of them gives the same study again, so the first repeat keeps its names.
    """
    repeats = sorted(pair[0].metrics["step_time_ns"].by_repeat)
    for start in range(len(repeats) - size + 1):
        window = repeats[start : start + size]
        for rest in itertools.product((False, True), repeat=size - 1):
            swapped = dict(zip(window, (False, *rest), strict=True))
            yield _named(pair, swapped), _named(pair[::-1], swapped)


def _named(pair: Pair, swapped: dict[int, bool]) -> Result:
    """Return the first of the pair in the repeats of `swapped`, the second where that is true."""
    metrics = {
        name: replace(
            metric,
            by_repeat={
                repeat: pair[is_swapped].metrics[name].by_repeat[repeat]
                for repeat, is_swapped in swapped.items()
            },
        )
        for name, metric in pair[0].metrics.items()
        if metric.by_repeat
    }
    return replace(pair[0], metrics=metrics)


if __name__ == "__main__":
    main()
