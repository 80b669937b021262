"""How large reports are, and how fast they open and answer, in Chromium.

    python benchmarks/report.py [--runs 1 100 500] [--slices 100000] [--rows 100000]

Generates result trees (those of the tests, a table of each run with 5,000 rows, which is more than
there is room for), writes their report and opens it from its file, offline, in a window of 1,400 by
900 pixels. Prints for each: bytes of the page, CPU seconds to write it, milliseconds to the first
paint and until the view is there, elements, memory of the page's script, and the slowest of some
answers: each view, the search, a sorted table, with the CPU milliseconds of the page thread, that
other work on the machine does not lengthen. Then draws a step of as many slices as asked for and
prints how long the first look at it takes, and frames while it is zoomed; and a table of as many
rows, with no limit to the page: how long it takes to show all, sort and search, and frames while it
is scrolled. Medians of 3 openings; needs `chromium` on the path.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from profkit.analyze.step_timeline import analyze
from profkit.core.job_record import NOTHING
from profkit.core.result import Document, write
from profkit.report.__main__ import main as write_report
from profkit.report.render import code_bytes
from profkit.testing import ORIGIN_NS, run
from tests.report.demo import build

_OPENINGS = 3
_MOST_ROWS = 5000
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
_ANSWER = """async act => {
  const begun = performance.now();
  new Function(act)();
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begun;
}"""
_FRAMES = """async () => {
  const canvas = document.querySelector('.timeline-canvas');
  const { left, top, width } = canvas.getBoundingClientRect();
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let turn = 0; turn < 120; turn += 1) {
    const deltaY = turn % 40 < 20 ? -60 : 60;
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY, ctrlKey: true, cancelable: true,
      clientX: left + width / 2, clientY: top + 60 }));
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
_SCROLLED = """async () => {
  const place = document.querySelector('.scrolled');
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let turn = 0; turn < 120; turn += 1) {
    place.scrollTop += turn % 40 < 20 ? 900 : 40_000;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
_LARGEST = """
const largest = () => [...document.querySelectorAll('.table')].sort((a, b) => (
  rowsOf(b) - rowsOf(a)))[0];
const rowsOf = table => Math.max(0, ...(table.querySelector('.count')?.textContent ?? '')
  .replaceAll(',', '').split(/[^0-9]/).map(Number));
"""
_ALL = _LARGEST + "largest().querySelector('button[aria-label^=\"Show all\"]').click()"
_SORT_LARGEST = _LARGEST + "largest().querySelector('thead button').click()"
_WORDS = f"""{_LARGEST}
const input = largest().querySelector('input');
input.value = 'e';
input.dispatchEvent(new Event('input'));
"""
_FIRST_LOOK = """async () => {
  const begun = performance.now();
  location.hash = '#/timeline';
  while (!document.querySelector('.timeline:not([aria-busy])')) {
    await new Promise(done => setTimeout(done));
  }
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begun;
}"""
_SORT = "document.querySelector('main thead button').click()"
_SEARCH = """
document.getElementById('find').click();
const input = document.getElementById('search-input');
input.value = 'kernel';
input.dispatchEvent(new Event('input'));
document.getElementById('search').close();
"""


def main(argv: Sequence[str]) -> None:
    """Print a line for each number of runs, and one for the timeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="*", default=[1, 100, 500])
    parser.add_argument("--slices", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args(argv)
    print(f"code {code_bytes() / 1e3:.0f} kB")
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for count in options.runs:
            with _tree(count) as (page, seconds):
                print(f"{count:4} runs: {_measured(browser, page, seconds)}", flush=True)
        if options.slices:
            with _tree(1, slices=options.slices) as (page, _):
                print(f"{options.slices:,} slices: {_zoomed(browser, page)}", flush=True)
        if options.rows:
            with _tree(1, rows=options.rows) as (page, _):
                print(f"{options.rows:,} rows: {_scrolled(browser, page)}")
        browser.close()


@contextmanager
def _tree(count: int, slices: int = 0, rows: int = 5000) -> Iterator[tuple[Path, float]]:
    """Write a result tree and its report; yield the page and the CPU seconds it took to write."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        selection = build(root, count=count, rows=rows, others=5000)
        if slices:
            (folder,) = (root / "results" / "runs").iterdir()
            _write_timeline(folder / "analyze" / "step_timeline.json", slices)
        out = root / "results" / "report.html"
        os.chdir(root)
        begun = time.process_time()
        limits = {"max_rows_per_table": rows, "page_bytes": [{"runs": 1, "bytes": 100_000_000}]}
        settings = ["--settings", json.dumps(limits if rows > _MOST_ROWS else {})]
        where = ["--selection", str(selection), "--out", str(out.relative_to(root))]
        write_report([*where, *settings])
        seconds = time.process_time() - begun
        os.chdir("/")
        yield out, seconds


def _write_timeline(path: Path, slices: int) -> None:
    result = run(analyze, **_step(slices // 2))
    document = Document(
        analysis="step_timeline", title="Timeline", summary="", result=result, provenance=NOTHING
    )
    write(path, document)


def _step(pairs: int) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a step of so many operators, and as many kernels."""
    where = {"rank": 0, "repeat": 0, "step": 5}
    length = 10_000

    def at(index: int, late: int, **more: Any) -> dict[str, Any]:
        start = ORIGIN_NS + index * length + late
        return {**where, "start_ns": start, "end_ns": start + length * 3 // 4, **more}

    name = "operator {}".format
    thread = {"tid": 7, "pid": 1, "kind": "operator", "phase": "forward", "parent": -1}
    work = {"device": 0, "stream": 7, "op": -1, "correlation": -1, "kind": "compute"}
    end = ORIGIN_NS + pairs * length + length
    return {
        "steps": [{**where, "start_ns": ORIGIN_NS, "end_ns": end}],
        "cpu_ops": [at(i, 0, op=i, name=name(i % 300), **thread) for i in range(pairs)],
        "kernels": [at(i, 500, name=f"kernel {i % 200}", **work) for i in range(pairs)],
        "runtime_calls": [],
        "collectives": [],
        "memory_events": [],
    }


@contextmanager
def _opened(browser: Browser, page: Path, at: str = "") -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    shown = context.new_page()
    shown.goto(page.as_uri() + at)
    yield shown
    context.close()


def _measured(browser: Browser, page: Path, seconds: float) -> str:
    paints, readies = [], []
    for _ in range(_OPENINGS):
        with _opened(browser, page) as shown:
            shown.wait_for_function("document.querySelector('main > *')")
            paints.append(shown.evaluate(_PAINT))
            readies.append(
                shown.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
            )
    with _opened(browser, page) as shown:
        nodes = shown.locator("*").count()
        session = _counting(shown)
        answers = {}
        for view in shown.locator("#tabs a").evaluate_all("links => links.map(a => a.hash)"):
            name = view[2:].partition("?")[0]
            answers[name] = _answered(shown, session, f"location.hash = '{view}'")
            nodes = max(nodes, shown.locator("*").count())
        shown.evaluate("location.hash = '#/compute'")
        shown.wait_for_selector("main thead button")
        answers |= {"sort": _answered(shown, session, _SORT)}
        answers |= {"search": _answered(shown, session, _SEARCH)}
        heap = _known(session)["JSHeapUsedSize"] / 2**20
    slowest = max(answers, key=lambda name: answers[name])
    return (
        f"{page.stat().st_size / 1e6:.2f} MB, written in {seconds:.1f} CPU s, "
        f"first paint {statistics.median(paints):.0f} ms, "
        f"ready {statistics.median(readies):.0f} ms, at most {nodes} elements, "
        f"{heap:.0f} MiB of script memory, "
        f"slowest answer {answers[slowest][0]:.0f} ms ({slowest}), "
        f"at most {max(cpu for _, cpu in answers.values()):.0f} CPU ms"
    )


def _answered(shown: Page, session: CDPSession, act: str) -> tuple[float, float]:
    """Return how long an answer takes, and the page's CPU time, both in ms."""
    before = _known(session)["TaskDuration"]
    took = shown.evaluate(_ANSWER, act)
    return took, 1000 * (_known(session)["TaskDuration"] - before)


def _known(session: CDPSession) -> dict[str, float]:
    known = session.send("Performance.getMetrics")["metrics"]
    return {one["name"]: one["value"] for one in known}


def _zoomed(browser: Browser, page: Path) -> str:
    with _opened(browser, page) as shown:
        shown.wait_for_selector(".mini svg")
        session = _counting(shown)
        before = _known(session)["TaskDuration"]
        first = shown.evaluate(_FIRST_LOOK)
        cpu = 1000 * (_known(session)["TaskDuration"] - before)
        frames = shown.evaluate(_FRAMES)
    return f"first look {first:.0f} ms, {cpu:.0f} CPU ms; zooming: {_in_words(frames)}"


def _scrolled(browser: Browser, page: Path) -> str:
    with _opened(browser, page, "#/compute") as shown:
        shown.wait_for_selector("main thead button")
        shown.evaluate("profkit.drawAll()")
        session = _counting(shown)
        acts = {"all": _ALL, "sort": _SORT_LARGEST}
        answers = {name: _answered(shown, session, act) for name, act in acts.items()}
        before = _known(session)["TaskDuration"]
        # The search begins once the reader pauses.
        shown.evaluate("words => new Function(words)()", _WORDS)
        shown.wait_for_timeout(1000)
        searched = _known(session)["TaskDuration"]
        frames = shown.evaluate(_SCROLLED)
        each = 1000 * (_known(session)["TaskDuration"] - searched) / len(frames)
        count = shown.locator("*").count()
    said = [f"{name} {ms:.0f} ms ({cpu:.0f} CPU ms)" for name, (ms, cpu) in answers.items()]
    said += [f"search {1000 * (searched - before):.0f} CPU ms"]
    scrolled = f"{_in_words(frames)}, {each:.1f} CPU ms each"
    return f"{', '.join(said)}; scrolling: {scrolled}; {count} elements"


def _in_words(frames: Sequence[float]) -> str:
    ordered = sorted(frames)
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100]
    return f"median {middle:.1f} ms a frame, 95 of 100 within {late:.1f} ms"


def _counting(shown: Page) -> CDPSession:
    """Return a session that counts the CPU time of the page."""
    session = shown.context.new_cdp_session(shown)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


if __name__ == "__main__":
    main(sys.argv[1:])
