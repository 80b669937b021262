import assert from "node:assert/strict";
import { test } from "node:test";

import { human } from "../../../profkit/report/assets/page/format.js";
import { madeTable } from "../../../profkit/report/assets/page/model.js";
import { silentColumns } from "../../../profkit/report/assets/page/table.js";

const columns = (...labels) => labels.map((label) => ({ label, unit: "" }));

test("columns without a value and those for programs are not shown at first", () => {
  const table = madeTable("t", columns("Rank", "ID", "Title", "Place", "Median", "Evidence"),
    [[0, "gpu_idle", "GPU idle", "", null, "{}"], [1, "gpu_idle", "", "", null, "{}"]]);
  assert.deepEqual([...silentColumns(table)], [1, 3, 4, 5]);
});

test("the first column is always shown", () => {
  assert.deepEqual([...silentColumns(madeTable("t", columns("ID", "Place"), [[null, "a"]]))], []);
});

test("steps of some seconds are told in ms, what was measured in s in s", () => {
  assert.deepEqual([human(1_211_182_252, "ns"), human(1211.18, "ms"), human(12.4e9, "ns")],
    ["1,211 ms", "1,211 ms", "12.4 s"]);
  assert.equal(human(8.2, "s"), "8.20 s");
});
