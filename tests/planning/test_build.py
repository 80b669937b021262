"""From configurations to a checked selection of runs."""

import functools

import pytest

from profkit.core import resources, source_hash
from profkit.core.errors import ConfigError
from profkit.core.fingerprint import fingerprint, imports
from profkit.planning import cache as plans
from profkit.planning.build import make
from profkit.planning.model import differing

FEW = "analysis=[steps]"
"""For what has nothing to do with analyses: a plan of all takes twice as long."""


@functools.cache
def planned(*overrides):
    return make(resources.CONF, overrides)


def test_the_name_of_a_run_says_what_it_is_and_ends_in_its_identity():
    (run,) = planned().runs
    assert run.name.startswith("gpt_tiny-train-b2-w2-none-fp32-")
    assert len(run.name.rpartition("-")[2]) == 8


@pytest.mark.parametrize(
    "override",
    [
        "+tool=py_spy",
        "tools.torch_profiler.with_stack=true",
        "repeats=1",
        "warmup_steps=2",
        "exclusive=false",
        "timeout_s=9",
        "trace_block_mb=1",
        "hardware=h100_sxm",
        "analyses.steps.skip_first=2",
    ],
)
def test_what_leaves_the_workload_alone_is_the_same_run(override):
    assert planned(FEW, override).runs[0].name == planned(FEW).runs[0].name


@pytest.mark.parametrize(
    "override", ["batch=3", "seed=1", "steps=13", "model.layers=1", "workload=infer", "device=cpu"]
)
def test_what_changes_the_workload_is_another_run(override):
    assert planned(FEW, override).runs[0].name != planned(FEW).runs[0].name


OF_SCRIPT = (
    "analysis=[sweep]",
    "workload=script",
    "batch=2,4",
    "zero=none,zero2",
    "precision=bf16",
)


@pytest.mark.parametrize(
    ("command", "words", "differing_keys"),
    [
        ("s.py", "s-script-w2", set()),
        ("s.py --batch ${batch}", "s-script-b2-w2", {"batch"}),
        ("s.py ${zero.stage} ${compile}", "s-script-w2-none", {"zero"}),
    ],
)
def test_labels_show_what_a_script_reads(tmp_path, monkeypatch, command, words, differing_keys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").touch()
    plan = make(resources.CONF, (*OF_SCRIPT, f"workload.command='{command}'"))
    first, *_ = plan.runs
    assert first.name.rpartition("-")[0] == words
    assert {*differing(plan.runs)[first.name]} == differing_keys
    assert len({run.name for run in plan.runs}) == 4, "identities are as they were"
    known = plan.run_values(first, "sweep")["behaviour"]
    unread = {"batch", "zero", "precision"} - differing_keys
    assert not unread & {*known}, "no analysis takes them for what ran"


def test_captures_under_a_name_with_more_words_keep_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").touch()
    words = (FEW, "workload=script", "workload.command=s.py")
    (run,) = make(resources.CONF, words).runs
    digest = run.name.rpartition("-")[2]
    assert run.name == f"s-script-w2-{digest}"
    (tmp_path / f"results/runs/s-script-b2-w2-none-fp32-{digest}").mkdir(parents=True)
    (run,) = make(resources.CONF, words).runs
    assert run.name == f"s-script-b2-w2-none-fp32-{digest}"


def test_six_runs_and_what_tells_them_apart():
    plan = planned(FEW, "batch=1,2,4", "model=gpt_tiny,cnn_small")
    differs = differing(plan.runs)
    assert [differs[run.name] for run in plan.runs] == [
        {"model": model, "batch": batch}
        for batch in (1, 2, 4)
        for model in ("gpt_tiny", "cnn_small")
    ]


def test_the_same_run_twice_has_the_tools_of_both():
    (run,) = planned(FEW, "toolset=minimal,sampling").runs
    assert list(run.tools) == ["baseline", "py_spy"]


def test_analyses_without_a_table_are_left_out_with_a_note():
    plan = planned("tool=[py_spy]")
    assert "operators" not in plan.runs[0].analyses
    assert any("operators is left out: no enabled tool makes" in note for note in plan.left_out)


def test_an_analysis_that_reads_what_is_there_needs_one_of_them():
    plan = planned("tool=[torch_profiler]")
    lacks = next(note for note in plan.left_out if "snapshot_diff" in note)
    missing = "snapshot_diff are left out: no enabled tool makes allocations"
    assert f"memory_peak, memory_verdict, {missing}" in lacks
    # The unprofiled peak is enough.
    assert "memory_fit" in plan.runs[0].comparisons
    assert "memory_fit" in planned("tool=[memory_layers]").runs[0].comparisons
    both = planned("tool=[memory_snapshot]", "analysis=[memory_peak,memory_fit]").runs[0]
    assert "memory_fit" in both.comparisons
    assert "memory_model" not in both.analyses


def test_an_analysis_reads_tables_of_one_tool_so_that_clocks_agree():
    plan = planned("tool=[py_spy,torch_profiler]")
    run = plan.runs[0]
    folders = {path.split("/")[-2] for path in plan.tables(run, "breakdown")}
    assert folders == {"torch_profiler"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+nonsense=1"], "no such key: nonsense"),
        (["batch=zero"], "batch: Input should be a valid integer"),
        (["batch=0"], "batch: Input should be greater than 0"),
        (["precision=fp8"], "precision: Input should be 'fp32', 'bf16' or 'fp16'"),
        (
            ["tools.torch_profiler.schedule=sometimes"],
            "tools.torch_profiler.schedule: Input should",
        ),
        (["+tools.torch_profiler.nope=1"], "tools.torch_profiler.nope: no such key"),
        (["+tools.nsis={}"], "no tool named 'nsis'"),
        (["+analyses.idel={}"], "no analysis named 'idel'"),
        (["+model.lyers=2"], "model.lyers: no such key; did you mean 'layers'"),
        (["steps=2", "warmup_steps=1"], "tools.torch_profiler: "),
        (["warmup_steps=12"], "leaves none of 12 steps to measure"),
        (["launcher=python"], "launcher: "),
        (["tool=[py_spy]", "analysis=[operators]"], "analysis operators: no enabled tool makes"),
        (["analyses.steps.max_rows=5,9"], "two settings for the same run"),
        (["repeats=1,2"], "cannot be swept"),
        (["model=glob(zzz*)"], "no run is selected by analysis=[steps] model=glob(zzz*)"),
    ],
)
def test_mistakes_are_named_before_anything_runs(overrides, message):
    with pytest.raises(ConfigError) as caught:
        planned(FEW, *overrides)
    assert message in str(caught.value)


SIDE_BY_SIDE = ("tools.torch_profiler.schedule=stable,early,periodic", "batch=2,4")


def test_settings_of_a_tool_side_by_side_are_captures_of_one_run():
    plan = planned(*SIDE_BY_SIDE)
    assert len(plan.runs) == 2
    for run in plan.runs:
        schedules = {
            name: values["schedule"]
            for name, values in run.tools.items()
            if name.startswith("torch_profiler")
        }
        assert schedules == {
            "torch_profiler": "stable",
            "torch_profiler@schedule-early": "early",
            "torch_profiler@schedule-periodic": "periodic",
        }
        assert run.overrides[0] == SIDE_BY_SIDE[0], "the run can be made again by them"
        (kernels, *_) = plan.tables(run, "breakdown")
        assert "/torch_profiler/" in kernels
    first, second = (plan.tools[f"torch_profiler{end}"] for end in ("", "@schedule-early"))
    assert first == second
    assert plan.run(planned("batch=4").runs[0].name), "with the captures of the run alone"


def test_names_of_captures_tell_all_settings_of_one_tool_apart():
    apis = ("[cuda,nvtx]", "[cuda_nvtx]", f"[{','.join('abcdefghij' * 9)}]", "[cuda,nvtx]")
    plan = planned("tool=[baseline,nsys]", f"tools.nsys.trace={','.join(apis)}")
    _, *names = plan.runs[0].tools
    assert len(names) == 3
    assert names[0] == "nsys"
    assert all(len(name) < 100 for name in names)
    assert not [note for note in plan.notes if "cannot share a process" in note]


def test_settings_of_an_analysis_side_by_side_are_runs_of_a_variable_of_the_program():
    setting = "tools.torch_profiler.schedule=${launcher.env.TRY}"
    early, stable = planned(FEW, "+launcher.env.TRY=early,stable", setting).runs
    assert early.name != stable.name
    schedules = [run.tools["torch_profiler"]["schedule"] for run in (early, stable)]
    assert schedules == ["early", "stable"]
    with pytest.raises(ConfigError, match="two settings") as caught:
        planned("analyses.operators.max_rows=5,9")
    assert "'+launcher.env.TRY=A,B' 'analyses.operators.SETTING=${launcher.env.TRY}'" in str(
        caught.value
    )


def test_a_cached_plan_is_the_same_plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = plans.load([FEW, "batch=1,2"])
    assert len(list(plans.CACHE.iterdir())) == 1
    assert plans.load([FEW, "batch=1,2"]) == first


def test_what_sources_are_made_of_is_kept_for_all_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    source_hash.syntax.cache_clear()
    imports.cache_clear()
    first = fingerprint("profkit.convert", "profkit.convert.torch_profiler")
    kept = len([*source_hash.kept().iterdir()])
    source_hash.syntax.cache_clear()
    imports.cache_clear()
    monkeypatch.setattr(source_hash, "_parsed", None)
    assert fingerprint("profkit.convert", "profkit.convert.torch_profiler") == first
    monkeypatch.setattr(source_hash, "_MOST_KEPT", 2)
    source_hash.forget_old()
    assert kept > len([*source_hash.kept().iterdir()]) == 2


def test_sources_are_read_where_nothing_can_be_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "file"))
    source_hash.syntax.cache_clear()
    imports.cache_clear()
    assert fingerprint("profkit.convert", "profkit.convert.py_spy")


def test_a_selection_that_cannot_be_leaves_no_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        plans.load(["batch=none"])
    assert not [*tmp_path.iterdir()]


def test_a_changed_configuration_is_planned_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = plans._key((), resources.CONF)
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "config.yaml").write_text("batch: 3\n")
    first = plans._key((), conf)
    (conf / "config.yaml").write_text("batch: 4\n")
    assert len({before, first, plans._key((), conf)}) == 3


APART = (
    "tools torch_profiler, ncu and nsys cannot share a process, of which only one may hold CUPTI:"
    " each has captures of its own"
)


def test_the_plan_says_how_tools_that_cannot_share_a_process_are_scheduled():
    assert f"{APART}, one after the other" in planned(FEW, "tool=[torch_profiler,ncu,nsys]").notes
    assert not [note for note in planned(FEW, "tool=[nsys,system]").notes if "share" in note]


def test_a_capture_that_holds_the_counters_of_gpus_has_the_machine_even_where_captures_share_it():
    plan = planned(FEW, "tool=[torch_profiler,ncu,nsys]", "exclusive=false")
    assert APART in plan.notes
    beside = (
        "exclusive=false: nothing runs beside captures of {} even so, which hold the counters of"
        " GPUs"
    )
    assert beside.format("ncu") in plan.notes
    assert [name for name, tool in plan.tools.items() if tool.is_alone] == ["ncu"]
    metrics = "tools.nsys.gpu_metrics_devices=[all]"
    sampling = planned(FEW, "tool=[ncu,nsys]", "exclusive=false", metrics)
    assert beside.format("ncu and nsys") in sampling.notes


def test_a_tool_waits_for_the_analysis_that_it_chooses_by_if_that_is_chosen():
    (chosen,) = planned("+tool=ncu").runs
    assert chosen.reads == {"ncu": ("ncu_targets",)}
    plan = planned("+tool=ncu", "analysis=[kernels]")
    assert plan.runs[0].reads == {}
    note = "tool ncu cannot choose by ncu_targets: no part of the selection"
    assert note in plan.notes
    own = planned("analysis=[ncu_targets]", "+tool=ncu", "tools.ncu.kernel=gemm")
    assert own.runs[0].reads == {}


@pytest.mark.parametrize(
    ("tool", "is_there"),
    [("nsys", True), ("torch_profiler", True), ("ncu", True), ("system", False)],
)
def test_all_that_is_known_of_kernels_needs_a_trace_or_counters_of_them(tool, is_there):
    plan = planned(f"tool=[{tool}]")
    lack = "makes kernels or measured_kernels; add +tool=nsys or +tool=torch_profiler or +tool=ncu"
    left_out = [note for note in plan.left_out if lack in note and "kernel_view" in note]
    assert ("kernel_view" in plan.runs[0].analyses, bool(left_out)) == (is_there, not is_there)


def test_an_analysis_runs_without_the_tables_that_may_lack():
    (run,) = planned().runs
    # No tool of the selection makes measured_kernels, which it takes where there are any.
    assert "kernel_view" in run.analyses
    assert "ncu_summary" not in run.analyses
    plan = planned("+tool=ncu")
    tables = plan.tables(plan.runs[0], "kernel_view")
    assert any(path.endswith("ncu/measured_kernels.parquet") for path in tables)


@pytest.mark.parametrize(
    ("overrides", "has_baseline"),
    [
        (["tool=[memory_layers]"], False),
        (["tool=memory_snapshot"], False),
        (["tool=[memory_layers,host_memory]"], False),
        (["tool=[memory_layers,torch_profiler]"], True),
        (["tool=[baseline,memory_layers]"], True),
        (["tool=[memory_layers]", "analysis=[steps]"], True),
        (["tool=[]"], True),
        ([], True),
    ],
)
def test_tools_that_only_count_need_no_baseline_that_was_not_asked_for(overrides, has_baseline):
    assert ("baseline" in planned(*overrides).runs[0].tools) == has_baseline


def test_a_setting_that_was_added_later_leaves_captures_fresh_until_it_is_set():
    before = {"ranks": "all", "measurements": 10, "calls": 3}
    (run,) = planned("+tool=torch_benchmark", "tools.torch_benchmark.threads=null,4").runs
    assert run.tools["torch_benchmark"] == before
    assert run.tools["torch_benchmark@threads-4"] == {**before, "threads": 4}


def test_an_analysis_needs_no_optional_result_where_it_reads_another():
    plan = planned("tool=[]", "batch=1,2", "analysis=[steps,sweep]")
    assert {"steps", "sweep"} <= {*plan.analyses}


@pytest.mark.parametrize(
    ("overrides", "has_marks"),
    [
        (["world_size=8"], False),
        (["world_size=9"], True),
        (["world_size=9", "+tool=system"], True),
        (["world_size=9", "tool=[system]"], False),
        (["world_size=9", "toolset=minimal"], False),
        (["tool=[marks]"], True),
    ],
)
def test_of_more_than_8_ranks_all_leave_marks_unless_tools_are_named(overrides, has_marks):
    assert ("marks" in planned(FEW, *overrides).runs[0].tools) == has_marks


@pytest.mark.parametrize(
    ("overrides", "ranks"),
    [
        (["world_size=8"], "all"),
        (["world_size=9"], "representative"),
        (["world_size=9", "ranks=all"], "all"),
        (["world_size=9", "ranks=0,3"], [0, 3]),
        (["world_size=9", "ranks=[0,3]"], [0, 3]),
        (["world_size=4", "+tools.torch_profiler.ranks=1,3"], [1, 3]),
        (["world_size=4", "ranks=3"], [3]),
        (["world_size=9", "tool=[torch_profiler]"], "all"),
        (["world_size=9", "tool=[torch_profiler,marks]"], "representative"),
        (["world_size=4", "ranks=representative"], "representative"),
    ],
)
def test_heavy_tools_record_all_of_few_ranks_those_named_or_representative_ones(overrides, ranks):
    (run,) = planned(FEW, *overrides).runs
    assert run.tools["torch_profiler"]["ranks"] == ranks
    reads = run.reads.get("torch_profiler", ())
    is_chosen = ranks == "representative"
    assert ("representative_ranks" in reads) == is_chosen
    assert ("representative_ranks" in run.analyses) == is_chosen
    if is_chosen:
        assert run.tools["marks"]["ranks"] == "all"
        path = f"results/runs/{run.name}/tables/marks/collectives.parquet"
        assert path in planned(FEW, *overrides).tables(run, "representative_ranks")


def test_a_tool_that_asks_for_representative_ranks_gets_marks_as_well():
    plan = planned(FEW, "tool=[py_spy,ncu]", "+tools.py_spy.ranks=representative", "world_size=4")
    assert [*plan.runs[0].tools] == ["baseline", "py_spy", "ncu", "marks"]
    assert plan.runs[0].reads["py_spy"] == ("representative_ranks",)
    assert plan.runs[0].analyses["representative_ranks"]["skip_first"] == 3
    assert any(note.startswith("ranks=representative, for py_spy: ") for note in plan.notes)


@pytest.mark.parametrize(
    ("overrides", "note"),
    [
        (
            ["world_size=9", "tool=[torch_profiler]"],
            "all 9 ranks are recorded, as tools are named; ranks=representative records a few",
        ),
        (
            ["world_size=9", "tool=[ncu,marks]"],
            "tool ncu records ranks 0, not those of ranks=representative",
        ),
        (
            ["ranks=representative", "tool=[nsys]", "tools.nsys.per=host"],
            "tool nsys records all ranks of each host: it runs their launcher",
        ),
    ],
)
def test_which_ranks_are_recorded_is_said_where_it_is_not_what_the_name_says(overrides, note):
    assert note in planned(FEW, *overrides).notes


@pytest.mark.parametrize(
    ("overrides", "read"),
    [
        ([], {"stragglers": "torch_profiler", "causes": "torch_profiler"}),
        (["ranks=[0]"], {"stragglers": "marks", "causes": "torch_profiler"}),
    ],
)
def test_ranks_are_compared_by_a_tool_that_recorded_all_of_them(overrides, read):
    plan = planned("tool=[marks,torch_profiler]", "analysis=[stragglers,causes]", *overrides)
    (run,) = plan.runs
    for analysis, tool in read.items():
        assert f"/tables/{tool}/collectives.parquet" in " ".join(plan.tables(run, analysis))
