import assert from "node:assert/strict";
import { test } from "node:test";

import { lanesOf, runsOf } from "../../../profkit/report/assets/page/drawings/mini_runs.js";
import { lane } from "../../../profkit/report/assets/page/drawings/timeline_data.js";

function slices(kind, rows, more = {}) {
  return lane({ kind, title: kind, start: Float64Array.from(rows, ([start]) => start),
    end: Float64Array.from(rows, ([, end]) => end), names: ["a", "b"],
    name: Int32Array.from(rows, ([, , name]) => name),
    depth: Uint16Array.from(rows, ([, , , depth = 0]) => depth), ...more });
}

test("a piece has the name that has most of it, and neighbours join", () => {
  const made = slices("cpu", [[0, 25, 0], [25, 40, 1], [60, 100, 0], [0, 5, 1, 1]]);
  assert.deepEqual(runsOf(made, 100, 10), [{ from: 0, to: 3, name: 0 }, { from: 3, to: 4, name: 1 },
    { from: 6, to: 10, name: 0 }]);
});

test("marks of steps give way to what is in them", () => {
  const rows = [[0, 80, 0], [0, 80, 2, 1], [20, 40, 1, 2], [20, 30, 3, 3], [90, 100, 3]];
  const names = ["ProfilerStep#7", "b", "step#7", "c"];
  const made = slices("cpu", rows, { names });
  assert.deepEqual(runsOf(made, 100, 10),
    [{ from: 2, to: 4, name: 1 }, { from: 9, to: 10, name: 3 }]);
});

test("what overlaps the mark of a step hides nothing in it", () => {
  const rows = [[-9, 3, 1, 0], [0, 100, 0, 1], [1, 99, 2, 2], [10, 60, 3, 3], [20, 30, 1, 4]];
  const names = ["ProfilerStep#7", "Optimizer.step", "step#7", "forward"];
  assert.deepEqual(runsOf(slices("cpu", rows, { names }), 100, 10),
    [{ from: 0, to: 1, name: 1 }, { from: 1, to: 6, name: 3 }]);
});

test("what begins before the step or ends after it is cut", () => {
  assert.deepEqual(runsOf(slices("gpu", [[-50, 20, 1], [90, 300, 0]]), 100, 10),
    [{ from: 0, to: 2, name: 1 }, { from: 9, to: 10, name: 0 }]);
});

test("of the streams the busiest are shown, of one rank", () => {
  const lanes = [slices("gpu", [[0, 1, 0]]), slices("gpu", [[0, 9, 0]], { title: "busy" }),
    slices("cpu", [[0, 1, 0]]), slices("phases", [[0, 1, 0]]), slices("cpu", [[0, 1, 0]]),
    slices("gpu", [[0, 99, 0]], { rank: 1 })];
  assert.deepEqual(lanesOf(lanes, 0, 3).map(({ title }) => title), ["phases", "cpu", "busy"]);
});
