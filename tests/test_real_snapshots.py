"""Snapshots of strangers from import through every analysis to the report, good and bad ones."""

import functools
import json
import os
import pickle

import pytest

from profkit.core import fingerprint, result
from profkit.planning.imported_runs import add_run, find, import_kinds
from tests.stages import report_of

TOOL, KIND = import_kinds()["snapshot"]
PEAK_BYTES = {
    "drisspg_mini_snapshot": 402752512,
    "magma27_memory_snapshot": 13923997700,
    "mosaic_output": 2255398598,
    "niu_forward_100": 412643888,
    "niu_forward_backward_100": 682735240,
    "silmont_forward_bf16_128": 779837440,
    "silmont_mem_snapshot": 3249143816,
}
"""Of the replays that `real_data` states, from what was live before the history on."""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Return an empty result tree."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fingerprint, "closure", functools.cache(fingerprint.closure))
    return tmp_path


class _Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_real_snapshots_reach_the_report_beside_those_that_are_refused(real_data, tree, chromium):
    folder = real_data / "memory"
    good = [folder / f"{name}.pickle" for name in PEAK_BYTES]
    bad = {
        "evil": pickle.dumps({"segments": [], "device_traces": [[_Malicious(tree / "ran")]]}),
        "cut": good[0].read_bytes()[:-1000],
        "foreign": pickle.dumps({"model": {"weight": [1, 2]}, "epoch": 3}),
        "weights": b"PK\x03\x04rest",
    }
    for name, content in bad.items():
        (tree / f"{name}.pickle").write_bytes(content)
    files = find([*good, *(tree / f"{name}.pickle" for name in bad)], KIND)
    run = add_run(files, TOOL, KIND, name="all", command="profkit import")
    page = report_of(f"imports=[{run}]")
    assert not (tree / "ran").exists()

    folder = tree / "results/runs" / run
    notes = json.loads((folder / f"tables/{TOOL}/convert.json").read_text())["notes"]
    refused = {note["file"].split(".")[1]: note["text"] for note in notes}
    assert "refused: it would load posix.system" in refused["evil"]
    assert "cut off after" in refused["cut"]
    assert "a pickled dict with the keys epoch, model, not a memory snapshot" in refused["foreign"]
    assert "a zip file, as torch.save writes them" in refused["weights"]
    assert all(refused[name] in page for name in bad)
    assert "\n" not in "".join(refused.values())

    peaks = result.read(folder / "analyze/memory_peak.json").result.tables["peaks"]
    rows = [dict(zip(peaks.columns, row, strict=True)) for row in peaks.rows]
    assert [row["peak_bytes"] for row in rows] == [*PEAK_BYTES.values()]
    analysed = {path.stem for path in (folder / "analyze").iterdir()}
    assert {"memory_peak", "memory_over_steps", "fragmentation"} <= analysed
    for path in (folder / "analyze").iterdir():
        assert result.read(path).title in page
    for kind in ("memory.svg", "segments.svg", "timeline.html"):
        drawn = list((folder / f"convert/{TOOL}").glob(f"*.{kind}"))
        assert len(drawn) == len(good), kind
        assert all(path.name in page for path in drawn)
    asked, messages, labels = looked_at(chromium, tree / "results/report.html")
    assert (asked, messages) == ([], [])
    # The line with most of the highest peak, without its folders.
    assert "forward (model.py:39)" in labels


def looked_at(chromium, path):
    """Return what the page asked for and what it complained about, and the names of frames."""
    context = chromium.new_context(offline=True)
    page = context.new_page()
    asked, messages = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(f"{path.as_uri()}#/memory")
    page.evaluate("profkit.drawAll()")
    page.wait_for_function("() => document.querySelector('[data-waits]') === null")
    # A flame graph follows its place, which was unfolded just now.
    page.locator("svg.flame-graph text").first.wait_for(state="attached")
    labels = page.locator("svg.flame-graph text").all_text_contents()
    context.close()
    return [url for url in asked if not url.startswith("file:")], messages, labels
