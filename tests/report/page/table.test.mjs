import assert from "node:assert/strict";
import { test } from "node:test";

import { human } from "../../../profkit/report/assets/page/format.js";
import { madeTable } from "../../../profkit/report/assets/page/model.js";
import { found, silentColumns, windowOf } from "../../../profkit/report/assets/page/table_rows.js";

const columns = (...labels) => labels.map((label) => ({ label, unit: "" }));

test("columns without a value and those for programs are not shown at first", () => {
  const table = madeTable("t", columns("Rank", "ID", "Title", "Place", "Median", "Evidence"),
    [[0, "gpu_idle", "GPU idle", "", null, "{}"], [1, "gpu_idle", "", "", null, "{}"]]);
  assert.deepEqual([...silentColumns(table)], [1, 3, 4, 5]);
});

test("of a scrolled table the rows in sight are drawn, and a block before", () => {
  assert.deepEqual(windowOf(0, 330, 33, 100_000), [0, 20]);
  assert.deepEqual(windowOf(33 * 500 + 10, 330, 33, 100_000), [496, 516]);
  assert.deepEqual(windowOf(33 * 99_990, 330, 33, 100_000), [99_980, 100_000]);
  assert.deepEqual(windowOf(33 * 99_990, 330, 33, 15), [0, 15]);
});

test("every pixel of a scrolled table has its row, wherever it is scrolled to", () => {
  for (let top = 0; top <= 33 * 205 - 400; top += 17) {
    const [from, to] = windowOf(top, 400, 33, 205);
    assert.ok(from * 33 <= top && to * 33 >= top + 400, `${top}: ${from} to ${to}`);
  }
});

test("rows are found by all of the words, and sorted with what is not known last", () => {
  const table = madeTable("t", columns("Name", "Time"), [["mm b", 1], ["add", 9], ["mm a", null],
    ["mm c", 3]]);
  assert.deepEqual(found(table, ["mm"], 1, -1), [3, 0, 2]);
  assert.deepEqual(found(table, ["mm"], 1, 1), [0, 3, 2]);
  assert.deepEqual(found(table, ["mm", "a"], -1, 1), [2]);
});

test("the first column is always shown", () => {
  assert.deepEqual([...silentColumns(madeTable("t", columns("ID", "Place"), [[null, "a"]]))], []);
});

test("steps of some seconds are told in ms, what was measured in s in s", () => {
  assert.deepEqual([human(1_211_182_252, "ns"), human(1211.18, "ms"), human(12.4e9, "ns")],
    ["1,211 ms", "1,211 ms", "12.4 s"]);
  assert.equal(human(8.2, "s"), "8.20 s");
});
