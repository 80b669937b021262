"""The drawings of a memory snapshot in a real browser, with no network and no Perl."""

import re

import pytest

from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import convert


@pytest.fixture(scope="module")
def drawn(real_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    path = real_data / "memory" / "niu_forward_backward_100.pickle"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(folder))  # Nothing is on it, so no Perl either.
        convert.run(Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0), folder)
    return folder


@pytest.fixture
def opened(chromium, drawn):
    """Open one of the files; fail if it asks for anything or says anything."""
    context = chromium.new_context(viewport={"width": 1200, "height": 800}, offline=True)
    requests, messages = [], []

    def answer(route):
        address = route.request.url
        if address.startswith("file:"):
            route.continue_()
        else:
            requests.append(address)
            route.abort()

    def open_file(ending):
        (path,) = drawn.glob(f"*{ending}")
        page = context.new_page()
        page.route("**", answer)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield open_file
    context.close()
    assert (requests, messages) == ([], [])


@pytest.mark.parametrize("ending", ["memory.svg", "segments.svg", "peak.svg"])
def test_flame_graphs_can_be_searched_and_zoomed(opened, ending):
    page = opened(ending)
    page.locator("input").fill("einsum")
    assert re.fullmatch(r"[1-9]\d*\.\d\d% in \d+ frames", page.locator("#says").text_content())
    before = page.locator("g:not(.gone)").count()
    page.locator("g.found rect").first.click()
    assert page.locator("g:not(.gone)").count() < before
    page.keyboard.press("Escape")
    assert page.locator("g:not(.gone)").count() == before


def test_the_timeline_can_be_searched_zoomed_and_asked(opened):
    page = opened("timeline.html")
    assert page.locator("#says").text_content() == (
        "peak 651.1 MiB, 3,000 allocations, 853 smaller ones in grey"
    )
    assert page.locator("caption").text_content().endswith("651.1 MiB, largest first")
    canvas = page.locator("#plot")
    whole = canvas.screenshot()
    page.locator("#search").fill("einsum")
    assert re.match(r"\d+ allocations, [\d.]+ MiB", page.locator("#says").text_content())
    page.locator("#search").fill("")
    assert canvas.screenshot() == whole
    page.locator("#in").click()
    zoomed = canvas.screenshot()
    assert zoomed != whole
    page.locator("#all").click()
    page.locator("#axis").click()
    assert canvas.screenshot() not in (whole, zoomed)
    page.mouse.click(700, 500)
    assert "MiB, from" in page.locator("#detail").text_content()
    assert page.locator("#live tr").count() == 40
