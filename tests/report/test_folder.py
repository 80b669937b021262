from profkit.report import sources, view
from profkit.report.folder import configuration, machines, manifest, viewable
from profkit.report.place import Place

MACHINE = {
    "cpu": "EPYC",
    "cpu_count": 2,
    "memory_bytes": 5,
    "gpus": [{"name": "H100"}],
    "cuda": None,
}


def run(**parts: object) -> sources.Run:
    selected = sources.Selected(run="a", folder="results/runs/a", tools={"py_spy": {"rate": 100}})
    return sources.Run(selected=selected, **parts)


def test_the_manifest_is_shown_as_labelled_values():
    git = {"profkit": {"commit": "abc", "dirty": False}}
    found = run(manifest={"machine": MACHINE, "versions": {"torch": "2.13"}, "git": git})
    assert manifest(found) == (
        (
            "Machine",
            (
                view.Item(label="CPU", value="EPYC"),
                view.Item(label="CPU count", value=2, unit="count"),
                view.Item(label="Memory", value=5, unit="bytes"),
                view.Item(label="GPU 0 name", value="H100"),
            ),
        ),
        ("Versions", (view.Item(label="torch", value="2.13"),)),
        (
            "Git",
            (
                view.Item(label="Profkit commit", value="abc"),
                view.Item(label="Profkit dirty", value="false"),
            ),
        ),
    )


def test_without_a_manifest_the_first_capture_says_what_the_machine_was():
    captured = sources.Captured(tool="py_spy", repeat=0, status="ok", machine={"hostname": "h"})
    assert machines([run(captures=(captured,)), run(captures=(captured,))]) == (
        view.Machine(title="h", items=(view.Item(label="Hostname", value="h"),)),
    )


def test_what_people_open_comes_first_and_tables_are_left_out():
    files = (
        sources.File(path="capture/py_spy/rep0/a.speedscope.json", size_bytes=1),
        sources.File(path="convert/py_spy/a.svg", size_bytes=2),
        sources.File(path="capture/other/rep0/a.svg", size_bytes=3),
        sources.File(path="tables/py_spy/stacks.parquet", size_bytes=4),
    )
    place = Place(run(files=files), "run-1", "results")
    assert [(each.link.text, each.opens_with) for each in viewable(place, 9)] == [
        ("convert/py_spy/a.svg", "this browser"),
        ("capture/py_spy/rep0/a.speedscope.json", "speedscope"),
    ]


def test_the_configuration_is_yaml_with_the_settings_of_the_tools():
    assert configuration(run()) == "tools:\n  py_spy:\n    rate: 100\n"
