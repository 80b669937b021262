import pandas as pd
import pytest

from profkit.core.result import Document, Provenance, Result, table
from profkit.report import result_tree, view
from profkit.report.labelled_values import Item
from profkit.report.provenance import before, differences, listings, machines, manifest, ran
from profkit.report.shown_run import ShownRun

MACHINE = {
    "cpu": "EPYC",
    "cpu_count": 2,
    "memory_bytes": 5,
    "gpus": [{"name": "H100"}],
    "cuda": None,
}


def run(name: str = "a", **parts: object) -> result_tree.Run:
    selected = result_tree.Selected(run=name, folder=f"results/runs/{name}")
    return result_tree.Run(selected=selected, **parts)


def captured(tool: str = "baseline", **parts: object) -> result_tree.Captured:
    return result_tree.Captured(tool=tool, repeat=0, status="ok", **parts)


def shown_runs(*runs: result_tree.Run) -> list[ShownRun]:
    return [ShownRun(run, f"run-{index}", "results") for index, run in enumerate(runs)]


def test_the_manifest_is_shown_as_labelled_values():
    recorded = {
        "machine": MACHINE,
        "versions": {"torch": "2.13"},
        "git": {"profkit": {"commit": "abc", "dirty": False, "diff": "-one"}},
        "environment": {"NCCL_DEBUG": "INFO"},
        "script": {"path": "train.py"},
    }
    assert manifest(run(manifest=recorded)) == (
        (
            "Machine",
            (
                Item(label="CPU", value="EPYC"),
                Item(label="CPU count", value=2, unit="count"),
                Item(label="Memory", value=5, unit="bytes"),
                Item(label="GPU 0 name", value="H100"),
            ),
        ),
        ("Versions", (Item(label="torch", value="2.13"),)),
        (
            "Environment",
            (Item(label="NCCL_DEBUG", value="INFO"),),
        ),
        (
            "Sources",
            (
                Item(label="Profkit commit", value="abc"),
                Item(label="Profkit dirty", value="false"),
                Item(label="Script path", value="train.py"),
            ),
        ),
    )


def test_what_ran_is_said_in_a_few_words():
    behaviour = {"model": {"name": "gpt"}, "batch": 4, "world_size": 2, "zero": {"name": "zero2"}}
    selected = result_tree.Selected(run="a", folder="results/runs/a", behaviour=behaviour)
    recorded = {"machine": MACHINE, "versions": {"torch": "2.13"}}
    shown = ran(result_tree.Run(selected=selected, manifest=recorded))
    assert list(shown) == ["gpt", "batch 4", "ZeRO 2", "2 ranks", "EPYC, H100", "torch 2.13"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [("a", "before-a", 623e6), ("b", "before-b", 1e6), ("a", "(now)", 15.8e6)],
            ["a step 623 ms before, 15.8 ms now"],
        ),
        ([("a", "main", 623e6), ("a", "(now)", 15.8e6)], []),
        ([("a", "before-a", None), ("a", "(now)", 15.8e6)], []),
        ([("a", "before-a", 623e6), ("a", "(now)", None)], []),
    ],
)
def test_what_a_step_took_before_the_program_changed_is_said(rows, said):
    columns = ["series", "result", "step_time_ns"]
    points = table(pd.DataFrame(rows, columns=columns), title="")
    provenance = Provenance(settings={}, modules={}, packages={}, inputs={})
    history = Document(
        analysis="history",
        title="",
        summary="",
        result=Result(tables={"points": points}),
        provenance=provenance,
    )
    assert list(before(run(), history)) == said
    assert list(before(run(), None)) == []


def test_of_a_command_its_words_are_said_and_of_an_import_its_kind():
    for behaviour, words in (
        (
            {"workload": {"command": ["python", "a b.py"]}, "batch": 1},
            ["python 'a b.py'", "1 rank"],
        ),
        ({"model": {"name": "dlrm"}, "imported": "trace"}, ["imported trace", "dlrm"]),
    ):
        selected = result_tree.Selected(run="a", folder="results/runs/a", behaviour=behaviour)
        assert list(ran(result_tree.Run(selected=selected))) == words


def test_of_an_import_the_ranks_that_were_recorded_count():
    behaviour = {"model": {"name": "dlrm"}, "imported": "trace", "world_size": 8}
    selected = result_tree.Selected(run="a", folder="results/runs/a", behaviour=behaviour)
    for labels, words in (
        (("rank7_dp7_tp0_pp0",), []),
        (("rank3_dp3_tp0_pp0", "rank7_dp7_tp0_pp0"), ["2 ranks"]),
    ):
        captured = result_tree.Captured(tool="torch_profiler", repeat=0, status="ok", ranks=labels)
        shown = ran(result_tree.Run(selected=selected, captures=(captured,)))
        assert list(shown) == ["imported trace", "dlrm", *words]


def test_of_an_import_the_gpus_that_its_files_describe_are_the_machine():
    behaviour = {"model": {"name": "dlrm"}, "imported": "trace"}
    selected = result_tree.Selected(run="a", folder="results/runs/a", behaviour=behaviour)
    described = [
        result_tree.Conversion(tool="torch_profiler", gpus=("Tesla V100", "A100")),
        result_tree.Conversion(tool="nsys", gpus=("A100",)),
    ]
    imported = result_tree.Run(selected=selected, conversions=tuple(described))
    assert list(ran(imported)) == ["imported trace", "dlrm", "Tesla V100, A100"]
    captured = result_tree.Captured(tool="nsys", repeat=0, status="ok", machine=MACHINE)
    [known] = machines([run(captures=(captured,), conversions=tuple(described))])
    assert known.title == "EPYC, H100"


def test_without_a_manifest_the_first_capture_says_what_the_machine_was():
    captured = result_tree.Captured(tool="py_spy", repeat=0, status="ok", machine={"hostname": "h"})
    assert machines([run(captures=(captured,)), run(captures=(captured,))]) == (
        view.Machine(title="h", items=(Item(label="Hostname", value="h"),)),
    )


def test_the_host_of_each_rank_is_shown_where_there_are_several():
    def places(*hosts):
        return tuple(
            {"label": f"rank{rank}", "hostname": host, "node": node, "local_rank": 0}
            for rank, (host, node) in enumerate(hosts)
        )

    def shown(*hosts):
        found = dict(manifest(run(captures=(captured(places=places(*hosts)),))))
        return [(item.label, item.value) for item in found.get("Hosts of the ranks", ())]

    assert shown(("a", 0), ("b", 1)) == [
        ("rank0", "a (node 0, local rank 0)"),
        ("rank1", "b (node 1, local rank 0)"),
    ]
    assert shown(("a", 0), ("a", 1))[1] == ("rank1", "a (node 1, local rank 0)")
    assert shown(("a", 0), ("a", 0)) == shown() == []


def test_commands_changes_and_packages_are_texts():
    recorded = {
        "git": {"project": {"commit": "abc", "diff": "-one\n+two\n"}, "profkit": {"commit": "d"}},
        "packages": {"numpy": "2.4", "torch": "2.13"},
    }
    once = [captured("py_spy", command=("py-spy", "a b")), captured("baseline", command=("x",))]
    assert listings(run(manifest=recorded, captures=(*once, *once))) == (
        view.Listing(
            title="Commands", text="profkit reproduce a\npy_spy: py-spy 'a b'\nbaseline: x"
        ),
        view.Listing(title="Changes of project that were not committed", text="-one\n+two\n"),
        view.Listing(title="All packages", text="numpy 2.4\ntorch 2.13"),
    )


def test_what_is_not_the_same_in_all_captures_is_noted_with_the_runs():
    one = {"machine": {"hostname": "h1", "gpus": [{"name": "H100"}]}, "versions": {"torch": "2.13"}}
    other = {"machine": {"hostname": "h1", "gpus": []}, "versions": {"torch": "2.12"}}
    first = run("a", captures=(captured(**one), captured("py_spy", versions={"py-spy": "0.4"})))
    second = run("b", captures=(captured(**one), captured(**other)))
    assert differences(shown_runs(first, second)) == (
        "The set of GPUs is not the same everywhere: H100 (a, b); none (b)",
        "The version of torch is not the same everywhere: 2.13 (a, b); 2.12 (b)",
    )


def test_commits_and_changes_that_differ_are_noted():
    def run_at(name, **state):
        return run(name, manifest={"git": {"profkit": state}})

    same = [run_at(name, commit="4f2a") for name in ("a", "b")]
    assert differences(shown_runs(*same)) == ()
    changed = run_at("c", commit="4f2a", diff_sha256="77ab01fe00")
    assert differences(shown_runs(*same, changed)) == (
        (
            "The commit of profkit is not the same everywhere: 4f2a (a, b);"
            " 4f2a with changes 77ab01fe (c)"
        ),
    )


def test_files_of_which_captures_ran_different_versions_are_noted():
    def capture_of(digest):
        same = result_tree.Source(path="train.py", sha256="5")
        return captured(sources=(same, result_tree.Source(path="net.py", sha256=digest)))

    runs = [run(captures=(capture_of("1"), capture_of("1"))), run("b", captures=(capture_of("2"),))]
    assert differences(shown_runs(*runs)) == ("Captures ran different versions of net.py.",)
    assert differences(shown_runs(runs[0])) == ()


def test_of_many_runs_the_first_are_named():
    runs = [run(name, captures=(captured(versions={"torch": "1"}),)) for name in "abcde"]
    odd = run("z", captures=(captured(versions={"torch": "2"}),))
    assert differences(shown_runs(*runs, odd)) == (
        "The version of torch is not the same everywhere: 1 (a, b, c and 2 more); 2 (z)",
    )
