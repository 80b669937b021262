import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from profkit.core.errors import ConfigError, InputError
from profkit.report.__main__ import main
from profkit.report.record import json_schema
from tests.page_text import page_data, page_text
from tests.report.conftest import report_of
from tests.report.demo import HOSTILE


class Elements(HTMLParser):
    """The elements of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name_of_tag, attributes in self.tags if name_of_tag == tag]


@pytest.fixture(scope="module")
def page(demo_report: Path) -> str:
    return demo_report.read_text()


def test_a_hostile_name_makes_no_element(page):
    elements = Elements(page)
    assert elements.all("img") == []
    assert {
        name for _, attributes in elements.tags for name in attributes if name.startswith("on")
    } == set()
    assert HOSTILE not in page
    assert "\\u003c/script\\u003e\\u003cimg src=x onerror=alert(1)\\u003e takes 31%" in page


def test_scripts_and_styles_are_inside_and_the_policy_names_each_script(page):
    elements = Elements(page)
    assert [script for script in elements.all("script") if "src" in script] == []
    assert [link["href"] for link in elements.all("link")] == ["data:,"]
    policy = next(
        meta["content"]
        for meta in elements.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert re.fullmatch(
        r"default-src 'none'; script-src( 'sha256-[A-Za-z0-9+/]{43}='){2}; "
        r"style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        policy,
    )


def links_of(value):
    """Yield every address in the data of a page."""
    if isinstance(value, dict):
        yield from (link for key, link in value.items() if key == "href")
        for child in value.values():
            yield from links_of(child)
    elif isinstance(value, list):
        for child in value:
            yield from links_of(child)


def anchors_of(value):
    """Yield every place in the data of a page that a link can lead to."""
    if isinstance(value, dict):
        yield from (name for key, name in value.items() if key == "anchor")
        for child in value.values():
            yield from anchors_of(child)
    elif isinstance(value, list):
        for child in value:
            yield from anchors_of(child)


def test_every_link_is_an_anchor_of_the_page_or_a_file_that_exists(demo_report):
    data = page_data(demo_report)
    anchors = set(anchors_of(data))
    hrefs = list(links_of(data))
    assert len(hrefs) > 100
    lost = [
        href
        for href in hrefs
        if (
            href[1:] not in anchors
            if href.startswith("#")
            else not (demo_report.parent / href).exists()
        )
    ]
    assert lost == []


def test_what_failed_and_what_is_not_known_is_in_the_data(demo_report):
    report, text = page_data(demo_report)["report"], page_text(demo_report)
    assert [problem["reason"] for problem in report["problems"]] == ["no end after 1800 s"] * 2
    assert all("Killed </script>" in problem["log_tail"] for problem in report["problems"])
    assert "allocated memory\nprofile_memory was off in this capture" in text


def test_a_hundred_runs_stay_within_their_size(tmp_path):
    out = report_of(tmp_path, count=100, rows=5000)
    assert out.stat().st_size < 6_000_000 + 100 * 200_000


def test_tables_of_any_length_stay_within_the_size_of_one_run(tmp_path):
    out = report_of(tmp_path, count=1, rows=200_000)
    assert out.stat().st_size < 6_000_000 + 200_000


def test_a_missing_selection_is_a_readable_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        main(["--selection", str(tmp_path / "none.json"), "--out", str(tmp_path / "out.html")])


def test_a_selection_without_runs_is_a_readable_error(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"title": "", "runs": []}))
    with pytest.raises(InputError, match="no run is selected"):
        main(["--selection", str(tmp_path / "s.json"), "--out", str(tmp_path / "out.html")])


def test_a_damaged_selection_names_the_file(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"title": 3, "runs": []}))
    with pytest.raises(InputError, match=r"s\.json: Expected `str`, got `int`"):
        main(["--selection", str(tmp_path / "s.json"), "--out", str(tmp_path / "out.html")])


def test_a_misspelt_setting_names_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"report\.titel: no such key; did you mean 'title'"):
        main(["--selection", "s", "--out", str(tmp_path / "o.html"), "--settings", '{"titel": 1}'])


def test_what_the_page_was_made_of_lies_beside_it(demo_report):
    made_of = json.loads(demo_report.with_suffix(".json").read_bytes())["provenance"]
    run = "results/runs/train-gpt_tiny-b1-00000000"
    assert [path for path in made_of["inputs"] if path.startswith(run)] == [
        f"{run}/manifest.json",
        *(
            f"{run}/capture/{tool}/rep{repeat}/capture.json"
            for tool in ("baseline", "torch_profiler", "py_spy")
            for repeat in range(2)
        ),
        f"{run}/tables/torch_profiler/convert.json",
        *(
            f"{run}/analyze/{name}.json"
            for name in (
                *("steps", "breakdown", "operators", "kernels", "memory"),
                *("observer_tax", "step_timeline", "step_costs"),
            )
        ),
    ]
    assert made_of["settings"]["rows_per_page"] == 10
    assert "profkit.report.build_view" in made_of["modules"]
    assert "profkit/report/assets/page/table.js" in made_of["modules"]


def test_the_numbers_beside_the_page_keep_to_their_schema_in_docs(demo_report):
    docs = Path(__file__).parents[2] / "docs" / "report.schema.json"
    schema = json.loads(docs.read_text())
    known = json.loads(msgspec.json.encode(json_schema()))
    assert schema == known, "write record.json_schema() to docs/report.schema.json"
    written = json.loads(demo_report.with_suffix(".json").read_bytes())
    # Loading it compiles grammars, which takes a second.
    import jsonschema

    jsonschema.validate(written, schema)
    assert written["schema_version"] == 1
    assert written["runs"][0]["run"] == "train-gpt_tiny-b1-00000000"


def test_a_text_for_an_issue_lies_beside_the_page(demo_report):
    lines = demo_report.with_suffix(".md").read_text().splitlines()
    assert lines[0] == "# GPT and CNN against the batch size"
    assert {"## Runs", "## Set-up", "## Failures"} <= set(lines)
    assert len(lines) <= 80


def test_an_old_page_survives_a_failure(tmp_path):
    out = tmp_path / "out.html"
    out.write_text("old")
    with pytest.raises(InputError):
        main(["--selection", str(tmp_path / "none.json"), "--out", str(out)])
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]
