"""Maps, memory and flame graphs as Chromium draws them: pointed at, chosen with keys, linked to.

One browser draws them all: starting it takes longer than all of these tests.
"""

import json

import pytest
from playwright.sync_api import expect

from tests.report.demo import HOSTILE, MARKUP
from tests.report.test_browser import go_back, opened

CELL = "svg => svg.querySelector('image').getAttribute('href').startsWith('data:image/png')"


@pytest.fixture(scope="module")
def watched(chromium, demo_report):
    found = opened(chromium, demo_report, width=800)
    yield found
    assert found.complaints == []
    found.page.context.close()


@pytest.fixture(scope="module")
def steps_map(watched):
    watched.page.evaluate("location.hash = '#/timeline'")
    made = watched.page.locator("#drawing-steps_map")
    made.scroll_into_view_if_needed()
    made.locator("svg").wait_for()
    return made


def test_keys_go_through_the_cells_and_enter_keeps_one_in_the_hash(watched, steps_map):
    svg = steps_map.locator("svg")
    assert svg.evaluate(CELL)
    svg.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        svg.press(key)
    assert steps_map.locator(".pointed").inner_text().startswith("rank 1, step 4\nStep time: ")
    svg.press("Enter")
    assert "steps_map.cell=1%7E4" in watched.page.url
    expect(steps_map.locator(".picked-title .thing")).to_have_text(["rank 1", "step 4"])
    go_back(watched.page)
    steps_map.locator(".picked-title").wait_for(state="detached")


def test_a_layer_is_unpacked_when_it_is_chosen_and_a_link_restores_it(watched, steps_map):
    steps_map.get_by_label("Shown").select_option(HOSTILE)
    steps_map.get_by_text("1.50 ms").first.wait_for()
    steps_map.locator("summary").click()
    for place in (1, 2):
        expect(steps_map.locator("td.number").nth(place)).to_have_text("1.50 ms")
    watched.page.reload()
    assert steps_map.get_by_label("Shown").input_value() == HOSTILE


def _ranks(steps_map):
    """Return the ranks as they stand beside the map, from the top."""
    steps_map.locator("svg").wait_for()
    beside = steps_map.locator("svg text[text-anchor=end]").all_text_contents()
    return [int(text) for text in beside]


def test_ranks_that_are_alike_stand_together_and_a_link_restores_it(watched, steps_map):
    steps_map.get_by_label("Shown").select_option("Step time")
    assert _ranks(steps_map) == [0, 1, 2, 3]
    image = steps_map.locator("svg image")
    before = image.get_attribute("href")
    steps_map.get_by_label("Rows").select_option("Alike together")
    assert "steps_map.order=Alike+together" in watched.page.url
    assert _ranks(steps_map) == [2, 0, 3, 1]
    assert image.get_attribute("href") != before
    watched.page.reload()
    assert steps_map.get_by_label("Rows").input_value() == "Alike together"
    assert _ranks(steps_map) == [2, 0, 3, 1]
    # Of a layer that is unpacked when it is chosen.
    steps_map.get_by_label("Shown").select_option(HOSTILE)
    steps_map.get_by_text("1.50 ms").first.wait_for()
    assert _ranks(steps_map) == [3, 2, 1, 0]


@pytest.fixture(scope="module")
def held(watched):
    watched.page.evaluate("location.hash = '#/compute'")
    made = watched.page.locator("#drawing-held")
    made.scroll_into_view_if_needed()
    made.locator("svg").wait_for()
    return made


def test_what_was_asked_for_in_vain_stands_above_the_drawing(held):
    said = held.locator(".banner p").inner_text()
    assert said.startswith("Out of memory in step 3: 1.00 GiB asked, 1.00 MiB free on the GPU")
    assert held.locator(".banner .stack li").first.inner_text() == f"{HOSTILE} (model.py:3)"


def test_keys_go_to_what_is_held_and_enter_shows_its_stack(watched, held):
    svg = held.locator("svg")
    svg.focus()
    svg.press("ArrowUp")
    svg.press("ArrowUp")
    assert held.locator(".pointed").inner_text().splitlines()[2].startswith("2.00 KiB (2,048 b")
    svg.press("Enter")
    assert "held.at=1%7E1" in watched.page.url
    picked = held.locator(".picked")
    assert picked.locator(".stack li").first.inner_text() == f"{HOSTILE} (model.py:3)"
    held.get_by_text("Allocations, one by one").click()
    single = held.locator("details[open] tbody tr")
    single.wait_for()
    assert single.locator("td").all_inner_texts()[0] == "2.00 KiB"
    assert MARKUP[:12] in single.inner_text()


def test_another_device_is_unpacked_when_it_is_chosen(watched, held):
    held.get_by_label("Device").select_option("rank 1, cuda:0")
    held.get_by_text("peak 1.50 KiB").wait_for()
    assert "held.device=rank+1" in watched.page.url
    assert held.locator(".banner").count() == 0
    assert held.get_by_text("2 of 3 devices: those with the highest peaks.").count() == 1


@pytest.fixture(scope="module")
def frames(watched):
    watched.page.evaluate("location.hash = '#/compute'")
    made = watched.page.locator("#drawing-frames")
    made.scroll_into_view_if_needed()
    made.locator("svg.flame-graph").wait_for()
    return made


def test_keys_go_from_frame_to_frame_and_enter_zooms_until_back_or_escape(watched, frames):
    svg = frames.locator("svg")
    svg.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        svg.press(key)
    said = frames.locator(".pointed").inner_text().splitlines()
    assert said == ["Net", "module", "4.00 ms (4,000,000 ns): 40.0% of all", "0 ns by itself"]
    svg.press("Enter")
    assert "frames.at=1" in watched.page.url
    frames.locator(".picked-title b", has_text="Net").wait_for()
    svg.press("ArrowDown")
    svg.press("ArrowDown")
    assert frames.locator(".pointed").inner_text().splitlines()[0] == HOSTILE
    svg.press("Escape")
    frames.locator(".picked-title").wait_for(state="detached")
    go_back(watched.page)
    frames.locator(".picked-title").wait_for()
    go_back(watched.page)
    frames.locator(".picked-title").wait_for(state="detached")


def test_a_search_says_its_share_of_all_and_the_table_has_what_is_drawn(frames):
    frames.get_by_role("searchbox", name="Search frames").fill("gemm")
    frames.get_by_text("2 found: 9.00 ms, 90.0% of all").wait_for()
    frames.get_by_label("Phase").select_option("forward")
    frames.get_by_text("1 found: 3.00 ms, 75.0% of all").wait_for()
    frames.get_by_text("As a table").click()
    rows = frames.locator("details[open] tbody tr")
    rows.first.wait_for()
    assert rows.nth(0).locator("td").all_inner_texts()[:4] == ["Net", "module", "0 ns", "4.00 ms"]
    assert HOSTILE in rows.nth(1).inner_text()


def test_orders_folds_and_ranks_are_kept_in_the_address(watched, frames):
    texts = frames.locator("svg text")
    frames.get_by_label("Phase").select_option("forward")
    assert "(torch)" in texts.all_text_contents()
    frames.get_by_label("fold libraries").uncheck()
    assert texts.filter(has_text=MARKUP[:12]).count() == 1
    frames.get_by_label("Order").select_option("callers")
    assert texts.nth(1).text_content() == "gemm"
    frames.locator("svg").focus()
    frames.locator("svg").press("ArrowDown")
    frames.locator("svg").press("ArrowDown")
    frames.locator("svg").press("s")
    assert frames.locator(".picked-title b").inner_text() == "gemm"
    watched.page.reload()
    frames.locator(".picked-title b", has_text="gemm").wait_for()
    assert frames.get_by_label("Order").input_value() == "sandwich"
    assert frames.get_by_label("Phase").input_value() == "forward"
    frames.get_by_label("Rank").select_option("rank 1")
    frames.get_by_text("1.00 µs (1,000 ns): 100.0% of all").wait_for()
    with watched.page.expect_download() as saved:
        frames.get_by_role("button", name="as speedscope").click()
    file = json.loads(saved.value.path().read_text())
    assert saved.value.suggested_filename == "a-step-by-module-operator-and-kernel.speedscope.json"
    assert (file["profiles"][0]["weights"], file["profiles"][0]["unit"]) == ([1000], "nanoseconds")


def test_costs_of_a_step_add_up_in_every_group_and_rank(watched):
    watched.page.evaluate("location.hash = '#/compute'")
    costs = watched.page.locator("#drawing-step_costs")
    costs.scroll_into_view_if_needed()
    costs.locator("tbody tr").first.wait_for()
    first = costs.locator("tbody tr").first.locator("td")
    assert first.all_inner_texts() == ["aten::mm", "gemm", "3 ms", "75.0%", "2"]
    assert costs.locator("tfoot tr").inner_text().split() == ["All", "4", "ms", "100.0%"]
    costs.get_by_label("Grouped by").select_option("module")
    expect(costs.locator("tbody button")).to_have_text([HOSTILE, "(GPU computing)"])
    costs.locator("label", has_text="Rank").locator("select").select_option("0")
    costs.get_by_text("10 ms").wait_for()
    assert "step_costs.by=module&step_costs.rank=0" in watched.page.url


def test_to_zoom_where_one_is_already_is_no_step_of_back(watched, frames):
    watched.page.evaluate("location.hash = '#/compute'")
    svg = frames.locator("svg")
    svg.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        svg.press(key)
    frames.locator(".picked-title").wait_for()
    before = watched.page.evaluate("[location.hash, history.length]")
    svg.focus()
    for key in ("ArrowDown", "Enter"):
        svg.press(key)
    assert watched.page.evaluate("[location.hash, history.length]") == before
