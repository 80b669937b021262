"""Whoever is killed while a capture hangs: nothing stays, and the next run goes on from there."""

import os
import signal

import psutil
import pytest

from tests.faults.conftest import Farm
from tests.waiting import LIMIT_S, until

RUNS = "workload.how=nothing,hang"


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    """Return a copy of the project with one good run."""
    farm = Farm(tmp_path_factory.mktemp("farm"))
    status, said = farm.finish("workload.how=nothing")
    assert status == 0, said
    yield farm
    for process in farm.alive():
        process.kill()


@pytest.fixture(scope="module")
def good(farm):
    """Return the digest of each file of the good capture, which no test may change."""
    return farm.captured("nothing")


@pytest.fixture
def hanging(farm, good):
    """Return ``profkit run`` at the moment when its second capture hangs.

    It goes on from what the test before has left: to the capture that hung, and to no other.
    """
    assert farm.captured("nothing") == good
    process = farm.begin(RUNS)
    until(lambda: process.poll() is not None or working(farm, "sleep 86399"))
    assert process.poll() is None, process.stdout.read()
    return process


def working(farm, words):
    """Return the processes of this farm with `words` in their command line, the oldest first."""
    found = [process for process in farm.alive() if words in " ".join(cmdline(process))]
    return sorted(found, key=lambda process: process.create_time())


def cmdline(process):
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def check_what_must_be_true_after(farm, process, good):
    """Check all but the report, which the killed could not write."""
    assert process.wait(LIMIT_S) != 0
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()
    assert farm.captured("nothing") == good
    assert "hang" not in farm.records()


CAPTURE = "capture baseline --out"
# The oldest with these words in its command line: Snakemake and the server of jobs are forks of
# profkit run, and the shell of a job, which Snakemake starts, is older than the capture in it.
KILLED = {
    "profkit run": lambda farm: working(farm, "profkit run")[0],
    "Snakemake": lambda farm: working(farm, CAPTURE)[0].parent(),
    "the shell of the job": lambda farm: working(farm, CAPTURE)[0],
}


@pytest.mark.parametrize("who", KILLED)
def test_a_killed_process_takes_all_that_it_started_with_it(farm, hanging, good, who):
    KILLED[who](farm).kill()
    assert hanging.wait(LIMIT_S) != 0
    locks = list(farm.folder.glob("results/.snakemake/locks/*.lock"))
    assert bool(locks) == (who in {"profkit run", "Snakemake"})
    check_what_must_be_true_after(farm, hanging, good)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_terminal_that_stops_or_closes_ends_everything(farm, hanging, good, signum):
    # As a terminal does it: to the whole process group.
    os.killpg(hanging.pid, signum)
    check_what_must_be_true_after(farm, hanging, good)


@pytest.mark.parametrize("who", ["launcher", "inner capture", "guard"])
def test_a_launcher_that_is_killed_is_a_failed_capture_in_a_whole_report(farm, hanging, good, who):
    _, guard, inner = working(farm, CAPTURE)
    (rank, *_) = working(farm, "capture.harness.rank")
    {"launcher": rank, "inner capture": inner, "guard": guard}[who].kill()
    said, _ = hanging.communicate(timeout=LIMIT_S)
    assert hanging.returncode == 1, said
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()
    record = farm.records()["hang"]
    assert "killed by signal 9" in record["reason"]
    assert record["reason"] in farm.report()
    assert "in the fourth step" in farm.report()
    assert "rank0_dp0_tp0_pp0.steps.json" in [file["path"] for file in record["files"]]
    assert farm.captured("nothing") == good


def test_after_all_that_the_run_comes_to_its_end(farm, good):
    farm.recover()
    status, said = farm.finish(RUNS)
    assert status == 0, said
    assert farm.records()["hang"]["status"] == "ok"
    assert farm.captured("nothing") == good
    assert farm.captures(RUNS) == set()
