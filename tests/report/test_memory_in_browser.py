"""Memory over time as Chromium draws it: asked with keys, another device, single allocations."""

import pytest

from tests.report.demo import HOSTILE, MARKUP
from tests.report.test_browser import opened


@pytest.fixture(scope="module")
def watched(chromium, demo_report):
    found = opened(chromium, demo_report, width=800)
    found.page.evaluate("location.hash = '#/compute'")
    yield found
    assert found.complaints == []
    found.page.context.close()


@pytest.fixture(scope="module")
def figure(watched):
    made = watched.page.locator("#drawing-held")
    made.locator("svg").wait_for()
    return made


def test_what_was_asked_for_in_vain_stands_above_the_drawing(figure):
    said = figure.locator(".banner p").inner_text()
    assert said.startswith("Out of memory in step 3: 1.00 GiB asked, 1.00 MiB free on the device")
    assert figure.locator(".banner .stack li").first.inner_text() == f"{HOSTILE} (model.py:3)"


def test_keys_go_to_what_is_held_and_enter_shows_its_stack(watched, figure):
    svg = figure.locator("svg")
    svg.focus()
    svg.press("ArrowUp")
    svg.press("ArrowUp")
    assert figure.locator(".pointed").inner_text().splitlines()[2].startswith("2.00 KiB by <b>bold")
    svg.press("Enter")
    assert "held.at=1%7E1" in watched.page.url
    picked = figure.locator(".picked")
    assert picked.locator(".stack li").first.inner_text() == f"{HOSTILE} (model.py:3)"
    figure.get_by_text("Allocations, one by one").click()
    single = figure.locator("details[open] tbody tr")
    single.wait_for()
    assert single.locator("td").all_inner_texts()[0] == "2.00 KiB"
    assert MARKUP[:12] in single.inner_text()


def test_another_device_is_unpacked_when_it_is_chosen(watched, figure):
    figure.get_by_label("Device").select_option("rank 1, cuda:0")
    figure.get_by_text("peak 1.50 KiB").wait_for()
    assert "held.device=rank+1" in watched.page.url
    assert figure.locator(".banner").count() == 0
    assert figure.get_by_text("2 of 3 devices: those with the highest peaks.").count() == 1
