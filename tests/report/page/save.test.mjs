import assert from "node:assert/strict";
import { test } from "node:test";

import { csvOf, fileName } from "../../../profkit/report/assets/page/save.js";
import { found } from "../../../profkit/report/assets/page/table_rows.js";

const shown = { title: "t", columns: [{ label: "Name", unit: "" }, { label: "Time", unit: "ns" }],
  rows: [["=1+1", 5], ['a "b", c', null], ["aten::mm", 12]], total: 3, links: [], best: [],
  reasons: {}, sums: [], left_out: 0 };

test("CSV has raw values, quotes what needs it and no formulas", () => {
  assert.equal(csvOf(shown),
    "Name,Time (ns)\r\n'=1+1,5\r\n\"a \"\"b\"\", c\",\r\naten::mm,12\r\n");
});

test("files are called after what they hold", () => {
  assert.equal(fileName("Time of each step, by <rank>", "csv"), "time-of-each-step-by-rank.csv");
  assert.equal(fileName("\u6642", "png"), "profkit.png");
});

test("what is not known stays last in both directions", () => {
  assert.deepEqual(found(shown, [], 1, 1), [0, 2, 1]);
  assert.deepEqual(found(shown, [], 1, -1), [2, 0, 1]);
  const names = { ...shown, rows: [["rank10"], ["Rank9"], [null], ["a"]] };
  assert.deepEqual(found(names, [], 0, 1), [3, 1, 0, 2]);
});

test("all words have to be in the row, in any case", () => {
  assert.deepEqual(found(shown, ["mm", "aten"], -1, 1), [2]);
  assert.deepEqual(found(shown, ["nothing"], -1, 1), []);
});
