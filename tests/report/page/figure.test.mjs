import assert from "node:assert/strict";
import { test } from "node:test";

import { figureOf, quantile, firstChoice } from "../../../profkit/report/assets/page/charts/figure.js";
import { layoutOf } from "../../../profkit/report/assets/page/charts/layout.js";
import { madeTable } from "../../../profkit/report/assets/page/model.js";
import { shortened } from "../../../profkit/report/assets/page/format.js";

const plain = { title: "t", table: 0, color: -1, horizontal: false, log: [], lines: [], choose: -1,
  note: "" };

function table(columns, rows) {
  const named = columns.map(([label, unit]) => ({ label, unit }));
  return madeTable("t", named, rows);
}

test("bars stand at their names, in the unit of the largest", () => {
  const shown = figureOf({ ...plain, kind: "bar", x: 0, y: [1] },
    table([["Operator", ""], ["Time", "ns"]], [["mm", 2_000_000], ["add", 500_000]]), 10);
  assert.deepEqual(shown.names, ["mm", "add"]);
  assert.equal(shown.upTitle, "Time (ms)");
  assert.deepEqual(shown.series[0].points.map((p) => [p.at, p.low, p.high]), [[0, 0, 2], [1, 0, 0.5]]);
  assert.deepEqual(shown.series[0].points[0].words, ["mm", "Time: 2.00 ms (2,000,000 ns)"]);
});

test("no two marks of an axis have one text", () => {
  const shown = figureOf({ ...plain, kind: "scatter", x: 1, y: [2] },
    table([["Run", ""], ["Memory", "bytes"], ["Rate", "count"]],
      [["a", 316 * 2 ** 20 + 5000, 1714], ["b", 318 * 2 ** 20 + 9000, 5521]]), 10);
  const texts = layoutOf(shown, { width: 800 }, null).acrossMarks.map((mark) => mark.text);
  assert.equal(texts.includes("316.5"), true);
  assert.equal(new Set(texts).size, texts.length);
});

test("bars beyond the most are counted, not drawn", () => {
  const rows = [["a", 3], ["b", 2], ["c", 1]];
  const shown = figureOf({ ...plain, kind: "bar", x: 0, y: [1] },
    table([["Name", ""], ["Calls", "count"]], rows), 2);
  assert.deepEqual([shown.names, shown.cut], [["a", "b"], 1]);
});

test("what is not known is left out", () => {
  const shown = figureOf({ ...plain, kind: "line", x: 0, y: [1] },
    table([["Step", "count"], ["Time", "ns"]], [[1, 10], [2, null], [null, 30], [3, 30]]), 10);
  assert.deepEqual(shown.series[0].points.map((p) => p.at), [1, 3]);
});

test("stacked bars stand on one another, what is negative below", () => {
  const rows = [["a", "x", 1], ["a", "y", 2], ["a", "z", -4], ["b", "y", 5]];
  const shown = figureOf({ ...plain, kind: "stacked_bar", x: 0, y: [2], color: 1 },
    table([["Name", ""], ["Part", ""], ["Share", "count"]], rows), 10);
  const ends = shown.series.map((one) => one.points.map((p) => [p.at, p.low, p.high]));
  assert.deepEqual(ends, [[[0, 0, 1]], [[0, 1, 3], [1, 0, 5]], [[0, 0, -4]]]);
});

test("names of ranks have the places of their numbers where they are many", () => {
  const rows = [["rank10_dp10_tp0_pp0", 1], ["rank2_dp2_tp0_pp0", 2]];
  const columns = [["Rank", ""], ["Time", "count"]];
  const few = figureOf({ ...plain, kind: "bar", x: 0, y: [1] }, table(columns, rows), 10);
  assert.deepEqual(few.names, ["rank2_dp2_tp0_pp0", "rank10_dp10_tp0_pp0"]);
  const many = figureOf({ ...plain, kind: "bar", x: 0, y: [1] }, table(columns, rows), 1);
  assert.equal(many.names, null);
  assert.deepEqual(many.series[0].points.map((p) => p.at), [10, 2]);
});

test("a series that is about another has its colour", () => {
  const rows = [["zero=none", 1, 1], ["zero=none, line", 1, 2], ["zero=2", 1, 3]];
  const shown = figureOf({ ...plain, kind: "scatter", x: 1, y: [2], color: 0,
    lines: ["zero=none, line"] },
  table([["Run", ""], ["x", "count"], ["y", "count"]], rows), 10);
  assert.deepEqual(shown.series.map((one) => one.owner), [0, 0, 2]);
  assert.deepEqual(shown.series.map((one) => one.isLine), [false, true, false]);
});

test("a box has the quartiles of its values and shows what lies far from them", () => {
  const rows = [1, 2, 3, 4, 5, 100].map((value) => ["rank 0", value]);
  const shown = figureOf({ ...plain, kind: "box", x: 0, y: [1] },
    table([["Rank", ""], ["Time", "count"]], rows), 10);
  const [box] = shown.series[0].boxes;
  assert.deepEqual(box.five, [1, 2.25, 3.5, 4.75, 5]);
  assert.deepEqual(box.outliers, [100]);
  assert.equal(quantile([1, 2], 0.25), 1.25);
});

test("series that share no place do not share its room", () => {
  const rows = [["a", "x", 1], ["b", "y", 2]];
  const columns = [["Name", ""], ["Part", ""], ["Time", "count"]];
  const chart = { ...plain, kind: "bar", x: 0, y: [2], color: 1 };
  assert.equal(figureOf(chart, table(columns, rows), 10).slots, 1);
  assert.equal(figureOf(chart, table(columns, [...rows, ["a", "y", 3]]), 10).slots, 2);
});

test("a point says which row it is, and a bar of a rank leads to the rank", () => {
  const points = figureOf({ ...plain, kind: "scatter", x: 1, y: [2] },
    table([["Operator", ""], ["FLOPs per byte", ""], ["Rate", "flops_per_s"]],
      [["aten::mm", 4, 2e9]]), 10).series[0].points;
  assert.deepEqual([points[0].name, points[0].words],
    ["aten::mm", ["aten::mm", "FLOPs per byte 4", "Rate: 2.00 GFLOP/s (2,000,000,000 flops/s)"]]);
  const bars = figureOf({ ...plain, kind: "bar", x: 0, y: [1] },
    table([["Rank", "id"], ["Time", "ns"]], [[7, 5]]), 10).series[0].points;
  assert.equal(bars[0].name, "rank 7");
});

test("bars of a waterfall have the colour of their direction, whichever come first", () => {
  const columns = [["Cause", ""], ["From", "ms"], ["To", "ms"], ["Direction", ""]];
  const owners = (...directions) => figureOf(
    { ...plain, kind: "waterfall", x: 0, y: [1, 2], color: 3 },
    table(columns, directions.map((direction, at) => [`cause ${at}`, 0, 1, direction])), 10,
  ).series.map(({ name, owner }) => [name, owner]);
  assert.deepEqual(owners("step time", "less", "more"), [["step time", 0], ["less", 2], ["more", 1]]);
  assert.deepEqual(owners("less"), [["less", 2]]);
});

test("a bar of a waterfall lies between two times, and says by how much they differ", () => {
  const { series } = figureOf({ ...plain, kind: "waterfall", x: 0, y: [1, 2], color: 3 },
    table([["Cause", ""], ["From", "ms"], ["To", "ms"], ["Direction", ""]],
      [["A", 0, 5, "step time"], ["Idle", 5, 3, "less"], ["B", 0, 3, "step time"]]), 10);
  assert.deepEqual(series.map(({ points }) => points.map((p) => [p.at, p.low, p.high])),
    [[[0, 0, 5], [2, 0, 3]], [[1, 5, 3]]]);
  assert.deepEqual(series[1].points[0].words, ["Idle", "less: -2 ms"]);
});

test("a factor of a forest has its interval, and what would tell it from 1", () => {
  const { series: [one] } = figureOf({ ...plain, kind: "forest", x: 0, y: [1, 2, 3], band: 0.01,
    needs: 4 }, table([["Run", ""], ["Ratio", "ratio"], ["Low", "ratio"], ["High", "ratio"],
    ["More", "count"]], [["B", 1.5, 0.5, 3, 4], ["C", 2, null, null, null]]), 10);
  assert.deepEqual(one.boxes.map(({ at, five, note }) => [at, five, note]),
    [[0, [0.5, 1.5, 1.5, 1.5, 3], "needs about 4 more repeats"], [1, [2, 2, 2, 2, 2], ""]]);
});

test("a long kernel is cut so that its name is left", () => {
  const kernel = "void at::native::(anonymous namespace)::softmax<4, float>(float*, int (*)(int))";
  assert.equal(shortened(kernel, 30), "softmax<4, float>");
  assert.equal(shortened("void f(int)", 30), "void f(int)");
});

test("a menu begins with what another that offers the same has, and never with nothing", () => {
  const ranks = ["Rank 0", "Rank 1"];
  const drawing = { names: ["rank 1, cpu:0", "rank 0, cpu:0"], chosen: 1 };
  assert.equal(firstChoice(ranks, [drawing]), 0);
  assert.equal(firstChoice(ranks, [drawing, { names: ranks, chosen: 1 }]), 1);
});
