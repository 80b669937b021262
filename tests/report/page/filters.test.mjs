import assert from "node:assert/strict";
import { test } from "node:test";

import {
  choicesOf, filterIn, filtered, filtersOf, withFilter,
} from "../../../profkit/report/assets/page/filters.js";

const rows = [["rank0_dp0_tp0_pp0", 4, 1], ["rank1_dp1_tp0_pp0", 4, 2],
  ["rank1_dp1_tp0_pp0", 5, 3]];
const table = { title: "T", note: "N.", total: 8, rows, sums: [[2, 99]], left_out: 0,
  columns: [{ label: "Rank" }, { label: "Step" }, { label: "Time" }] };
const other = { ...table, columns: [{ label: "Name" }, { label: "Calls" }, { label: "Time" }] };

test("what can be chosen is in the tables, and one value is no choice", () => {
  const repeats = { ...table, columns: [{ label: "Repeat" }], rows: [[0], [0]] };
  assert.deepEqual(choicesOf({ tables: [table, other, repeats] }),
    [["Rank", "rank", ["0", "1"]], ["Step", "step", ["4", "5"]]]);
});

test("a table has the rows that were chosen, and says how many", () => {
  const made = filtered(table, { "filter.rank": "1", "filter.step": "5", "a.b": "c" });
  assert.deepEqual(made.rows, [rows[2]]);
  assert.equal(made.note, "N. Only rank 1, step 5: 1 of 3 rows.");
  assert.equal(made.total, 6);
  assert.deepEqual(made.sums, []);
  assert.deepEqual(filtered({ ...table, total: 3 }, { "filter.rank": "1" }).sums, [[2, 5]]);
  assert.equal(filtered(other, { "filter.rank": "1" }), other);
});

test("filters are a part of the address that other views keep", () => {
  const state = withFilter({ "timeline.pick": "1" }, "rank", "3");
  assert.deepEqual(filtersOf(state), { "filter.rank": "3" });
  assert.equal(filterIn(state, "rank"), "3");
  assert.deepEqual(withFilter(state, "rank", ""), { "timeline.pick": "1" });
});
