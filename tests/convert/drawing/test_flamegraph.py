"""Flame graphs: valid, escaped, true to the weights, and small."""
# ruff: noqa: S311, S314 - what is parsed was written by the test

import random
from xml.etree import ElementTree as ET

import pytest

from profkit.convert.drawing import flamegraph

SVG = "{http://www.w3.org/2000/svg}"


def frames(drawing):
    """Return name, left and width in percent, and row of each frame."""
    found = []
    for group in ET.fromstring(drawing).iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        left, width = (float(rect.get(attribute).rstrip("%")) for attribute in ("x", "width"))
        name = group.find(f"{SVG}title").text.split("\n")[0]
        found.append((name, left, width, int(rect.get("y"))))
    top = min(row for *_, row in found)
    return {(name, left, width, (row - top) // 17) for name, left, width, row in found}


def test_widths_are_shares_and_children_lie_below_their_parents():
    stacks = [(("a", "b"), 30.0), (("a", "c"), 20.0), (("d",), 50.0), (("a", "b"), 0.0)]
    assert frames(flamegraph.svg(stacks, unit="ns", title="t")) == {
        ("all", 0, 100, 0),
        ("a", 0, 50, 1),
        ("b", 0, 30, 2),
        ("c", 30, 20, 2),
        ("d", 50, 50, 1),
    }


def test_tooltips_say_weight_and_share():
    drawing = flamegraph.svg([(("a",), 1.5e6), (("b",), 4.5e6)], unit="ns", title="t")
    assert "a\n1.5 ms, 25.00%" in drawing
    assert "b\n3 KiB, 100.00%" in flamegraph.svg([(("b",), 3072)], unit="bytes", title="t")
    assert "b\n1,200 samples, 100.00%" in flamegraph.svg(
        [(("b",), 1200)], unit="samples", title="t"
    )


def test_hostile_names_are_text():
    name = "</script><img src=x onerror=alert(1)>&]]>\x00\ud800\n'\""
    drawing = flamegraph.svg([((name,), 1.0)], unit="ns", title=name)
    assert drawing.count("<script") == drawing.count("</script>") == 1
    assert "<img" not in drawing
    titles = [title.text for title in ET.fromstring(drawing).iter(f"{SVG}title")]
    assert titles[0] == "</script><img src=x onerror=alert(1)>&]]>   '\""
    drawing.encode()


def test_nothing_reaches_for_the_network():
    drawing = flamegraph.svg([(("a",), 1.0)], unit="ns", title="t")
    outside = drawing.replace("http://www.w3.org/2000/svg", "").replace(
        "http://www.w3.org/1999/xhtml", ""
    )
    assert "http" not in outside
    assert "url(" not in outside
    assert "@import" not in outside


def test_narrow_frames_are_joined_and_the_whole_stays():
    stacks = [((f"leaf{number}",), 1.0) for number in range(10_000)] + [(("wide",), 10_000.0)]
    found = frames(flamegraph.svg(stacks, unit="ns", title="t"))
    assert found == {
        ("all", 0, 100, 0),
        ("wide", 0, 50, 1),
        ("(10000 smaller frames)", 50, 50, 1),
    }


@pytest.mark.parametrize("name", ["f", "<" * 400])
def test_files_stay_small_whatever_they_are_made_of(name):
    chance = random.Random(0)
    stacks = [
        (tuple(f"{name}{chance.randrange(3)}" for _ in range(60)), chance.random())
        for _ in range(3_000)
    ]
    drawing = flamegraph.svg(stacks, unit="ns", title="t")
    assert len(drawing.encode()) < 2_000_000
    ET.fromstring(drawing)


def test_very_deep_stacks_are_drawn():
    drawing = flamegraph.svg([(tuple("abc" * 1000), 1.0)], unit="ns", title="t")
    assert len(frames(drawing)) > 1000


def test_no_stacks_give_an_empty_graph():
    assert frames(flamegraph.svg([], unit="ns", title="t")) == {("all", 0, 100, 0)}


def test_a_negative_weight_is_an_error():
    with pytest.raises(ValueError, match="weight -1"):
        flamegraph.svg([(("a",), -1.0)], unit="ns", title="t")


def test_zoom_and_search_work_in_a_browser(tmp_path, chromium):
    path = tmp_path / "graph.svg"
    stacks = [(("a", "b"), 30.0), (("a", "c"), 20.0), (("d",), 50.0)]
    path.write_text(flamegraph.svg(stacks, unit="ns", title="t"))
    page = chromium.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"file://{path}")
    page.locator("input").fill("^[bd]$")
    assert page.locator("#says").text_content() == "80.00% in 2 frames"
    page.locator("g").filter(has_text="c").last.click()
    shown = page.eval_on_selector_all(
        "g:not(.gone)",
        "found => found.map(g => [g.querySelector('text').textContent, "
        "g.querySelector('rect').getAttribute('width')])",
    )
    assert shown == [["all", "100%"], ["a", "100%"], ["c", "100%"]]
    page.keyboard.press("Escape")
    assert page.locator("g.gone").count() == 0
    assert problems == []
    page.close()
