"""The report in a real browser, opened from a file with the network blocked."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route

from tests.report.conftest import report_of
from tests.report.demo import HOSTILE, MARKUP

NOT_KNOWN = "\u2013"
GROUND = "getComputedStyle(document.body).backgroundColor"
INK = "getComputedStyle(document.querySelector('#glance figure .axes')).fill"
PALE = "rgb(230, 235, 241)"
# All that is in view, or soon may be, is drawn.
AT_REST = """() => [...document.querySelectorAll('[data-source]')].every(place => {
  const { top, bottom } = place.getBoundingClientRect();
  const far = !place.offsetParent || bottom < -400 || top > innerHeight + 400;
  return far || place.dataset.drawn;
})"""
SETTLED = "() => [...document.querySelectorAll('figure.chart')].every(f => f.dataset.drawn)"


@dataclass
class Watched:
    """A page, with what it asked for and what it complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def opened(browser: Browser, report: Path, width: int = 1600, scheme: str = "light") -> Watched:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    watched = Watched(page)

    def blocked(route: Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            route.abort()

    page.route("**/*", blocked)
    page.on("request", lambda request: watched.requests.append(request.url))
    page.on("console", lambda message: watched.complaints.append(message.text))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.goto(report.as_uri())
    return watched


@pytest.fixture(scope="module")
def watched(chromium: Browser, demo_report: Path) -> Iterator[Watched]:
    found = opened(chromium, demo_report)
    found.page.evaluate("profkit.drawAll()")
    found.page.wait_for_function(SETTLED)
    yield found
    found.page.context.close()


OUTSIDE = """figures => figures.flatMap(figure => {
  const room = figure.getBoundingClientRect();
  return [...figure.querySelectorAll('.below')].filter(label => {
    const box = label.getBoundingClientRect();
    return box.left < room.left || box.right > room.right;
  }).map(label => label.textContent);
})"""


def test_no_name_below_a_chart_stands_out_of_it(watched):
    assert watched.page.locator("figure.chart").evaluate_all(OUTSIDE) == []
    figure = watched.page.locator("#run-1 figure.chart", has_text="Held at each instant").first
    assert figure.locator(".below").last.text_content() == "step 2, optimizer"


def test_an_axis_of_multiples_has_no_prefix_beside_its_unit(watched):
    figure = watched.page.locator("#run-1 figure.chart", has_text="logarithmic")
    (unit,) = figure.locator(".title-beside").all_text_contents()
    ticks = figure.locator(".beside").all_text_contents()
    assert unit == "Held (MiB)"
    assert {"0.001", "0.1", "10"} <= set(ticks), ticks


@pytest.fixture
def operators(watched: Watched) -> Locator:
    table = watched.page.locator("#run-1-3 .table").first
    every = table.get_by_role("button", name="Show all rows")
    if every.inner_text() == "Show all":
        every.click()
    return table


def column(table: Locator, number: int) -> list[str]:
    return table.locator(f"tbody td:nth-child({number})").all_inner_texts()


def test_nothing_is_asked_for_but_the_page_and_nothing_complains(watched, demo_report):
    assert watched.requests == [demo_report.as_uri()]
    assert watched.complaints == []


def test_every_chart_is_drawn(watched):
    figures = watched.page.locator("figure.chart")
    assert figures.count() == 6 * 7 - 2 + 4 + 5 * 5
    marks = "f => f.querySelectorAll('.marks > *, .piece').length"
    assert min(figures.evaluate_all(f"figures => figures.map({marks})")) > 0


def test_charts_wait_until_they_are_seen(chromium, demo_report):
    fresh = opened(chromium, demo_report)
    last = fresh.page.locator("figure.chart").last
    assert last.get_attribute("data-drawn") is None
    last.scroll_into_view_if_needed()
    fresh.page.wait_for_function(
        "() => [...document.querySelectorAll('figure.chart')].at(-1).dataset.drawn === 'yes'"
    )
    fresh.page.context.close()


def test_a_table_sorts_by_value_and_says_so(operators):
    head = operators.locator("th").nth(2)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(operators, 3)[:3] == ["2.82 ms", "1.41 ms", "940 µs"]
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(operators, 3)[:2] == ["201 µs", "217 µs"]
    assert column(operators, 3)[-1] == NOT_KNOWN  # stays last


def test_a_table_filters_by_all_words(operators):
    operators.get_by_role("searchbox").fill("aten MM")
    operators.get_by_text("2 rows (of 15)").wait_for()
    assert sorted(column(operators, 1)) == ["aten::addmm", "aten::mm"]
    operators.get_by_role("searchbox").fill("no such operator")
    operators.get_by_text("No row has all of these words.").wait_for()
    operators.get_by_role("searchbox").fill("")
    operators.get_by_text("15 rows").wait_for()


def test_five_thousand_rows_are_paged_sorted_and_searched(watched):
    kernels = watched.page.locator("#run-1-4 .table").first
    assert kernels.locator("tbody tr").count() == 10
    kernels.get_by_role("button", name="Calls").click()
    assert column(kernels, 3)[0] == "5,011"
    kernels.get_by_role("button", name="Next page").click()
    assert column(kernels, 3)[0] == "5,001"
    kernels.get_by_role("searchbox").fill("add_4999")
    kernels.get_by_text("1 rows (of 5,000)").wait_for()
    assert column(kernels, 1) == ["triton_poi_fused_add_4999"]


def test_values_are_human_and_the_raw_one_is_in_the_tooltip(operators):
    cell = operators.locator("tbody tr", has_text="aten::addmm").locator("td").nth(2)
    assert cell.inner_text() == "2.82 ms"
    assert cell.get_attribute("title") == "2821000 ns"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        ("0", "ns", "0 ns"),
        ("999", "ns", "999 ns"),
        ("1500", "ns", "1.50 µs"),
        ("61e9", "ns", "61.0 s"),
        ("1536", "bytes", "1.50 KiB"),
        ("24852520000", "bytes_per_s", "24.9 GB/s"),
        ("3.1e14", "flops_per_s", "310 TFLOP/s"),
        ("0.1234", "share", "12.3%"),
        ("0.00001", "share", "<0.01%"),
        ("12.5", "percent", "12.5%"),
        ("1.5", "ratio", "1.50\u00d7"),
        ("12345", "count", "12,345"),
        ("12345", "id", "12345"),
        ("2.5", "samples_per_s", "2.50 samples/s"),
        ("2.5", "per_s", "2.50/s"),
        ("null", "ns", "not known"),
    ],
)
def test_numbers_get_the_unit_that_suits_them(watched, value, unit, text):
    assert watched.page.evaluate(f"profkit.human({value}, '{unit}')") == text


def test_a_hostile_name_is_text_everywhere(watched, operators):
    page = watched.page
    assert page.locator("img").count() == 0
    assert HOSTILE in column(operators, 1)
    labels = page.locator("#run-1-3 figure .beside").all_text_contents()
    assert HOSTILE in labels
    assert any(label.startswith(MARKUP[:14]) and label.endswith(MARKUP[-5:]) for label in labels)
    assert page.locator("figure svg a").count() == 0
    assert page.locator("#findings .message", has_text=HOSTILE).count() > 0
    assert page.locator("#problems pre.log", has_text=HOSTILE).count() == 2


@pytest.mark.parametrize(("bar", "name"), [(12, HOSTILE), (13, MARKUP)])
def test_a_hostile_name_is_text_in_the_label_under_the_pointer(watched, bar, name):
    figure = watched.page.locator("#run-1-3 figure").first
    figure.scroll_into_view_if_needed()
    figure.locator(".marks rect").nth(bar).hover(force=True)
    figure.locator(".pointed", has_text=name).wait_for()


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_never_scrolls_sideways(chromium, demo_report, width):
    found = opened(chromium, demo_report, width)
    found.page.evaluate("profkit.drawAll()")
    found.page.wait_for_function(SETTLED)
    assert found.page.evaluate("document.documentElement.scrollWidth") == width
    found.page.emulate_media(color_scheme="dark")
    found.page.wait_for_function(f"() => {INK} === '{PALE}'")
    assert found.page.evaluate("document.documentElement.scrollWidth") == width
    assert found.complaints == []
    found.page.context.close()


def test_the_theme_follows_the_system_and_the_button_and_is_remembered(chromium, demo_report):
    found = opened(chromium, demo_report, scheme="dark")
    page = found.page
    light = "rgb(245, 246, 248)"
    page.wait_for_function("() => document.querySelector('#glance figure .axes')")
    assert (page.evaluate(GROUND), page.evaluate(INK)) == ("rgb(14, 19, 25)", PALE)
    page.get_by_role("button", name="Dark theme").click()
    assert (page.evaluate(GROUND), page.evaluate(INK)) == (light, "rgb(26, 35, 48)")
    page.reload()
    assert page.evaluate(GROUND) == light
    page.context.close()


def test_a_link_into_a_folded_run_unfolds_it(chromium, tmp_path):
    found = opened(chromium, report_of(tmp_path, count=12, rows=20))
    page = found.page
    assert not page.locator("#run-12").evaluate("run => run.open")
    page.locator("#side a[href='#run-12']").click()
    assert page.locator("#run-12").evaluate("run => run.open")
    page.locator("#run-12 figure.chart").first.wait_for()
    page.context.close()


@pytest.mark.parametrize("anchor", ["run-3", "run-5-how", "run-2-4"])
def test_a_link_leads_to_its_place_though_what_is_above_is_drawn_late(
    chromium, demo_report, anchor
):
    page = opened(chromium, demo_report).page
    page.locator(f"#side a[href='#{anchor}']").evaluate("link => link.click()")
    page.wait_for_function(AT_REST)
    top = page.locator(f"#{anchor}").evaluate("place => place.getBoundingClientRect().top")
    assert 52 <= top <= 72
    page.context.close()


def test_the_contents_open_and_close_on_a_small_screen(chromium, demo_report):
    page = opened(chromium, demo_report, 360).page
    button = page.get_by_role("button", name="Contents")
    assert not page.locator("#side").is_visible()
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert not page.locator("#side").is_visible()
    page.context.close()


def test_a_command_is_copied(chromium, demo_report):
    found = opened(chromium, demo_report)
    button = found.page.locator("button.copy").first
    button.click()
    found.page.get_by_role("button", name="Copied").wait_for()
    found.page.context.close()


def test_of_a_hundred_runs_only_what_is_in_view_is_drawn(chromium, tmp_path):
    found = opened(chromium, report_of(tmp_path, count=100, rows=60))
    found.page.wait_for_function(AT_REST)
    assert found.page.locator("[data-source]").count() > 1000
    assert 0 < found.page.locator("[data-source][data-drawn]").count() < 20
    assert found.complaints == []
    found.page.context.close()


@pytest.mark.parametrize("kind", ["icicle", "sunburst"])
def test_a_tree_tells_what_is_under_the_pointer_and_opens_by_a_click(watched, kind):
    figure = watched.page.locator("#run-1 figure.chart", has_text=f"as {kind}")
    assert figure.locator(".tree-told").inner_text().endswith("100.0% of all")
    layers = figure.locator(".piece").nth({"icicle": 2, "sunburst": 1}[kind])
    layers.dispatch_event("pointerenter")  # the middle of a ring is not on it
    told = figure.locator(".tree-told").inner_text()
    assert told.startswith("model / layers: ")
    before = figure.locator(".piece").count()
    layers.dispatch_event("click")
    assert figure.locator(".piece").count() < before
    figure.get_by_role("button", name="Show all").click()
    assert figure.locator(".piece").count() == before
