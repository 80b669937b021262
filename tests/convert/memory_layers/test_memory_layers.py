"""What memory_layers recorded, as a table, as a log, and as rings in a real browser."""

import json
import re

import pytest

from profkit.convert.base import Raw
from profkit.convert.memory_layers import convert
from profkit.core.errors import InputError

LABEL = "rank3_dp3_tp0_pp0"
HOSTILE = "</script><script>alert(1)</script>"
PAGES = [f"{name}_memory_sunburst.html" for name in ("summary", "params", "grads", "os")]
PAGES.append("activation_memory_sunburst.html")


def row(module, kind, size, elements=0, model="Net"):
    return [model, module, kind, "cpu", "float32", size, 1, elements]


BEFORE = [row("", "buffers", 40), row("a.0", "parameters", 4000, 1000), row("b", "parameters", 64)]
AFTER = [
    *BEFORE,
    row("a.0", "gradients", 4000),
    row("a.0", "states", 8000),
    row("b", "activations", 640),
    row(HOSTILE, "activations", 64),
    row("", "other", 12, model=""),
]
RECORD = {
    "schema_version": 1,
    "label": LABEL,
    "rank": 3,
    "models": {"Net": {"": "Net", "a": "Sequential", "a.0": "Linear", "b": "Linear"}},
    "states": [
        {"step": -1, "point": "set_up", "time_ns": 1_000_000, "took_ns": 1, "rows": BEFORE},
        {"step": 2, "point": "forward", "time_ns": 5_000_000, "took_ns": 1, "rows": AFTER},
    ],
}


def raw(folder, content=None, repeat=0):
    path = folder / f"{LABEL}.layers.json"
    path.write_text(json.dumps(RECORD) if content is None else content)
    return Raw(path=path, label=LABEL, rank=3, repeat=repeat)


def test_each_row_becomes_one_of_the_table_with_its_class(tmp_path):
    rows = convert.run(raw(tmp_path, repeat=1), tmp_path).tables["layers"].to_pylist()
    assert len(rows) == len(BEFORE) + len(AFTER)
    assert rows[1] == {
        "rank": 3,
        "repeat": 1,
        "step": -1,
        "point": "set_up",
        "time_ns": 1_000_000,
        "model": "Net",
        "module": "a.0",
        "module_class": "Linear",
        "kind": "parameters",
        "device": "cpu",
        "dtype": "float32",
        "size_bytes": 4000,
        "tensors": 1,
        "elements": 1000,
    }


def test_the_log_has_states_totals_and_the_layout_by_layer(tmp_path):
    convert.run(raw(tmp_path), tmp_path)
    text = (tmp_path / "memory_trace" / LABEL / "memory.log").read_text()
    lines = [line.split() for line in text.splitlines()]
    assert ["parameters", "4,064", "3.97", "KiB", "before", "the", "first", "step"] in lines
    # A module counts with all inside it: a holds what a.0 does.
    inside = ["1,000", "3.91", "KiB", "3.91", "KiB", "7.81", "KiB", "-", "-"]
    assert ["a", "Sequential", *inside] in lines
    assert ["0", "Linear", *inside] in lines
    assert any(line[:4] == ["step", "2,", "after", "forward"] for line in lines)


def test_repeats_have_folders_of_their_own(tmp_path):
    for repeat in (0, 1):
        convert.run(raw(tmp_path, repeat=repeat), tmp_path)
    folders = sorted(folder.name for folder in (tmp_path / "memory_trace").iterdir())
    assert folders == [LABEL, f"{LABEL}.rep1"]


def test_a_record_without_states_says_so(tmp_path):
    converted = convert.run(raw(tmp_path, json.dumps(RECORD | {"states": []})), tmp_path)
    assert len(converted.tables["layers"]) == 0
    assert "No point of a step was reached" in converted.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(RECORD)[:-30], "not a record of layers"),
        ('{"schema_version": 1}', "not a record of layers"),
        (json.dumps(RECORD | {"schema_version": 2}), "of version 2"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        convert.run(raw(tmp_path, content), tmp_path)


@pytest.fixture
def opened(chromium, tmp_path):
    """Open one of the pages; fail if it asks for anything or says anything."""
    convert.run(raw(tmp_path), tmp_path)
    context = chromium.new_context(viewport={"width": 900, "height": 900})
    requests, messages = [], []

    def answer(route):
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            requests.append(route.request.url)
            route.abort()

    def open_file(name):
        path = tmp_path / "memory_trace" / LABEL / name
        assert path.stat().st_size < 50_000
        page = context.new_page()
        page.route("**", answer)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield open_file
    context.close()
    assert (requests, messages) == ([], [])


@pytest.mark.parametrize("name", PAGES)
def test_every_page_draws_its_rings_and_asks_for_nothing(opened, name):
    page = opened(name)
    assert page.locator("#rings path").count() >= 1


def test_rings_are_shares_and_can_be_zoomed_and_searched(opened):
    page = opened("summary_memory_sunburst.html")
    # The fullest instant comes first: all that is held in step 2.
    assert page.locator("#says").text_content().startswith("all: 16.43 KiB")
    states = page.locator("path", has=page.locator("title", has_text=re.compile("^states: ")))
    assert "7.813 KiB" in states.locator("title").text_content()
    before = page.locator("#rings path").count()
    states.dispatch_event("click")
    states_shown = page.locator("#says").text_content()
    assert states_shown.startswith("states: 7.813 KiB"), states_shown
    assert page.locator("#rings path").count() < before
    page.keyboard.press("Escape")
    assert page.locator("#rings path").count() == before
    page.locator("#search").fill("gradients")
    assert 0 < page.locator("path:not(.missed)").count() < before
    page.locator("select").select_option(index=0)
    assert page.locator("#says").text_content().startswith("all: 4.008 KiB")


def test_names_stand_whole_along_wide_parts_of_a_ring(opened):
    page = opened("summary_memory_sunburst.html")
    names = page.locator("#rings text:not(.centre)").all_text_contents()
    assert {"states", "gradients", "parameters"} <= set(names), names
