import assert from "node:assert/strict";
import { test } from "node:test";

import { GROUPS, classOf, groupsOf, rowsOf, stepMs } from "../../../profkit/report/assets/page/drawings/costs_groups.js";

const texts = ["", "GPU computing", "GPU idle: Python", "Net_0;Linear_1", "aten::mm", "gemm",
  "train.py(9): main", "train.py", "cuBLAS", "splitk"];
const costs = {
  texts, cause: [1, 1, 2, 1], module: [3, 3, 0, 0], operator: [4, 4, 6, 0], kernel: [5, 9, 0, 0],
  library: [8, 8, 0, 0], file: [0, 0, 7, 0], calls_per_step: [2, 1, 1, 0],
  ms_per_step: [5, 1, 3, 1],
};

test("rows of a group add up to the step, whatever they are grouped by", () => {
  for (const name of groupsOf(costs)) {
    const at = GROUPS[name].columns.length;
    const rows = rowsOf(costs, GROUPS[name]);
    assert.equal(rows.reduce((sum, row) => sum + row[at], 0), stepMs(costs), name);
    assert.ok(Math.abs(rows.reduce((sum, row) => sum + row[at + 1], 0) - 1) < 1e-9, name);
  }
});

test("what has no such name stands under its cause", () => {
  assert.deepEqual(rowsOf(costs, GROUPS.library),
    [["cuBLAS", 6, 0.6, 3], ["(GPU idle: Python)", 3, 0.3, 1], ["(GPU computing)", 1, 0.1, 0]]);
  assert.deepEqual(rowsOf(costs, GROUPS.each)[0], ["aten::mm", "gemm", 5, 0.5, 2]);
});

test("waiting and transfer of a collective are the same calls", () => {
  const reduced = { ...costs, cause: [1, 2], module: [0, 0], operator: [4, 4], kernel: [5, 5],
    library: [0, 0], file: [0, 0], calls_per_step: [3, 3], ms_per_step: [5, 1] };
  assert.deepEqual(rowsOf(reduced, GROUPS.operator), [["aten::mm", 6, 1, 3]]);
});

test("the class of a module is the last part of its path without its number", () => {
  assert.equal(classOf("Net_0;Linear_1"), "Linear");
  assert.equal(classOf("layer;mlp"), "mlp");
});

test("there is no group of what was not recorded", () => {
  assert.deepEqual(groupsOf({ ...costs, library: [0, 0, 0, 0], file: [0, 0, 0, 0] }),
    ["each", "operator", "kernel", "module", "class", "cause"]);
});
