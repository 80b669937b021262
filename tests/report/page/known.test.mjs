import assert from "node:assert/strict";
import { test } from "node:test";

import {
  factsOf, knownOf, markdownOf, nameColumn, rowsInMarkdown, sameIn, subjectColumn, subjectColumnOf,
  subjectOf, thingColumns,
} from "../../../profkit/report/assets/page/known.js";

const COLUMNS = {
  name: { label: "Name", unit: "" }, operator: { label: "Operator", unit: "" },
  kind: { label: "Kind", unit: "" }, time: { label: "Time", unit: "ns" },
};

function table(title, columns, rows) {
  return { title, columns: columns.map((name) => COLUMNS[name]), rows, note: "", total: rows.length,
    links: [], best: [], reasons: {}, sums: [], left_out: 0 };
}

function run(gemmNs) {
  const tables = [
    table("Work by name", ["name", "operator", "kind", "time"],
      [["gemm", "aten::mm", "compute", gemmNs], ["copy", "aten::to", "copy", 5]]),
    table("Operators by name", ["name", "kind", "time"], [["aten::mm", "operator", null]]),
    table("Kinds", ["kind", "time"], [["compute", 7]]),
  ];
  const findings = [{ message: "`gemm` is slow", advice: "", evidence: [] }];
  const sections = [{ title: "Kernels", anchor: "run-1-1", tables: [0, 2], findings },
    { title: "Operators", anchor: "run-1-2", tables: [1], findings: [] }];
  return { topics: [{ sections }], drawn: { tables } };
}

const report = { across: { sections: [], drawn: { tables: [] } } };

test("what is named after a thing comes before what only names it", () => {
  const { places } = knownOf("aten::mm", report, run(3));
  assert.deepEqual(places.map((place) => [place.table.title, place.isSubject]),
    [["Operators by name", true], ["Work by name", false]]);
});

test("rows are named after things before ranks and kinds", () => {
  const made = table("T", ["kind", "operator", "time"], [["compute", "aten::mm", 3]]);
  assert.equal(nameColumn(made), 1);
  assert.deepEqual([...thingColumns(made)], [1]);
  assert.equal(nameColumn(table("T", ["time", "kind"], [[3, "compute"]])), 1);
  assert.equal(nameColumn(table("T", ["time"], [[3]])), -1);
});

test("of a rank all rows are known, whatever its column holds", () => {
  const ranks = { ...table("Ranks", ["name", "time"], [["rank7_dp7_tp0_pp0", 3], ["rank1", 4]]),
    columns: [{ label: "Rank", unit: "" }, COLUMNS.time] };
  const steps = { ...table("Steps", ["time", "time"], [[7, 5], [1, 6]]),
    columns: [{ label: "Rank", unit: "id" }, COLUMNS.time] };
  const made = { topics: [{ sections: [{ title: "S", anchor: "run-1-1", tables: [0, 1],
    findings: [] }] }], drawn: { tables: [ranks, steps] } };
  for (const name of ["rank 7", "for rank 7"]) {
    for (const state of [{}, { "filter.rank": "1" }]) {
      assert.deepEqual(knownOf(name, report, made, state).places.map(({ rows }) => rows),
        [[ranks.rows[0]], [steps.rows[0]]]);
    }
  }
  assert.equal(subjectOf(steps, subjectColumn(steps), 7), "rank 7");
  assert.equal(subjectOf(table("T", ["time"], [[3]]), 0, 3), "");
});

test("a row whose place is not known is about what its text says", () => {
  const causes = table("T", ["kind", "name", "time"], [["waits", "", 3], ["copies", "f.py:3", 4]]);
  const things = thingColumns(causes).add(subjectColumn(causes));
  assert.deepEqual(causes.rows.map((row) => subjectColumnOf(causes, row, things)), [0, 1]);
  assert.equal(subjectColumnOf(causes, ["", "", 3], things), -1);
});

test("rows become Markdown as they are shown, with signs that mean something escaped", () => {
  const shown = table("A | B", ["name", "kind", "time"], [["a|b", "x", 3], ["*c*", "y", 4e6]]);
  assert.equal(rowsInMarkdown(shown, [1, 0], new Set([1])), [
    "**A \\| B**", "", "| Name | Time |", "| --- | --- |", "| \\*c\\* | 4.00 ms |",
    "| a\\|b | 3 ns |", ""].join("\n"));
});

test("what has no name is related to nothing", () => {
  const nameless = run(3);
  nameless.drawn.tables[0].rows.push(["gemm", "", "compute", 1]);
  nameless.drawn.tables[1].rows.push(["", "operator", 2]);
  assert.deepEqual(knownOf("gemm", report, nameless).related,
    [{ label: "Operator", names: ["aten::mm"] }]);
});

test("a kernel leads to its operator, and not to its kind", () => {
  const { related, findings } = knownOf("gemm", report, run(3));
  assert.deepEqual(related, [{ label: "Operator", names: ["aten::mm"] }]);
  assert.equal(findings.length, 1);
});

test("a row of another run is found by its table and its name", () => {
  const [place] = knownOf("gemm", report, run(3)).places;
  const same = sameIn("gemm", place, run(9));
  assert.deepEqual(factsOf(same.table, same.row, "gemm"),
    [["Operator", "aten::mm"], ["Kind", "compute"], ["Time", "9 ns"]]);
  assert.equal(sameIn("gone", place, run(9)), null);
});

test("as Markdown no name makes markup", () => {
  const made = run(3);
  made.drawn.tables[0].rows[0][0] = "a|<b>`\n*c*";
  const text = markdownOf("a|<b>`\n*c*", knownOf("a|<b>`\n*c*", report, made), "T");
  assert.equal(text, "**a\\|\\<b\\>\\` \\*c\\*** (T)\n\nKernels, Work by name:\n\n"
    + "- Operator aten::mm, Kind compute, Time 3 ns\n");
});

test("of a thing the rows of the chosen rank are known", () => {
  const calls = { ...table("Calls", ["name", "time"], [["mm", 0], ["mm", 1]]) };
  const rank = { ...calls, columns: [COLUMNS.name, { label: "Rank", unit: "id" }] };
  const made = { topics: [{ sections: [{ title: "S", anchor: "run-1-1", tables: [0],
    findings: [] }] }], drawn: { tables: [rank] } };
  assert.deepEqual(knownOf("mm", report, made, { "filter.rank": "1" }).places[0].rows, [["mm", 1]]);
});
