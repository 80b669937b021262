"""The whole pipeline over a program that misbehaves, and what must be true whatever happens."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests import warm
from tests.capture.conftest import PROGRAMS
from tests.conftest import Tree, copy_project
from tests.page_text import page_data, page_text
from tests.waiting import until

ALONE = "workload=misbehaving world_size=1 launcher=python device=cpu steps=8 warmup_steps=1"
FEW = "repeats=1 tool=[] analysis=[steps]"
POINTS = "[profkit.workloads]\nmisbehaving = misbehaving\n"
CONF = '# @package workload\n# Does what it is told to.\nname: misbehaving\nhow: ""\n'


def _heed_signals() -> None:
    """Undo what the tests may have inherited: what runs in the background ignores the terminal."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Farm(Tree):
    """A copy of the project whose runs misbehave as told, until a file ``well`` is there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        copy_project(folder)
        shutil.copy(PROGRAMS / "misbehaving.py", folder)
        info = folder / "misbehaving-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1\n")
        (info / "entry_points.txt").write_text(POINTS)
        (folder / "conf/workload/misbehaving.yaml").write_text(CONF)

    def words(self, *overrides: str) -> list[str]:
        # What comes later counts: a test may choose another workload.
        return [sys.executable, "-m", "profkit", "run", *ALONE.split(), *FEW.split(), *overrides]

    def begin(self, *overrides: str) -> "subprocess.Popen[str]":
        """Start ``profkit run`` as a terminal would, in a process group of its own."""
        return subprocess.Popen(
            self.words(*overrides),
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_heed_signals,  # noqa: PLW1509 - no thread of this process holds a lock
        )

    def finish(self, *overrides: str) -> "tuple[int, str]":
        """Let ``profkit run`` come to its end; return its exit status and what it said."""
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        command = self.words(*overrides)[2:]
        done = warm.run(*command, cwd=self.folder, env=environment)
        return done.returncode, done.stdout + done.stderr

    def recover(self) -> None:
        """Have the program behave from now on."""
        (self.folder / "well").touch()

    def relapse(self) -> None:
        """Have the program misbehave again."""
        (self.folder / "well").unlink(missing_ok=True)

    def captures(self, *overrides: str) -> set[str]:
        """Return what the program was told in the runs that would be captured now."""
        status, said = self.finish(*overrides, "--", "--dry-run")
        assert status == 0, said
        outputs = re.findall(r"output: (results/runs/\S+?)/capture/\S+", said)
        return {self.how(self.folder / run) for run in outputs}

    @staticmethod
    def how(run: Path) -> str:
        """Return what the program was told in `run`; of one without a record, its name."""
        for path in run.glob("capture/*/rep0/capture.json"):
            return str(json.loads(path.read_text())["workload"]["workload"]["how"])
        return run.name

    def records(self) -> dict[str, dict]:
        """Return the record of each run's baseline, by what the program was told."""
        paths = self.folder.glob("results/runs/*/capture/baseline/rep0/capture.json")
        records = [json.loads(path.read_text()) for path in paths]
        return {record["workload"]["workload"]["how"]: record for record in records}

    def captured(self, how: str) -> dict[str, str]:
        """Return the digest of each file of the good capture of `how`."""
        (folder,) = (
            path.parent
            for path in self.folder.glob("results/runs/*/capture/baseline/rep0/capture.json")
            if self.how(path.parents[3]) == how
        )
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
        }

    def problems(self) -> list[dict[str, object]]:
        """Return what the report says has failed."""
        return page_data(self.folder / "results/report.html")["report"]["problems"]

    def report(self) -> str:
        """Return the report's text."""
        return page_text(self.folder / "results/report.html")

    def alive(self) -> list[psutil.Process]:
        """Return the processes that were started from here, which all have this path."""
        found = []
        for process in psutil.process_iter(["environ", "status"]):
            path = (process.info["environ"] or {}).get("PYTHONPATH")
            if path == str(self.folder) and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def check_nothing_is_left_running(self) -> None:
        until(lambda: not self.alive(), lambda: f"still running: {self.alive()}")

    def check_every_file_is_whole(self) -> None:
        """Check that whatever has the name of a result can be read to its end."""
        results = self.folder / "results"
        for path in results.rglob("*.parquet"):
            pq.read_table(path)
        for path in [*results.rglob("*.json"), *results.rglob("manifest.json")]:
            json.loads(path.read_bytes())
        for path in results.rglob("report.html"):
            assert path.read_text().rstrip().endswith("</html>")


@pytest.fixture
def farm(tmp_path):
    """Return a copy of the project; what a failed test leaves running ends with it."""
    farm = Farm(tmp_path)
    yield farm
    for process in farm.alive():
        process.kill()
