"""The timeline of the page in a browser: what is drawn, chosen and kept in the hash."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.report.demo import HOSTILE
from tests.report.test_browser import Watched, go_back, opened

CANVAS = ".timeline-canvas"
READY = ".timeline:not([aria-busy])"
# Pixels that are neither the ground nor the grid.
INKED = """canvas => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) colours.add(data.slice(i, i + 3).join());
  return colours.size;
}"""


@pytest.fixture(scope="module")
def watched(chromium, demo_report) -> Iterator[Watched]:
    found = opened(chromium, demo_report)
    yield found
    assert found.complaints == []
    found.page.context.close()


@pytest.fixture
def page(watched) -> Page:
    shown = watched.page
    shown.goto("about:blank")
    shown.goto(watched.requests[0] + "#/timeline")
    shown.locator(READY).wait_for()
    return shown


def spot(page: Page, lane: str, share: float) -> dict[str, float]:
    """Return where on the canvas a lane of the first rank is, a share of the time in."""
    label = page.locator(f".timeline-lane:has-text('{lane}')").first
    canvas = page.locator(CANVAS).bounding_box()
    row = label.bounding_box()
    assert canvas
    assert row
    return {"x": canvas["width"] * share, "y": row["y"] - canvas["y"] + 7}


def test_lanes_are_drawn_on_one_canvas_and_named_beside_it(page):
    assert page.locator(".timeline-rank").all_inner_texts() == [
        "rank 0 (least work)",
        "rank 1 (most work)",
    ]
    assert page.locator(CANVAS).evaluate(INKED) > 8
    assert "agree to 0 ns" in page.locator(".timeline").inner_text()


def test_a_click_tells_what_a_slice_is_and_a_link_restores_it(page):
    page.locator(CANVAS).click(position=spot(page, "CPU: main thread", 0.05))
    panel = page.locator(".timeline-panel")
    assert panel.locator("h4").inner_text() == HOSTILE
    assert "model.py(3): f" in panel.inner_text()
    page.reload()
    page.locator(READY).wait_for()
    assert page.locator(".timeline-panel h4").inner_text() == HOSTILE
    page.locator(CANVAS).press("Escape")
    assert page.locator(".timeline-panel h4").count() == 0
    assert page.url.endswith("#/timeline")


def test_keys_walk_from_a_kernel_to_the_call_that_launched_it(page):
    page.locator(CANVAS).click(position=spot(page, "GPU 0, stream 7", 0.1))
    page.get_by_role("button", name="cudaLaunchKernel").click()
    panel = page.locator(".timeline-panel h4")
    assert panel.inner_text() == "cudaLaunchKernel"
    page.locator(CANVAS).press("ArrowUp")
    assert panel.inner_text() == "aten::copy_"


def test_a_range_becomes_a_table_and_back_undoes_it(page):
    page.get_by_role("button", name="Choose a range").click()
    start, end = (spot(page, "GPU 0, stream 7", share) for share in (0.01, 0.5))
    box = page.locator(CANVAS).bounding_box()
    page.mouse.move(box["x"] + start["x"], box["y"] + start["y"])
    page.mouse.down()
    page.mouse.move(box["x"] + end["x"], box["y"] + end["y"], steps=3)
    page.mouse.up()
    table = page.locator(".timeline-range")
    assert "gemm" in table.inner_text()
    go_back(page)
    table.locator("table").wait_for(state="detached")


def test_zooming_is_kept_in_the_hash_and_a_search_counts(page):
    page.locator(CANVAS).press("w")
    page.wait_for_url("**timeline.from=*")
    page.get_by_role("searchbox", name="Search slices").fill("gemm")
    page.locator(".timeline-count", has_text="2 found, 280 µs in all").wait_for()
    assert "timeline.from=" in page.url


def test_the_whole_recording_and_two_steps_are_a_choice_away(page):
    choice = page.get_by_label("What is shown")
    choice.select_option("whole")
    page.locator(".timeline-lane", has_text="Largest cause").first.wait_for()
    choice.select_option("both")
    page.locator(".timeline-rank", has_text="step 7 (worst), rank 1").wait_for()
    page.get_by_label("Ranks", exact=True).select_option("1")
    page.locator(".timeline-rank", has_text="rank 0").first.wait_for(state="detached")
    page.get_by_text("Table of what is in sight").click()
    page.locator(".timeline details table", has_text="gemm").wait_for()


def members(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as tar:
        return {member.name: json.load(tar.extractfile(member)) for member in tar}


def test_a_tar_for_perfetto_has_what_is_shown_of_each_rank_on_one_clock(page, tmp_path):
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the timeline as tar for Perfetto").click()
    saved.value.save_as(tmp_path / "timeline.tar")
    files = members(tmp_path / "timeline.tar")
    manifest = files.pop("perfetto_manifest.json")["perfetto_manifest"]
    assert manifest["version"] == 1
    assert [file["path"] for file in manifest["files"]] == list(files)
    assert [file["machine"]["name"] for file in manifest["files"]] == page.locator(
        ".timeline-rank"
    ).all_inner_texts()
    assert manifest["files"][1]["clocks"] == {"sync_to": {"file": "rank0.json"}, "offset_ns": 0}
    events = [event for file in files.values() for event in file["traceEvents"]]
    gemms = [event for event in events if event["name"] == "gemm"]
    assert [(event["ph"], event["pid"], event["dur"]) for event in gemms] == [
        ("X", 1, 140),
        ("X", 2, 140),
    ]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks == set(page.locator(".timeline-lane").evaluate_all(
        "all => all.map(one => one.title.split(': ').slice(1).join(': '))"))  # fmt: skip


def test_the_page_hands_the_tar_to_a_tab_of_perfetto_that_is_ready(page, tmp_path):
    stand_in = """<script>addEventListener("message", ({ data, source, origin }) => {
      if (data === "PING") source.postMessage("PONG", "*");
      else window.given = { ...data.perfetto, origin };
    });</script>"""
    page.context.route("https://ui.perfetto.dev/**", lambda route: route.fulfill(
        body=stand_in, content_type="text/html"))  # fmt: skip
    with page.expect_popup() as opened_tab:
        page.get_by_role("button", name="Open in Perfetto").click()
    tab = opened_tab.value
    tab.wait_for_function("window.given")
    archive = tmp_path / "given.tar"
    archive.write_bytes(bytes(tab.evaluate("[...new Uint8Array(given.buffer)]")))
    assert {"perfetto_manifest.json", "rank0.json", "rank1.json"} == set(members(archive))
    shown = page.get_by_label("What is shown").evaluate("menu => menu.selectedOptions[0].text")
    assert tab.evaluate("given.title") == f"{page.locator('h1').inner_text()}, {shown}"
    assert "startupCommands=" in tab.url
    tab.close()


def test_a_canvas_that_was_hidden_is_drawn_again_at_once(page, watched):
    page.evaluate("""async () => {
      const { body } = document;
      const frame = () => new Promise(requestAnimationFrame);
      body.style.display = "none";
      await frame();
      await new Promise(done => setTimeout(done));
      body.style.display = "";
      await frame();
      await frame();
    }""")
    assert page.locator(CANVAS).evaluate(INKED) > 8
    assert watched.complaints == []
