import assert from "node:assert/strict";
import { test } from "node:test";

import {
  claimOf, isNamed, keyOfFinding, placesOf, rowsOf,
} from "../../../profkit/report/assets/page/evidence.js";
import { layerOf, markedCells, ORDERS, shownOf }
  from "../../../profkit/report/assets/page/drawings/matrix_cells.js";

const text = (label) => ({ label, unit: "" });
const id = (label) => ({ label, unit: "id" });
const tables = [
  { title: "Causes", columns: [text("Title"), text("ID")],
    rows: [["Waiting", "exposed.waiting"], ["Python", "gpu_idle.python"]] },
  { title: "Ranks", columns: [id("Rank"), text("Kind")], rows: [[3, "late"], [7, "late"]] },
  { title: "Launches", columns: [id("Rank"), text("Kind")], rows: [[7, "launch"]] },
  { title: "Operators", columns: [text("Operator")], rows: [["aten::mm"], ["aten::add"]] },
];
const finding = { message: "`aten::mm` is slow on rank 3", advice: "", section: { href: "#run-1-2" },
  evidence: [{ label: "Rank", value: 3, unit: "id" }] };
const run = {
  topics: [{ name: "ranks", sections: [
    { anchor: "run-1-1", tables: [0], findings: [] },
    { anchor: "run-1-2", tables: [1, 3], findings: [{ ...finding, message: "other" }, finding] }] },
  { name: "timeline", sections: [{ anchor: "run-1-3", tables: [2], findings: [] }] }],
  drawn: { tables },
  verdict: { parts: [{ title: "Waiting", cause: "exposed.waiting" }],
    actions: [{ title: "Fix the last rank", cause: "exposed.waiting", cause_title: "Waiting",
      place: "", evidence: [{ label: "Late rank", value: 7, unit: "" }] }] },
};
const report = { across: { sections: [], drawn: { tables: [] } } };

test("a part of the step rests on the rows and slices of its cause", () => {
  const claim = claimOf("part~0", report, run);
  assert.deepEqual([...rowsOf(tables[0], claim)], [0]);
  assert.ok(isNamed(claim, "exposed.waiting.start_up"));
  assert.ok(isNamed(claim, "alltoall (Exposed communication: Waiting)"));
  assert.ok(!isNamed(claim, "Waiting for the disk"));
});

test("an action about a rank marks its rows where ranks are compared, and nowhere else", () => {
  const claim = claimOf("action~0", report, run);
  assert.deepEqual([...rowsOf(tables[1], claim)], [1]);
  assert.equal(rowsOf(tables[2], claim).size, 0);
  assert.deepEqual(placesOf(claim, report, run).map(({ section, rows }) => [section.anchor, rows]),
    [["run-1-1", 1], ["run-1-2", 1]]);
});

test("a verdict on memory or kernels rests on its view and on the rows that it names", () => {
  const others = [{ headline: "2 GiB at the peak", topic: "memory", names: ["f (a.py:3)"],
    evidence: [] }];
  const claim = claimOf("other~0", report, { ...run, verdict: { ...run.verdict, others } });
  assert.equal(claim.topic, "memory");
  const live = { title: "Live", columns: [{ label: "Line", unit: "" }], rows: [["g"], ["f (a.py:3)"]] };
  assert.deepEqual([...rowsOf(live, claim)], [1]);
  assert.equal(claimOf("other~1", report, { ...run, verdict: { ...run.verdict, others } }), null);
});

test("a finding rests on what it quotes and on the rows of its own analysis", () => {
  const key = keyOfFinding(finding, report, run);
  assert.equal(key, "run-1-2~1");
  const claim = claimOf(key, report, run);
  assert.deepEqual([...rowsOf(tables[3], claim)], [0]);
  assert.deepEqual([...rowsOf(tables[1], claim)], [0]);
});

test("an address of no claim highlights nothing", () => {
  for (const key of ["", "part~9", "action~x", "run-9-9~0", "run-1-2~-1"]) {
    assert.equal(claimOf(key, report, run), null);
  }
});

test("cells of a cause are marked, or else those of the rank that is waited for", () => {
  const claim = claimOf("action~0", report, run);
  const layer = { title: "Waiting", group: "", unit: "us", columns: 2, values: [1, 2, 3, 4] };
  const cells = (rows, columns) => {
    const matrix = { rows, columns, layers: [layer] };
    return markedCells(matrix, layer, shownOf(matrix, layer, ORDERS[0]), claim);
  };
  const ranks = { of: "rank", names: [3, 7] };
  assert.deepEqual(cells(ranks, { of: "", names: ["Python", "Waiting"] }), [[0, 1], [1, 1]]);
  assert.deepEqual(cells(ranks, { of: "for rank", names: [7, 3] }), [[0, 0], [1, 0]]);
  assert.deepEqual(cells(ranks, { of: "step", names: [1, 2] }), [[1, 0], [1, 1]]);
  assert.equal(layerOf({ layers: [layer] }, claim), "Waiting");
  assert.equal(layerOf({ layers: [layer] }, null), "");
});
