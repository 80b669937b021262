"""How often ``profkit bisect`` finds the commit that made a program slower, and what it costs.

    python benchmarks/bisect_commits.py            # simulated times, 200 histories for each noise
    python benchmarks/bisect_commits.py --real 3  # and real programs in generated repositories

Each history has 64 commits, one of which makes the step 3 % slower. Times are simulated with
normal and heavy-tailed noise of each size between repeats, a further one between comparisons, and
one in twenty commits that cannot be run. Printed: answers that are wrong, searches that ended
without, comparisons beyond log2 of the commits, and pairs. A real program sleeps for most of its
step: it is slow for sure, and what else runs on the machine hides less of it.
"""

import argparse
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from profkit.analyze.shared.bisection import Answer, RevisionFailed, bisected
from profkit.core.errors import ProfkitError

COMMITS = 64
CHANGE = 0.03
BETWEEN = 0.002
BROKEN = 0.05
NOISES = (0.005, 0.01, 0.02, 0.03)
PROGRAM = """
import time
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(64, 64)
for step in range(9):
    time.sleep({seconds})
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
# {commit}
"""
STEP_S = 0.4


def main() -> None:
    """Simulate, run what is asked for, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=200, help="simulated, for each noise")
    parser.add_argument("--real", type=int, default=0, help="generated repositories")
    args = parser.parse_args()
    print("noise      wrong  without  beyond log2 (most)  pairs")
    for noise in NOISES:
        for tails in ("normal", "heavy"):
            print(f"{noise:.1%} {tails:6} {_simulated(noise, tails, args.histories)}", flush=True)
    for number in range(args.real):
        print(_real(number), flush=True)


def _simulated(noise: float, tails: str, histories: int) -> str:
    random = np.random.default_rng([int(noise * 1e4), tails == "heavy"])
    wrong = without = 0
    beyond, pairs = [], []
    for _ in range(histories):
        changed = int(random.integers(1, COMMITS + 1))
        broken = {int(at) for at in np.flatnonzero(random.random(COMMITS) < BROKEN)} - {0}
        found = _search(random, noise, tails, changed, broken)
        without += not found.is_sure
        wrong += found.is_sure and not found.before < changed <= found.after
        beyond.append(len(found.comparisons) - math.log2(COMMITS))
        pairs.append(sum(len(one.logs) for one in found.comparisons))
    return (
        f"{wrong:5} {without:8} {np.mean(beyond):8.1f} ({max(beyond):2.0f}) {np.mean(pairs):14.0f}"
    )


def _search(
    random: np.random.Generator, noise: float, tails: str, changed: int, broken: set[int]
) -> Answer:
    def compare(before: int, after: int, pairs: int) -> Sequence[float]:
        for position in (before, after):
            if position in broken:
                raise RevisionFailed(position)
        freedom = 3
        # Of variance 1, as the normal ones.
        heavy = random.standard_t(freedom, pairs) / math.sqrt(freedom / (freedom - 2))
        spread = heavy if tails == "heavy" else random.normal(0, 1, pairs)
        level = math.log1p(CHANGE) * (before < changed <= after) + random.normal(0, BETWEEN)
        return [float(level + noise * one) for one in spread]

    return bisected(COMMITS, compare)


def _real(number: int) -> str:
    """Generate a repository, let profkit search it, and say what it found."""
    changed = int(np.random.default_rng(number).integers(1, COMMITS + 1))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commits = _repository(folder, changed)
        began = time.monotonic()
        words = ["bisect", commits[0], "HEAD", "--", sys.executable, "train.py"]
        done = subprocess.run(
            [sys.executable, "-m", "profkit", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"^(?:slower|faster) since (\w+)", done.stdout, flags=re.MULTILINE)
    if not found:
        raise ProfkitError(f"profkit bisect ended with {done.returncode}: {done.stderr[-2000:]}")
    right = commits[changed].startswith(found[1])
    lines = sum(line.startswith("comparison ") for line in done.stdout.splitlines())
    return (
        f"real {number}: {'right' if right else 'WRONG'}, {lines} comparisons, "
        f"{time.monotonic() - began:.0f} s"
    )


def _repository(folder: Path, changed: int) -> list[str]:
    """Make a repository of one commit and `COMMITS` more, and return their hashes."""
    _git(folder, "init", "--quiet")
    hashes = []
    for commit in range(COMMITS + 1):
        slowed = 1 + CHANGE * (commit >= changed)
        text = PROGRAM.format(seconds=STEP_S * slowed, commit=commit)
        (folder / "train.py").write_text(text)
        _git(folder, "add", "train.py")
        author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        _git(folder, *author, "commit", "--quiet", "--message", f"Change {commit}")
        hashes.append(_git(folder, "rev-parse", "HEAD"))
    return hashes


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
