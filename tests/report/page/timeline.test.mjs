import assert from "node:assert/strict";
import { test } from "node:test";

import { tintOf } from "../../../profkit/report/assets/page/drawings/timeline_colours.js";
import {
  knownOf, lane, sceneOf, stacked, wholeOf,
} from "../../../profkit/report/assets/page/drawings/timeline_data.js";
import {
  around, firstAfter, hasWords, inside, linkedTo, matchesOf, meetingsIn, neighbour, pieceAt, sliceAt, totalsOf,
} from "../../../profkit/report/assets/page/drawings/timeline_find.js";
import {
  laneId, layoutOf, placedAt, startsFolded,
} from "../../../profkit/report/assets/page/drawings/timeline_layout.js";
import { merged } from "../../../profkit/report/assets/page/drawings/timeline_paint.js";
import {
  clamped, fitted, marksOf, panned, spanOf, zoomed,
} from "../../../profkit/report/assets/page/drawings/timeline_window.js";

const rankName = (rank) => `rank ${rank}`;
const step = {
  step: 4, role: "typical", start_ns: 1000, length_ns: 100, left_out: { slices: 3, longest_ns: 2 },
  texts: ["", "outer", "inner", "kernel", "model.py(3): f", "cudaLaunchKernel"],
  about: { cpu: { line: [4, 0], size_bytes: [-1, 8], texts: ["line"] } },
  tracks: [
    { rank: 0, kind: "gpu", device: 0, stream: 7, start_ns: [60], dur_ns: [20], name: [3],
      depth: [0], link: [9] },
    { rank: 0, kind: "cpu", thread: 5, role: "main", start_ns: [0, 10, 20, 10],
      dur_ns: [50, 10, 20, 5], name: [1, 2, 2, 5], depth: [0, 1, 1, 0], about: [0, 1, 1, -1],
      link: [-1, -1, -1, 9] },
    { rank: 0, kind: "memory", device: "cuda:0", time_ns: [0, 40], allocated_bytes: [5, 9] },
  ],
};
const scene = sceneOf(step, rankName);
const [cpu, gpu, memory] = scene.lanes;

test("a step becomes lanes in the order of threads, streams and memory", () => {
  assert.deepEqual(scene.lanes.map(({ title }) => title),
    ["CPU: main thread", "GPU 0, stream 7", "Memory of cuda:0"]);
  assert.deepEqual([...cpu.start], [0, 10, 30, 40]);
  assert.deepEqual([...cpu.end], [50, 20, 50, 45]);
  assert.deepEqual(cpu.byDepth.map((rows) => [...rows]), [[0, 3], [1, 2]]);
  assert.deepEqual([...memory.start], [0, 40]);
  assert.deepEqual([...memory.end], [40, 100]);
});

test("what is known of a slice leaves out what is not", () => {
  assert.deepEqual(knownOf(cpu, 0), [["line", "model.py(3): f"]]);
  assert.deepEqual(knownOf(cpu, 1), [["size_bytes", 8]]);
  assert.deepEqual(knownOf(cpu, 3), []);
});

test("a slice is found by depth and time, or near enough", () => {
  assert.equal(sliceAt(cpu, 1, 35, 0), 2);
  assert.equal(sliceAt(cpu, 1, 24, 0), -1);
  assert.equal(sliceAt(cpu, 1, 22, 3), 1);
  assert.equal(sliceAt(cpu, 7, 22, 3), -1);
  assert.equal(firstAfter(cpu, cpu.byDepth[1], 20), 1);
});

test("one steps to the slices before, after, around and inside", () => {
  assert.deepEqual(neighbour({ lane: cpu, index: 1 }, 1), { lane: cpu, index: 2 });
  assert.equal(neighbour({ lane: cpu, index: 2 }, 1), null);
  assert.deepEqual(around({ lane: cpu, index: 2 }), { lane: cpu, index: 0 });
  assert.equal(around({ lane: cpu, index: 0 }), null);
  assert.deepEqual(inside({ lane: cpu, index: 0 }), { lane: cpu, index: 2 });
  assert.equal(inside({ lane: gpu, index: 0 }), null);
});

test("a search counts what it finds, all words in any case", () => {
  const found = matchesOf(scene.lanes, hasWords("IN ner"));
  assert.deepEqual([found.slices.length, found.time], [2, 30]);
  assert.equal(matchesOf(scene.lanes, hasWords("nothing")).slices.length, 0);
  assert.equal(matchesOf(scene.lanes, hasWords("  ")).slices.length, 0);
});

test("what is found on several lanes of a rank at once counts once, and on each rank", () => {
  const of = (rank, start, end) => lane({ rank, kind: "gpu", title: "", group: `rank ${rank}`,
    names: ["all"], name: Int32Array.of(0), start: Float64Array.of(start), end: Float64Array.of(end),
    depth: Int32Array.of(0), link: Int32Array.of(-1) });
  const lanes = [of(0, 0, 10), of(0, 2, 5), of(0, 8, 14), of(0, 20, 21), of(1, 0, 10)];
  assert.equal(matchesOf(lanes, hasWords("all")).time, 14 + 1 + 10);
});

test("a call and what it launched belong together, on one rank", () => {
  const linked = linkedTo(scene.lanes, { lane: gpu, index: 0 });
  assert.deepEqual(linked.map(({ lane: one, index }) => [one.kind, index]), [["cpu", 3], ["gpu", 0]]);
});

test("a collective is linked across ranks and not to another step, unless there are too many", () => {
  const rankOf = (rank, name) => lane({ rank, kind: "collectives", title: "", scene: name,
    group: `${name}, rank ${rank}`, start: Float64Array.of(0, 50), end: Float64Array.of(10, 60),
    link: Int32Array.of(3, 4) });
  const lanes = [rankOf(0, "a"), rankOf(1, "a"), rankOf(0, "b")];
  const inSpan = (span, most) => meetingsIn(lanes, span, most).map((slices) => slices.map(
    ({ lane: one, index }) => `${one.group} ${index}`));
  assert.deepEqual(inSpan({ from: 5, to: 50 }, 9), [["a, rank 0 0", "a, rank 1 0"], ["b, rank 0 0"]]);
  assert.deepEqual(inSpan({ from: 5, to: 50 }, 1), []);
  assert.deepEqual(linkedTo(lanes, null), []);
});

test("a range is summed by name, cut to the range, and what recurs inside itself once", () => {
  const nested = lane({ kind: "cpu", title: "", start: Float64Array.of(0, 10, 20),
    end: Float64Array.of(100, 90, 30), names: ["f", "g"], name: Int32Array.of(0, 0, 1),
    depth: Uint16Array.of(0, 1, 2) });
  assert.deepEqual(totalsOf([nested], { from: 0, to: 50 }).map(
    ({ name, time, self, count }) => [name, time, self, count]), [["f", 50, 40, 2], ["g", 10, 10, 1]]);
  assert.deepEqual(totalsOf([gpu], { from: 70, to: 75 }).map(({ time }) => time), [5]);
  assert.deepEqual(totalsOf(scene.lanes, { from: 90, to: 99 }), []);
});

test("the whole recording has a bar for each piece, and runs of the largest cause", () => {
  const whole = wholeOf({ length_ns: 100, pieces: 4, ranks: [{ rank: 0 }],
    steps: { step: [3], start_ns: [10], dur_ns: [50], is_steady: [0] },
    tracks: [{ rank: 0, kind: "causes", causes: ["A", "B"], cause: [-1, 0, 0, 1] },
      { rank: 0, kind: "gpu", device: 0, stream: 7, busy_percent: [0, 100, 50, 0] }] }, rankName);
  const [steps, causes, busy] = whole.lanes;
  assert.deepEqual(steps.names, ["step 3 (not counted)"]);
  assert.deepEqual([[...causes.start], [...causes.end], [...causes.name]], [[25, 75], [75, 100], [0, 1]]);
  assert.equal(busy.shape, "busy");
  assert.equal(busy.values[pieceAt(busy, 60)], 50);
  assert.equal(pieceAt(memory, -1), -1);
});

test("two steps stand above each other, and their calls stay apart", () => {
  const both = stacked([["step 4", scene], ["step 9", sceneOf(step, rankName)]]);
  assert.deepEqual([...new Set(both.lanes.map(({ group }) => group))],
    ["step 4, rank 0", "step 9, rank 0"]);
  assert.equal(both.leftOut.slices, 6);
  const called = both.lanes.find(({ kind }) => kind === "cpu");
  assert.deepEqual(linkedTo(both.lanes, { lane: called, index: 3 }).map(({ lane: one }) => one.group),
    ["step 4, rank 0", "step 4, rank 0"]);
});

test("folded lanes take one row, and a place on the sheet belongs to a lane", () => {
  const open = layoutOf(scene.lanes, new Set());
  const folded = layoutOf(scene.lanes, new Set([laneId(cpu)]));
  assert.equal(open.height - folded.height, 16);
  assert.equal(folded.placed[0].row, 0);
  assert.equal(placedAt(open, open.placed[1].y + 2)?.lane, gpu);
  assert.equal(placedAt(open, 1), undefined);
  assert.deepEqual([startsFolded(cpu, false), startsFolded(cpu, true), startsFolded(gpu, true)],
    [false, true, false]);
});

test("slices narrower than a pixel are drawn as one, up to the next gap", () => {
  const many = lane({ kind: "gpu", title: "", start: Float64Array.from({ length: 100 }, (_, i) => i),
    end: Float64Array.from({ length: 100 }, (_, i) => i + 0.5), names: [""],
    name: new Int32Array(100) });
  many.start[50] = 60;
  many.end[50] = 61;
  for (let i = 51; i < 100; i += 1) [many.start[i], many.end[i]] = [i + 20, i + 20.5];
  const [next, end] = merged(many, many.byDepth[0], 1, 0, 10);
  assert.equal(next, 50);
  assert.ok(end >= 49.5 && end <= 60, String(end));
});

test("what is seen stays inside, keeps the time under the pointer, and is never nothing", () => {
  assert.deepEqual(clamped({ from: -50, to: 50 }, 1000), { from: 0, to: 100 });
  assert.deepEqual(clamped({ from: 0, to: 5000 }, 1000), { from: 0, to: 1000 });
  const close = clamped({ from: 500, to: 500 }, 1000);
  assert.deepEqual(close, { from: 490, to: 510 });
  assert.deepEqual(zoomed({ from: 0, to: 1000 }, 0.5, 200, 1000), { from: 100, to: 600 });
  assert.deepEqual(panned({ from: 900, to: 1000 }, 500, 1000), { from: 900, to: 1000 });
  assert.deepEqual(fitted({ from: 400, to: 500 }, 1000), { from: 390, to: 510 });
  assert.deepEqual(spanOf("", "", 1000), { from: 0, to: 1000 });
  assert.deepEqual(spanOf("100", "200", 1000), { from: 100, to: 200 });
  assert.deepEqual(spanOf("x", "200", 1000), { from: 0, to: 1000 });
});

test("marks of the axis differ however close one looks", () => {
  assert.deepEqual(marksOf({ from: 0, to: 4e6 }, 4).map(([, text]) => text),
    ["0 ms", "1 ms", "2 ms", "3 ms", "4 ms"]);
  assert.deepEqual(marksOf({ from: 130_000_000, to: 130_000_400 }, 4).map(([, text]) => text),
    ["130.0000 ms", "130.0001 ms", "130.0002 ms", "130.0003 ms", "130.0004 ms"]);
});

test("a cause has its colour in every step", () => {
  assert.equal(tintOf("causes", "Loading data (GPU idle)"), tintOf("phases", "data"));
  assert.notEqual(tintOf("causes", "GPU computing"), tintOf("causes", "Waiting for other ranks"));
});
