from profkit.report import result_tree
from profkit.report.run_folder import captures, configuration, viewable
from profkit.report.shown_run import ShownRun


def run(**parts: object) -> result_tree.Run:
    selected = result_tree.Selected(
        run="a", folder="results/runs/a", tools={"py_spy": {"rate": 100}}
    )
    return result_tree.Run(selected=selected, **parts)


def test_what_people_open_comes_first_and_tables_are_left_out():
    files = (
        result_tree.File(path="capture/py_spy/rep0/a.speedscope.json", size_bytes=1),
        result_tree.File(path="convert/py_spy/a.svg", size_bytes=2),
        result_tree.File(path="capture/other/rep0/a.svg", size_bytes=3),
        result_tree.File(path="tables/py_spy/stacks.parquet", size_bytes=4),
    )
    shown_run = ShownRun(run(files=files), "run-1", "results")
    assert [(file.link.text, file.opens_with) for file in viewable(shown_run, 9)] == [
        ("convert/py_spy/a.svg", "this browser"),
        ("capture/py_spy/rep0/a.speedscope.json", "speedscope"),
    ]


def test_the_configuration_is_yaml_with_the_settings_of_the_tools():
    assert configuration(run()) == "tools:\n  py_spy:\n    rate: 100\n"


def test_how_long_a_capture_took_is_not_known_of_imported_files():
    took = result_tree.Captured(tool="nsys", repeat=0, status="ok", elapsed_s=0.0, exit_code=0)
    for manifest, known in (({}, 0), ({"behaviour": {"imported": "nsys"}}, None)):
        shown_run = ShownRun(run(captures=(took,), manifest=manifest), "run-1", "results")
        assert [(one.elapsed_s, one.exit_code) for one in captures(shown_run)] == [(known, known)]
