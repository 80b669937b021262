from profkit.report import sources
from profkit.report.folder import configuration, viewable
from profkit.report.place import Place


def run(**parts: object) -> sources.Run:
    selected = sources.Selected(run="a", folder="results/runs/a", tools={"py_spy": {"rate": 100}})
    return sources.Run(selected=selected, **parts)


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
