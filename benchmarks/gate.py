"""How often ``profkit gate`` finds a slowdown that is there, and lets equal programs pass.

    python -m benchmarks.gate --rounds 20

One sweep captures a program with a number that changes nothing, and 10 % slower with other numbers:
each number is a run of its own, whose repeats are taken in turn with those of the others. Then each
run is gated against the equal one before it, so no two gates judge the same captures. The step is
mostly sleep, so that a busy machine does not hide what was injected; ranks are forks of a process
that has loaded PyTorch. Each line is one gate: what was injected, the exit status, and what the
files for CI say. Exit status 1 if an answer is wrong.
"""

import argparse
import collections
import io
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from xml.etree import ElementTree as ET

from profkit.cli import gate
from profkit.planning.cache import load
from tests.warm_ranks import warm_rank_python

PROGRAM = """
import sys
import time
import torch
import profkit

torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(64, 64)
for step in range(9):
    time.sleep(0.1 * float(sys.argv[1]))
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    profkit.step()
"""
CONDITION = "step_time > +3%"
SLOWDOWNS = {"equal": 1.0, "slower": 1.1}
TAGS = {gate.Answer.PASS: [], gate.Answer.FAIL: ["failure"], gate.Answer.INCONCLUSIVE: ["error"]}


def main() -> int:
    """Capture, gate, and count the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=6)
    args = parser.parse_args()
    counts: collections.Counter[tuple[str, gate.Answer]] = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        Path("train.py").write_text(PROGRAM)
        runs = _captured(args.rounds, args.repeats)
        for number in range(args.rounds):
            for kind in SLOWDOWNS:
                answer, message = _gated(runs["equal"][number], runs[kind][number + 1])
                counts[kind, answer] += 1
                print(f"{number}: {kind}: {answer}, {message}", flush=True)
    for (kind, answer), count in sorted(counts.items()):
        print(f"{kind}: {answer} {count} of {args.rounds}")
    wrong = {("equal", gate.Answer.FAIL), ("slower", gate.Answer.PASS)}
    return int(bool(wrong & set(counts)))


def _captured(rounds: int, repeats: int) -> dict[str, list[str]]:
    """Capture all runs, and return their names by what was injected."""
    commands = {
        kind: [f"train.py {factor} {number}" for number in range(rounds + 1)]
        for kind, factor in SLOWDOWNS.items()
    }
    listed = ",".join(f'"{command}"' for own in commands.values() for command in own)
    words = ["workload=script", f"workload.command={listed}", "workload.step=mark"]
    words += ["launcher=python", f"launcher.python={warm_rank_python()}", "world_size=1"]
    words += ["tool=[]", "analysis=[steps]", f"repeats={repeats}"]
    done = subprocess.run(
        [sys.executable, "-m", "profkit", "run", "--quiet", *words], check=False
    ).returncode
    if done:
        raise SystemExit(f"profkit run ended with {done}")
    names = {str(run.behaviour["workload"]["command"]): run.name for run in load(words).runs}
    return {kind: [names[command] for command in own] for kind, own in commands.items()}


def _gated(before: str, after: str) -> tuple[gate.Answer, str]:
    """Return the answer of the gate and its reason, if its files say the same."""
    words = [after, "--against", before, "--fail-if", CONDITION]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
        status = gate.main([*words, "--junit", "gate.xml", "--markdown", "gate.md"])
    answers = {number: answer for answer, number in gate.STATUS.items()}
    if status not in answers:
        raise SystemExit(f"profkit gate {' '.join(words)}: {errors.getvalue()}")
    answer = answers[status]
    case = ET.parse("gate.xml").getroot()[0]  # noqa: S314 - written by profkit
    if (tags := [child.tag for child in case]) != TAGS[answer]:
        raise SystemExit(f"exit status {status}, but gate.xml has {tags}")
    if not Path("gate.md").read_text().startswith(f"### profkit gate: {answer}\n"):
        raise SystemExit(f"exit status {status}, but gate.md says something else")
    return answer, out.getvalue().splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
