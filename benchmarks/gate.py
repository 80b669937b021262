"""How often ``profkit gate`` finds a slowdown that is there, and lets equal programs pass.

    python benchmarks/gate.py --rounds 20

In each round a program is profiled and saved as the baseline; then it is profiled again as it is,
3 % slower and 10 % slower, as a user does it: one `profkit profile` after the other, not in turn.
The step is mostly sleep, so that a busy machine does not hide what was injected. Each line is one
gate: what was injected, the condition, the exit status, and what the files for CI say.
"""

import argparse
import collections
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

PROGRAM = """
import time
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(64, 64)
for step in range(40):
    time.sleep({seconds})
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
"""
STEP_S = 0.03
GATES = ((0.0, "step_time > +3%"), (0.03, "step_time > +1%"), (0.10, "step_time > +3%"))
TAGS = {0: None, 1: "failure", 3: "error"}
TITLES = {0: "pass", 1: "fail", 3: "inconclusive"}


def main() -> None:
    """Run the rounds and count the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=6)
    args = parser.parse_args()
    counts: collections.Counter[tuple[float, str]] = collections.Counter()
    for number in range(args.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _profile(folder, 0.0, args.repeats)
            _command(folder, "baseline", "save", "base")
            for slowdown, condition in GATES:
                answer, message = _gated(folder, slowdown, condition, args.repeats)
                counts[slowdown, answer] += 1
                print(f"{number}: +{slowdown:.0%}, {condition}: {answer}, {message}", flush=True)
    for (slowdown, answer), count in sorted(counts.items()):
        print(f"+{slowdown:.0%}: {answer} {count} of {args.rounds}")


def _gated(folder: Path, slowdown: float, condition: str, repeats: int) -> tuple[str, str]:
    """Profile anew, return the answer of the gate and its reason, if its files say so as well."""
    _command(folder, "clean", *(run.name for run in (folder / "results/runs").iterdir()), "--yes")
    _profile(folder, slowdown, repeats)
    files = ["--junit", "gate.xml", "--markdown", "gate.md"]
    status = _command(folder, "gate", "--against", "base", "--fail-if", condition, *files)
    case = ET.parse(folder / "gate.xml").getroot()[0]  # noqa: S314 - written by profkit
    tags = [child.tag for child in case]
    if tags != ([TAGS[status]] if TAGS[status] else []):
        raise SystemExit(f"exit status {status}, but gate.xml has {tags}")
    if not (folder / "gate.md").read_text().startswith(f"### profkit gate: {TITLES[status]}\n"):
        raise SystemExit(f"exit status {status}, but gate.md says something else")
    text = (folder / "gate.md").read_text()
    return TITLES[status], next(line for line in text.splitlines() if condition in line)


def _profile(folder: Path, slowdown: float, repeats: int) -> None:
    (folder / "train.py").write_text(PROGRAM.format(seconds=STEP_S * (1 + slowdown)))
    words = ["--quiet", "--all", "tool=[]", f"repeats={repeats}", "--", sys.executable, "train.py"]
    if status := _command(folder, "profile", *words):
        raise SystemExit(f"profkit profile ended with {status}")


def _command(folder: Path, *words: str) -> int:
    command = [sys.executable, "-m", "profkit", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in TAGS:
        raise SystemExit(f"profkit {' '.join(words)}: {done.stderr}")
    return done.returncode


if __name__ == "__main__":
    main()
