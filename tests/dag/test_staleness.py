"""Exactly what has changed is made again: each set of jobs, on a real tree."""

import os
import shutil

import pytest

from profkit.analyze import analyses
from profkit.core.fingerprint import closure
from tests.conftest import SMALL
from tests.page_text import page_data

# Of every kind: on tables of one tool and of each, on results of others, and across runs.
ANALYSES = {
    *("steps", "observer_tax", "breakdown", "operators", "kernels", "collectives"),
    *("causes", "verdict", "stragglers", "overlap", "flops"),
    *("memory_model", "memory_fit", "comparison"),
}


@pytest.fixture(scope="module")
def tree(default_tree, tmp_path_factory):
    """Return a copy of the project with the results of a small experiment, and no others."""
    chosen = f"tool=[torch_profiler,memory_layers] analysis=[{','.join(sorted(ANALYSES))}]"
    tree = default_tree.copied(tmp_path_factory.mktemp("tree"), f"{SMALL} {chosen}")
    for folder in tree.folder.glob("results/runs/*/*/memory_snapshot"):
        shutil.rmtree(folder)
    for path in tree.folder.glob("results/**/analyze/*.json"):
        if path.stem not in ANALYSES:
            path.unlink()
    tree.snakemake("")
    return tree


@pytest.fixture
def edit(tree):
    """Return a function that edits a file of the tree; the edits are undone afterwards.

    With the time of the last edit, so that the plan of before is known again.
    """
    kept = {}

    def edit(path, old, new):
        before = (tree.folder / path).stat().st_mtime_ns
        kept.setdefault(path, (tree.edited(path, old, new), before))

    yield edit
    for path, (text, before) in kept.items():
        (tree.folder / path).write_text(text)
        os.utime(tree.folder / path, ns=(before, before))


def test_a_second_run_has_nothing_to_do(tree):
    assert tree.jobs() == []
    assert tree.why("results/report.html") == "results/report.html is fresh\n"


def test_no_job_is_looked_into_where_nothing_has_changed_and_nothing_else_is_asked(tree, edit):
    edit("Snakefile", "rule all:", 'print("rules:", *workflow._rules)\n\n\nrule all:')

    def rules(*options):
        said = tree.snakemake("", "--dry-run", *options)
        return next(line for line in said.splitlines() if line.startswith("rules:")).split()[1:]

    assert rules() == ["report"]
    assert "analyze_steps" in rules("--forceall")
    assert "analyze_steps" in rules("--touch")
    page = tree.folder / "results/report.html"
    text, before = page.read_bytes(), page.stat()
    page.write_bytes(text + b" ")
    assert "analyze_steps" in rules()
    page.write_bytes(text)
    os.utime(page, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert rules() == ["report"]


def test_what_snakemake_has_forgotten_is_made_again_as_if_it_had_not(tree, edit):
    record = next((tree.folder / "results/runs").glob("*/capture/memory_layers/rep0/capture.json"))
    text, before = record.read_text(), record.stat().st_mtime_ns
    override = "analyses.verdict.small=0.77 tools.torch_profiler.with_stack=true"
    edit("profkit/analyze/kernels.py", "= kernels.reset_index(", "= kernels.copy().reset_index(")
    record.write_text(text.replace('"status": "ok"', '"status": "error"', 1))
    kept = tree.folder / "results/.snakemake/metadata"
    try:
        remembered = tree.jobs(override)
        away = kept.rename(tree.folder / "metadata")
        assert tree.jobs(override) == remembered
        edit("profkit/analyze/kernels.py", "= kernels.copy().reset_", "= kernels.reset_")
        record.write_text(text)
        assert "capture.json is newer, and Snakemake has lost" in tree.why("results/report.html")
        assert "convert_memory_layers" in tree.jobs()
        os.utime(record, ns=(before, before))
        assert tree.jobs() == [], "what is fresh stays so"
    finally:
        record.write_text(text)
        os.utime(record, ns=(before, before))
        shutil.rmtree(kept)
        away.rename(kept)


def test_touching_everything_reruns_nothing(tree):
    for path in sorted(tree.folder.rglob("*"), reverse=True):
        if path.is_file() and ".snakemake" not in path.parts:
            path.touch()
    assert tree.jobs() == []


def test_a_setting_of_an_analysis_reruns_it_and_what_reads_it(tree):
    override = "analyses.verdict.small=0.77"
    assert tree.jobs(override) == ["analyze_verdict", "report"]
    said = tree.why(f"results/runs/{run_name(tree)}/analyze/verdict.json", override)
    assert "setting analyses.verdict.small" in said
    assert "-> 0.77" in said


def test_a_function_of_one_analysis_reruns_it_and_what_reads_it(tree, edit):
    edit("profkit/analyze/kernels.py", "= kernels.reset_index(", "= kernels.copy().reset_index(")
    assert tree.jobs() == readers_of("kernels")
    said = tree.why(f"results/runs/{run_name(tree)}/analyze/kernels.json")
    assert "module profkit.analyze.kernels" in said


def test_interval_arithmetic_reruns_the_analyses_that_use_it(tree, edit):
    edit("profkit/analyze/shared/intervals.py", '"""', '_EXTRA = 1\n"""')
    users = {name for name in ANALYSES if "intervals" in closure_text(name)}
    assert users
    assert users != ANALYSES
    affected = set().union(*(set(readers_of(name)) for name in users))
    assert tree.jobs() == sorted(affected & {"report", *analysed(tree)})


def test_comments_docstrings_blank_lines_and_code_of_captures_rerun_nothing(tree, edit):
    edit("profkit/analyze/shared/intervals.py", "\n\n\ndef ", "\n\n\n# A comment.\ndef ")
    edit("profkit/convert/torch_profiler/__init__.py", '"""', '"""Changed: ')
    edit("profkit/analyze/steps.py", "\n\n\ndef ", "\n\n\n\n\n\ndef ")
    edit("profkit/tables/schema.py", '"""', '"""Changed: ')
    for path in ("torch_profiler.py", "baseline.py", "base.py", "__main__.py"):
        edit(f"profkit/capture/{path}", '"""', '_EXTRA = 1\n"""')
    assert tree.jobs() == []


def test_a_capture_setting_reruns_that_capture_and_what_follows(tree):
    expected = {"capture_torch_profiler_rep0", "convert_torch_profiler", "manifest", "report"}
    jobs = tree.jobs("tools.torch_profiler.with_stack=true")
    readers = readers_of_tables("torch_profiler", tree)
    assert jobs == sorted(expected | {DRAWN} | readers)


def test_a_converter_reruns_its_conversion_and_what_reads_its_tables(tree, edit):
    edit("profkit/convert/torch_profiler/__init__.py", '"""', '_EXTRA = 1\n"""')
    readers = readers_of_tables("torch_profiler", tree)
    assert tree.jobs() == sorted({"convert_torch_profiler", DRAWN, "report"} | readers)


def test_what_joins_the_files_of_a_capture_reruns_every_conversion(tree, edit):
    edit("profkit/convert/_join_parts.py", '"""', '_EXTRA = 1\n"""')
    tables = (tree.folder / "results/runs").glob("*/tables/*")
    assert {job for job in tree.jobs() if job.startswith("convert_")} == {
        f"convert_{folder.name}" for folder in tables
    }


def test_a_script_of_a_page_reruns_the_conversion_that_draws_it(tree, edit):
    asset = "profkit/convert/memory_layers/assets/sunburst.js"
    edit(asset, "RINGS = 6", "RINGS = 5")
    readers = readers_of_tables("memory_layers", tree)
    assert tree.jobs() == sorted({"convert_memory_layers", "report"} | readers)
    said = tree.why(f"results/runs/{run_name(tree)}/tables/memory_layers/layers.parquet")
    assert f"asset {asset}" in said


def test_what_draws_timelines_draws_them_again(tree, edit):
    edit("profkit/timeline/trace_events.py", '"""', '_EXTRA = 1\n"""')
    assert tree.jobs() == ["report", DRAWN]
    said = tree.why(f"results/runs/{run_name(tree)}/timeline/torch_profiler.trace.json.gz")
    assert "module profkit.timeline.trace_events" in said


def test_code_of_the_workload_reruns_only_the_closed_form_of_its_memory(tree, edit):
    edit("profkit/marks.py", '"""', '_EXTRA = 1\n"""')
    edit("profkit/workloads/train.py", '"""', '_EXTRA = 1\n"""')
    assert tree.jobs() == sorted({"report", *analysed(tree)} & set(readers_of("memory_model")))


def test_another_tool_is_captured_beside_what_is_there(tree):
    jobs = tree.jobs("tool=[torch_profiler,memory_layers,py_spy]")
    assert {"capture_py_spy_rep0", "convert_py_spy", "manifest", "report"} <= set(jobs)
    assert not {"capture_baseline_rep0", "capture_torch_profiler_rep0"} & set(jobs)
    assert "convert_torch_profiler" not in jobs
    assert tree.jobs() == [], "a dry run changes nothing that a later one looks at"


def test_a_failed_capture_is_tried_again(tree):
    path = next((tree.folder / "results/runs").glob("*/capture/baseline/rep0/capture.json"))
    text = path.read_text()
    path.write_text(text.replace('"status": "ok"', '"status": "error"', 1))
    assert text != path.read_text()
    try:
        assert "capture_baseline_rep0" in tree.jobs()
        assert "capture_torch_profiler_rep0" not in tree.jobs()
    finally:
        path.write_text(text)


def test_a_really_rerun_analysis_is_fresh_again(tree, edit):
    edit("profkit/analyze/kernels.py", "= kernels.reset_index(", "= kernels.copy().reset_index(")
    tree.snakemake("")
    assert tree.jobs() == []
    assert "is fresh" in tree.why(f"results/runs/{run_name(tree)}/analyze/kernels.json")


DRAWN = "timeline_torch_profiler"


def run_name(tree):
    (folder,) = (tree.folder / "results/runs").iterdir()
    return folder.name


def closure_text(name):
    return " ".join(closure("profkit.analyze", f"profkit.analyze.{name}")[0])


def readers_of(name):
    """Return the jobs that follow from a change of the analysis `name`."""
    found, known = {name}, set()
    while found != known:
        known = set(found)
        found |= {other for other in ANALYSES if known & {*read_results(other)}}
    return sorted({"report", *(f"analyze_{name}" for name in found)})


def read_results(name):
    return (*analyses()[name].results, *analyses()[name].results_if_there)


def analysed(tree):
    """Return the jobs of the analyses that the tree has results of."""
    return {f"analyze_{path.stem}" for path in tree.folder.glob("results/**/analyze/*.json")}


def read_by(analysis):
    """Return the tables that `analysis` reads from one tool: its peaks are those of `devices`."""
    return {*analysis.tables, *(["devices"] if "hardware" in analysis.run_parameters else [])}


def readers_of_tables(tool, tree):
    """Return the jobs of analyses of the tree that read tables of `tool`, or results of such."""
    there = {job.removeprefix("analyze_") for job in analysed(tree)}
    tables = {path.stem for path in tree.folder.glob(f"results/runs/*/tables/{tool}/*.parquet")}
    others = {
        path.stem
        for path in tree.folder.glob("results/runs/*/tables/*/*.parquet")
        if path.parent.name != tool
    }
    # Of the tables that several tools make, only what takes them from every tool is sure to.
    found = {
        name
        for name in there
        if read_by(analyses()[name]) & (tables - others)
        or set(analyses()[name].tables_by_tool) & tables
    }
    jobs = set().union(*(readers_of(name) for name in found)) - {"report"}
    return jobs & analysed(tree)


def _gone(path):
    """Take `path` away; return what brings it back."""
    kept = path.rename(path.with_name("kept"))
    return lambda: kept.rename(path)


def _edited(path):
    """Add a byte to `path`; return what takes it away."""
    content, before = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(content + b" ")

    def restore():
        path.write_bytes(content)
        os.utime(path, ns=(before, before))

    return restore


RUN = "results/runs/*"


@pytest.mark.parametrize(
    ("change", "pattern", "job"),
    [
        (_gone, "results/report.html", "report"),
        (_gone, "results/report.json", "report"),
        (_gone, f"{RUN}/config.yaml", "manifest"),
        (_gone, f"{RUN}/analyze/steps.json", "analyze_steps"),
        (_gone, f"{RUN}/tables/baseline/convert.json", "convert_baseline"),
        (_gone, f"{RUN}/convert/memory_layers", "convert_memory_layers"),
        (_gone, f"{RUN}/tables/torch_profiler/cpu_ops.parquet", "convert_torch_profiler"),
        (_gone, f"{RUN}/capture/baseline/rep0/capture.json", "capture_baseline_rep0"),
        (_edited, f"{RUN}/analyze/steps.json", "report"),
        (_edited, f"{RUN}/tables/baseline/steps.parquet", "analyze_steps"),
    ],
)
def test_why_and_snakemake_agree_on_what_is_gone_or_edited_and_asking_changes_nothing(
    tree, change, pattern, job
):
    (path,) = tree.folder.glob(pattern)
    restore = change(path)
    before = state(tree)
    try:
        assert {job, "report"} <= set(tree.jobs())
        # Of this very selection: a dry run of another one is not the last that was worked on.
        done = tree.run("profkit", "why", "results/report.html")
        assert "results/report.html is stale" in done.stdout
        assert str(path.relative_to(tree.folder)) in done.stdout
        assert state(tree) == before
    finally:
        restore()


def state(tree):
    """Return what profkit and Snakemake remember, but for files named by their content."""
    kept = [*tree.folder.glob("results/.profkit/*.*"), *tree.folder.rglob(".snakemake/metadata/*")]
    return {path: path.read_bytes() for path in kept}


def test_an_analysis_that_fails_leaves_the_tree_stale_until_it_works(tree, edit):
    tree.snakemake("")
    edit("profkit/analyze/kernels.py", "batches(kernels) if", "batches(kernels.missing) if")
    config = f"overrides={tree.overrides}"
    commands = {
        "profkit": ("profkit", "run", *tree.overrides.split()),
        "snakemake": ("snakemake", "--cores", "2", "results/report.html", "--config", config),
    }
    for command in commands.values():
        done = tree.run(*command)
        said = done.stdout + done.stderr
        assert done.returncode == 1
        assert "analyze/kernels.json: AttributeError" in said
        (failed,) = page_data(tree.folder / "results/report.html")["report"]["problems"]
        assert "AttributeError" in failed["reason"]
        assert tree.jobs() == ["analyze_kernels", "report"]


def test_what_is_damaged_is_said_and_made_again(tree):
    tree.snakemake("")
    run = tree.folder / "results/runs" / run_name(tree)
    tables = {path: path.read_bytes() for path in run.glob("tables/*/*.parquet")}
    halves = [
        *(run / "tables/baseline/convert.json", run / "analyze/operators.json"),
        *(run / "manifest.json", run / "timeline/torch_profiler.json"),
        *(run / "tables/memory_layers/layers.parquet", tree.folder / "results/report.json"),
        *(tree.folder / "results/.profkit").rglob("*.*"),
    ]
    for path in halves:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "layers.parquet: is damaged or was edited" in tree.why("results/report.html")
    jobs = tree.jobs()
    assert {"convert_baseline", "convert_memory_layers", "analyze_operators"} <= set(jobs)
    assert {"manifest", DRAWN, "report"} <= set(jobs)
    assert not any(job.startswith("capture") for job in jobs)
    done = tree.run("profkit", "run", *tree.overrides.split())
    assert done.returncode == 0, done.stderr
    assert "layers.parquet: is damaged or was edited" in done.stderr
    assert "convert.json: it is damaged; it is made again" in done.stderr
    assert tree.jobs() == []
    assert {path: path.read_bytes() for path in tables} == tables
