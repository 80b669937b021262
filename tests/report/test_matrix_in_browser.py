"""A matrix as Chromium draws it: pointed at, chosen with keys, restored by a link."""

import pytest

from tests.report.demo import HOSTILE
from tests.report.test_browser import opened

CELL = "svg => svg.querySelector('image').getAttribute('href').startsWith('data:image/png')"


@pytest.fixture(scope="module")
def watched(chromium, demo_report):
    found = opened(chromium, demo_report, width=800)
    found.page.evaluate("location.hash = '#/timeline'")
    yield found
    assert found.complaints == []
    found.page.context.close()


def test_keys_go_through_the_cells_and_enter_keeps_one_in_the_hash(watched):
    figure = watched.page.locator("#drawing-steps_map")
    svg = figure.locator("svg")
    svg.wait_for()
    assert svg.evaluate(CELL)
    svg.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        svg.press(key)
    assert figure.locator(".pointed").inner_text().startswith("rank 1, step 4\nStep time: ")
    svg.press("Enter")
    assert "steps_map.cell=1%7E4" in watched.page.url
    assert figure.locator(".picked-title b").inner_text() == "rank 1, step 4"
    watched.page.go_back()
    figure.locator(".picked-title").wait_for(state="detached")


def test_a_layer_is_unpacked_when_it_is_chosen_and_a_link_restores_it(watched):
    figure = watched.page.locator("#drawing-steps_map")
    figure.get_by_label("Shown").select_option(HOSTILE)
    figure.get_by_text("1.50 ms").first.wait_for()
    figure.locator("summary").click()
    assert figure.locator("td.number").all_inner_texts()[1:3] == ["1.50 ms", "1.50 ms"]
    watched.page.reload()
    assert figure.get_by_label("Shown").input_value() == HOSTILE
