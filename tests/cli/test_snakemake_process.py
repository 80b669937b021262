"""Snakemake in a fork: loaded before it is known what it is for, ended if it is for nothing."""

import asyncio
import os
import pkgutil
import signal
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest

from profkit.cli import snakemake_process
from profkit.cli.snakemake_process import Snakemake
from profkit.process import job_server
from tests.waiting import LIMIT_S


@pytest.fixture
def snakemake(monkeypatch):
    """Print in the place of Snakemake what it would see."""

    def see(words):
        names = ("PROFKIT_TEST", "PROFKIT_LOADING")
        seen = [os.environ.get(name) for name in names]
        sys.stdout.write(f"{words} {seen} {job_server.address()}")

    monkeypatch.setattr(snakemake_process, "_be_snakemake", see)
    monkeypatch.setattr(job_server, "_stops", {})
    with Snakemake() as process:
        yield process


@pytest.mark.parametrize("is_loaded_first", [True, False])
def test_it_gets_words_environment_and_server_of_the_time_when_it_starts(
    snakemake, monkeypatch, is_loaded_first
):
    if is_loaded_first:
        monkeypatch.setenv("PROFKIT_LOADING", "1")
        snakemake.load()
        monkeypatch.delenv("PROFKIT_LOADING")
    job_server.use("/a/socket")
    with snakemake.running(["--cores", "1"], {"PROFKIT_TEST": "\udcff'\n"}) as process:
        given = ["\udcff'\n", None]
        assert process.output.read() == f"['--cores', '1'] {given} /a/socket"
        assert process.wait(LIMIT_S) == 0


def test_what_was_loaded_for_nothing_ends():
    with Snakemake() as snakemake:
        snakemake.load()
        process = snakemake._loading
        assert process.wait(0) is None
    assert process.status == -signal.SIGKILL


def test_a_second_one_is_started_anew(snakemake):
    snakemake.load()
    for _ in range(2):
        with snakemake.running(["x"], {}) as process:
            assert process.output.read().startswith("['x']")
            assert process.wait(LIMIT_S) == 0


def test_one_that_cannot_be_loaded_says_why(snakemake, monkeypatch):
    monkeypatch.setitem(sys.modules, "snakemake.cli", None)
    snakemake.load()
    snakemake._loading.wait(LIMIT_S)
    with snakemake.running(["x"], {}) as process:
        assert "ModuleNotFoundError: import of snakemake.cli halted" in process.output.read()
        assert process.wait(LIMIT_S) == 1


@pytest.mark.parametrize(
    ("works_here", "profile", "loads_them"),
    [(True, "none", False), (False, "none", True), (True, "mine", True)],
)
@pytest.mark.parametrize("is_loaded_first", [True, False])
def test_plugins_for_clusters_are_loaded_where_they_may_be_named(  # noqa: PLR0913, PLR0917
    monkeypatch, tmp_path, works_here, profile, loads_them, is_loaded_first
):
    monkeypatch.setenv("SNAKEMAKE_PROFILE", profile)
    monkeypatch.setattr(job_server, "_stops", {})
    monkeypatch.setattr(snakemake_process, "_be_snakemake", lambda _: sys.stdout.write(plugins()))
    (tmp_path / "snakemake_executor_plugin_mine").mkdir()
    (tmp_path / "snakemake_executor_plugin_mine" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "snakemake.cli", SimpleNamespace(get_argument_parser=plugins))
    with Snakemake(works_here=works_here) as snakemake:
        if is_loaded_first:
            snakemake.load()
        with snakemake.running([], {}) as process:
            assert ("snakemake_executor_plugin_mine" in process.output.read()) == loads_them
            assert process.wait(LIMIT_S) == 0


def test_an_interrupt_is_heeded_where_what_asyncio_cancels_goes_on(monkeypatch):
    async def finish_jobs():
        with suppress(asyncio.CancelledError):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(LIMIT_S)

    def main():
        try:
            asyncio.run(finish_jobs())
        except KeyboardInterrupt:
            sys.stdout.write("its jobs are cancelled")

    monkeypatch.setitem(sys.modules, "snakemake.cli", SimpleNamespace(main=main))
    monkeypatch.setattr(job_server, "_stops", {})
    with Snakemake() as snakemake, snakemake.running([], {}) as process:
        assert process.output.read() == "its jobs are cancelled"


@pytest.mark.parametrize(
    ("words", "home", "is_shared"),
    [([], "writable", True), ([], "missing/it", False), (["--profile", "x"], "missing/it", True)],
)
def test_no_sources_are_kept_in_a_home_that_cannot_hold_them(
    monkeypatch, tmp_path, words, home, is_shared
):
    def main():
        sys.stdout.write(" ".join(sys.argv[1:]))

    (tmp_path / "missing").touch()
    (tmp_path / "writable").mkdir()
    monkeypatch.setitem(sys.modules, "snakemake.cli", SimpleNamespace(main=main))
    monkeypatch.setattr(job_server, "_stops", {})
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with Snakemake() as process, process.running(words, {"HOME": str(tmp_path / home)}) as one:
        said = one.output.read()
    assert said.startswith(" ".join(words))
    assert ("--shared-fs-usage persistence input-output" in said) != is_shared


def plugins():
    return " ".join(module.name for module in pkgutil.iter_modules())
