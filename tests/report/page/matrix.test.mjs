import assert from "node:assert/strict";
import { test } from "node:test";

import { ORDERS, cellTexts, medianOf, nameOfCell, shareOf, shownOf, tableOf, withWords,
  wordsOf } from
  "../../../profkit/report/assets/page/drawings/matrix_cells.js";
import { colorAt, stopsOf } from "../../../profkit/report/assets/page/drawings/matrix_plot.js";

const layer = { title: "Step time", group: "Step", unit: "us", columns: 3,
  values: [10_000, null, 12_000, 30_000, null, 31_000, null, null, null] };
const matrix = { rows: { of: "rank", names: [0, 5, 7], total: 3 },
  columns: { of: "step", names: [3, 4, 6], last: [3, 5, 7] }, layers: [layer] };

test("rows and columns without any value are left out", () => {
  const shown = shownOf(matrix, layer, ORDERS[0]);
  assert.deepEqual([shown.rows, shown.columns], [[0, 1], [0, 2]]);
  assert.deepEqual([shown.low, shown.high], [10_000, 31_000]);
});

test("steps that were not marked have words for a number", () => {
  assert.equal(withWords(matrix), matrix);
  assert.deepEqual(withWords({ ...matrix, columns: { of: "step", names: [-1] } }).columns,
    { of: "", names: ["All that was recorded"] });
});

test("a cell that is a run has its name, and any other none", () => {
  assert.equal(nameOfCell(matrix, 1, 2), "");
  const names = ["", "", "", "", "", "batch 4, zero none", "", "", ""];
  assert.equal(nameOfCell({ ...matrix, names }, 1, 2), "batch 4, zero none");
});

test("the slowest rank comes first where the reader wants it", () => {
  assert.deepEqual(shownOf(matrix, layer, ORDERS[1]).rows, [1, 0]);
});

test("ranks whose times are alike stand together where the reader wants it", () => {
  const alike = { ...layer, alike: [2, 1, 0] };
  assert.deepEqual(shownOf(matrix, alike, ORDERS[2]).rows, [1, 0]);
  assert.deepEqual(shownOf(matrix, alike, ORDERS[0]).rows, [0, 1]);
  assert.deepEqual(shownOf(matrix, layer, ORDERS[2]).rows, [0, 1]);
});

test("ranks of one host stand together", () => {
  const values = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const rows = { ...matrix.rows, hosts: ["a", "b", "a"] };
  const shown = shownOf({ ...matrix, rows }, { ...layer, values }, ORDERS[0]);
  assert.deepEqual(shown.rows, [0, 2, 1]);
});

test("one far value does not leave the others in one colour", () => {
  const values = [...Array.from({ length: 99 }, (_, index) => 100 + index), 100_000];
  const many = { ...layer, columns: 100, values };
  const all = { ...matrix, rows: { of: "rank", names: [0] },
    columns: { of: "step", names: values.map((_, index) => index) } };
  const shown = shownOf(all, many, ORDERS[0]);
  assert.deepEqual([shown.high, shown.largest], [197, 100_000]);
  assert.equal(shareOf(shown, 100_000), 1);
  assert.equal(shareOf({ ...shown, low: 5, high: 5 }, 5), 0.5);
});

test("a cell says what it is, and what the others have", () => {
  const shown = shownOf(matrix, layer, ORDERS[0]);
  assert.deepEqual(wordsOf(matrix, layer, shown, 1, 2),
    ["rank 5, step 6 to 7", "Step time: 31.0 ms (31,000 us)", "Median of the 2 rows: 21.5 ms"]);
  assert.equal(medianOf(layer, [2], 0), null);
  const { unit, text } = cellTexts(layer, shown);
  assert.deepEqual([text(12_000), unit], ["12.0", "ms"]);
});

test("the table has the rows in the order that is shown", () => {
  const table = tableOf(matrix, layer, shownOf(matrix, layer, ORDERS[1]), "Time");
  assert.deepEqual(table.columns.map(({ label }) => label), ["Rank", "Step 3", "Step 6 to 7"]);
  assert.deepEqual(table.rows, [[5, 30_000, 31_000], [0, 10_000, 12_000]]);
});

test("colours go from the first to the last by way of the middle one", () => {
  const stops = stopsOf(" #000000 #ff0000 #ffffff");
  assert.deepEqual([0, 0.25, 0.5, 1].map((share) => colorAt(stops, share)),
    [[0, 0, 0], [128, 0, 0], [255, 0, 0], [255, 255, 255]]);
});
