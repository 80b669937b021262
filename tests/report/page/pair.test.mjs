import assert from "node:assert/strict";
import { test } from "node:test";

import { rowsOf } from "../../../profkit/report/assets/page/views/pair_rows.js";

test("two runs differ in what was set otherwise, and by difference and factor of each number", () => {
  const columns = [["Run", ""], ["batch", "id"], ["seed", "id"], ["Step time", "ns"], ["Peak", "bytes"],
    ["Captures", ""]].map(([label, unit]) => ({ label, unit }));
  const rows = [["a", 2, 0, 2e6, null, "3 ok"], ["b", 4, 0, 3e6, null, "3 ok"]];
  assert.deepEqual(rowsOf({ columns, rows }, 0, 1), [
    { label: "batch", unit: "id", before: 2, after: 4, difference: null, factor: null },
    { label: "Step time", unit: "ns", before: 2e6, after: 3e6, difference: 1e6, factor: 1.5 }]);
});
