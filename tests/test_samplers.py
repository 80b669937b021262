"""All samplers and timers in one real run through all stages; py-spy on two ranks."""

import json

import pandas as pd
import pytest

from profkit.core import result
from profkit.tables import schema
from tests.page_text import page_text
from tests.stages import capture, report_of

TOOLS = ("py_spy", "pyinstrument", "system", "torch_benchmark", "host_memory")
ANALYSES = (
    *("observer_tax", "python_hotspots", "utilisation", "energy", "host_memory_peak"),
    "benchmark_compare",
)
OVERRIDES = (
    *("world_size=1", "launcher=python", "model.layers=1", "steps=8", "warmup_steps=2"),
    "repeats=1",
    f"tool=[{','.join(TOOLS)}]",
    f"analysis=[{','.join(ANALYSES)}]",
    *("tools.system.period_s=0.02", "tools.torch_benchmark.measurements=2"),
    "tools.torch_benchmark.calls=1",
)


pytestmark = pytest.mark.slow  # makes six captures


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of the run."""
    folder = tmp_path_factory.mktemp("samplers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        capture(*OVERRIDES)
        report_of(*OVERRIDES)
    (run,) = folder.glob("results/runs/*")
    return run


def table(run, tool, name):
    return pd.read_parquet(run / "tables" / tool / f"{name}.parquet")


def analysed(run, name):
    path = run / "analyze" / f"{name}.json"
    across = run.parents[1] / "selection" / "analyze" / f"{name}.json"
    return result.read(path if path.is_file() else across).result


def rows(outcome, name):
    return [
        dict(zip(outcome.tables[name].columns, row, strict=True))
        for row in outcome.tables[name].rows
    ]


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_really_ran(run, tool):
    record = json.loads((run / f"capture/{tool}/rep0/capture.json").read_text())
    assert record["status"] == "ok", record
    steps = table(run, tool, "steps")
    assert steps.groupby("rank").size().to_dict() == {0: 8}
    for path in (run / "tables" / tool).glob("*.parquet"):
        frame = pd.read_parquet(path)
        assert list(frame.columns) == schema.TABLES[path.stem].names
        assert set(frame["rank"]) == {0}, path


def test_what_each_tool_costs_is_in_the_observer_tax(run):
    found = rows(analysed(run, "observer_tax"), "by_tool")
    assert {row["tool"] for row in found} == set(TOOLS)
    assert all(row["slowdown_ratio"] > 0 and row["ranks"] == 1 for row in found)


def test_samples_lie_on_the_clock_of_the_steps(run):
    samples, steps = table(run, "system", "samples"), table(run, "system", "steps")
    inside = samples[samples["step"] >= 0].merge(steps, on=["rank", "step"])
    assert len(inside)
    assert (inside["time_ns"] >= inside["start_ns"]).all()
    assert (inside["time_ns"] < inside["end_ns"]).all()
    phases = table(run, "system", "annotations")
    assert phases.groupby(["rank", "name"], observed=True).size().to_dict() == {
        (0, name): 8 for name in ("backward", "data", "forward", "optimizer")
    }
    within = phases.merge(steps, on=["rank", "step"])
    assert (within["start_ns_x"] >= within["start_ns_y"]).all()
    assert (within["end_ns_x"] <= within["end_ns_y"]).all()


def test_both_samplers_saw_the_training(run):
    for tool in ("py_spy", "pyinstrument"):
        stacks = table(run, tool, "sampled_stacks")
        training = stacks["stack"].astype(str).str.contains(r"train \(\S*train\.py:\d+\)")
        assert set(stacks[training]["rank"]) == {0}
    found = rows(analysed(run, "python_hotspots"), "functions")
    seen = {(row["tool"], row["rank"]) for row in found}
    assert seen == {("py_spy", 0), ("pyinstrument", 0)}


def test_the_cpus_are_used_and_the_gpus_energy_is_not_known(run):
    used = analysed(run, "utilisation")
    assert used.metrics["process_cpus"].value > 0
    assert 0 < used.metrics["host_cpu_percent"].value <= 100
    energy = analysed(run, "energy")
    assert "per_step_j" not in energy.metrics
    assert energy.abstentions


def test_each_part_of_a_step_has_a_time_and_the_peak_is_told(run):
    cells = rows(analysed(run, "benchmark_compare"), "cells")
    medians = {row["part"]: row["median_ns"] for row in cells}
    assert set(medians) == {"forward", "backward", "optimizer", "step"}
    assert min(medians.values()) > 0
    peak = analysed(run, "host_memory_peak").metrics["peak_bytes"].value
    assert 20 << 20 < peak < 4 << 30


def test_the_report_shows_them_all(run):
    page = page_text(run.parents[1] / "report.html")
    for title in ("Python hotspots", "Utilisation", "Energy", "CPU memory", "Parts of a step"):
        assert title in page
