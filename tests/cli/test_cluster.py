"""Profiles of clusters: Snakemake reads each, and jobs start by any command that takes a script."""

import os
import subprocess
import sys

import pytest

from profkit.cli import cluster
from profkit.core import resources
from profkit.core.errors import ConfigError
from tests.waiting import LIMIT_S
from tests.warm import run

SMALL = ("tool=[]", "analysis=[steps]", "repeats=1", "steps=4", "warmup_steps=1")
# Starts the script, its last argument, as a scheduler would: apart from who asks.
SUBMIT = """#!/bin/sh
echo "$@" >> asked
for script; do :; done
setsid sh "$script" > /dev/null 2>&1 &
echo $!
"""


@pytest.mark.parametrize("name", sorted(resources.cluster_profiles()))
def test_snakemake_takes_every_key_of_a_profile(name, tmp_path):
    profile = ("--profile", resources.PROFILES / name)
    chosen = ("--config", f"overrides={' '.join(SMALL)}", "--dry-run")
    snakefile = ("--snakefile", resources.SNAKEFILE)
    done = run(
        *("snakemake", "results/report.html", *snakefile, *profile, *chosen),
        cwd=tmp_path,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "capture_baseline_rep0" in done.stdout + done.stderr


def test_a_plugin_that_is_missing_is_named_with_its_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles/mine").mkdir(parents=True)
    (tmp_path / "profiles/mine/config.yaml").write_text("executor: flux\n")
    with pytest.raises(
        ConfigError, match="--on mine: Snakemake's plugin for flux is not"
    ) as raised:
        cluster.options("mine", 3)
    assert "pip install snakemake-executor-plugin-flux" in str(raised.value)


@pytest.mark.slow
def test_captures_and_conversions_are_jobs_of_the_command_that_a_profile_names(tmp_path):
    (tmp_path / "submit").write_text(SUBMIT)
    (tmp_path / "submit").chmod(0o755)
    asked = "./submit {resources.nodes} {resources.cpus_per_task} {resources.runtime}"
    quick = ("--seconds-between-status-checks", "1", "--latency-wait", "5")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "profkit", "run", "--on", "cluster-generic", *SMALL),
            *("+launcher.env.QUOTED='a \"b c\" d'", "timeout_s=600"),
            *("--", "--cluster-generic-submit-cmd", asked, *quick),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = [line.rsplit(" ", 1)[0] for line in (tmp_path / "asked").read_text().splitlines()]
    assert jobs == ["1 2 20", "1 2 60"]
    assert (tmp_path / "results/report.html").is_file()
