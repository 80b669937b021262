"""What a caller ignores, as below ``nohup``, is ignored by profkit and by the program it runs."""

import os
import signal
import subprocess
import sys

import pytest

from tests.waiting import until

PROGRAM = """\
import pathlib, signal, time
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for index in range(6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if index == 1:
        numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
        ignored = [n.name for n in numbers if signal.getsignal(n) is signal.SIG_IGN]
        pathlib.Path("started").write_text(" ".join(ignored))
        while not pathlib.Path("go").exists():
            time.sleep(0.05)
"""
RUN = "workload=script workload.command=train.py launcher=python world_size=1 repeats=1 tool=[]"
COMMANDS = {
    "run": ["run", *RUN.split(), "analysis=[steps]"],
    "profile": ["profile", "tool=[]", "repeats=1", "--", "python", "train.py"],
}


def _ignore() -> None:
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_signals_that_the_caller_ignores_end_nothing(tmp_path, command):
    (tmp_path / "train.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "-m", "profkit", *COMMANDS[command]],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_ignore,  # noqa: PLW1509 - no threads here
    )
    try:
        until(lambda: (tmp_path / "started").exists() or process.poll() is not None)
        for number in (signal.SIGHUP, signal.SIGINT):
            os.killpg(process.pid, number)
        (tmp_path / "go").touch()
        printed, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (tmp_path / "started").read_text() == "SIGHUP SIGINT", printed
    assert process.returncode == 0, printed
    assert (tmp_path / "results/report.html").is_file()
