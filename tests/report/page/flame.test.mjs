import assert from "node:assert/strict";
import { test } from "node:test";

import { boxAt, boxesOf, nextBox, sandwichOf } from "../../../profkit/report/assets/page/drawings/flame_plot.js";
import { around, byName, frameOf, fromCallers, fromLeaves, hasLibraries, hasRecursion, matchesOf,
  pathTo, speedscopeOf, walk } from "../../../profkit/report/assets/page/drawings/flame_tree.js";
import { changeOf, tableOf, wordsOf } from "../../../profkit/report/assets/page/drawings/flame_words.js";

// main 1 (a 2 (lib 3 (lib2 4 (a 5))), b 9) of one thread, and a 6 of another.
const packed = { names: ["main", "a", "lib", "lib2", "b"], kinds: ["program", "library:torch",
  "library:Python"], kind: [0, 0, 1, 2, 0], above: [-1, 0, 1, 2, 3, 0, -1],
name: [0, 1, 2, 3, 1, 4, 1], own: [[1, 2, 3, 4, 5, 9, 6]], groups: [["main"], ["other"]],
group: [0, 0, 0, 0, 0, 0, 1] };
const plain = { inTime: false, isFolded: false, isCollapsed: false, isShown: () => true };

function texts(root) {
  const found = [];
  walk(root, (frame) => {
    const path = pathTo(frame).slice(1).map(({ name }) => name).join(">");
    if (frame.parent) found.push(`${path} ${frame.sums[0]}`);
  });
  return found;
}

test("frames are summed with what they call, and groups can be left out", () => {
  const all = fromCallers(packed, plain);
  assert.equal(all.sums[0], 30);
  assert.deepEqual(texts(all), ["main 24", "main>a 14", "main>a>lib 12", "main>a>lib>lib2 9",
    "main>a>lib>lib2>a 5", "main>b 9", "a 6"]);
  const one = fromCallers(packed, { ...plain, isShown: ([thread]) => thread === "other" });
  assert.deepEqual(texts(one), ["a 6"]);
});

test("libraries that call one another fold to one frame, and recursion to its first", () => {
  assert.ok(hasLibraries(packed) && hasRecursion(packed));
  assert.deepEqual(texts(fromCallers(packed, { ...plain, isFolded: true })), ["main 24",
    "main>a 14", "main>a>(torch) 12", "main>a>(torch)>a 5", "main>b 9", "a 6"]);
  assert.deepEqual(texts(fromCallers(packed, { ...plain, isCollapsed: true }))[1], "main>a 14");
  assert.equal(byName(fromCallers(packed, { ...plain, isCollapsed: true }))
    .find(({ name }) => name === "a").own[0], 13);
});

test("stacks of different groups are apart in time order alone", () => {
  const twice = { ...packed, above: [-1, -1], name: [1, 1], own: [[2, 3]], group: [0, 1] };
  assert.deepEqual(texts(fromCallers(twice, plain)), ["a 5"]);
  assert.deepEqual(texts(fromCallers(twice, { ...plain, inTime: true })), ["a 2", "a 3"]);
});

test("from the leaves, each frame has what is spent in it, by caller", () => {
  const root = fromLeaves(fromCallers(packed, plain), 0);
  assert.equal(root.sums[0], 30);
  assert.deepEqual(texts(root).filter((text) => !text.includes(">")).sort(),
    ["a 13", "b 9", "lib 3", "lib2 4", "main 1"]);
  assert.ok(texts(root).includes("a>lib2>lib>a>main 5"));
  const a = [...root.children.values()].find(({ name }) => name === "a");
  assert.equal(a.own[0], 6);
});

test("a sandwich has all callers and callees of a function, what is inside itself once", () => {
  const { callers, callees } = around(fromCallers(packed, plain), "a", 0);
  assert.deepEqual(texts(callees), ["a 20", "a>lib 12", "a>lib>lib2 9", "a>lib>lib2>a 5"]);
  assert.deepEqual(texts(callers), ["a 20", "a>main 14"]);
  const boxes = sandwichOf({ callers, callees }, 0, 0);
  assert.deepEqual(boxes.map(({ frame, row, wide }) => [frame.name, row, wide]),
    [["main", 0, 0.7], ["a", 1, 1], ["lib", 2, 0.6], ["lib2", 3, 0.45], ["a", 4, 0.25]]);
});

test("the focus and its callers fill the width, and what is too narrow is left out", () => {
  const root = fromCallers(packed, plain);
  const boxes = boxesOf(root, 0, false, 0);
  assert.deepEqual(boxes.filter(({ row }) => row === 1).map(({ frame, left }) => (
    [frame.name, left])), [["main", 0], ["a", 0.8]]);
  assert.equal(boxAt(boxes, 85, 30, 100).frame.name, "a");
  assert.equal(boxAt(boxes, 85, 300, 100), null);
  const main = boxes[1];
  assert.equal(nextBox(boxes, main, "ArrowDown").frame.name, "a");
  assert.equal(nextBox(boxes, main, "ArrowRight").frame.sums[0], 6);
  assert.equal(nextBox(boxes, main, "ArrowUp").frame, root);
  assert.deepEqual(boxesOf(frameOf(root, main.frame.id), 0, false, 0.5)
    .map(({ frame, wide }) => [frame.name, wide]),
  [["all", 1], ["main", 1], ["a", 14 / 24], ["lib", 0.5]]);
  assert.equal(frameOf(root, 99), root);
});

test("a search counts what is found once, even inside itself", () => {
  assert.deepEqual(matchesOf(fromCallers(packed, plain), "A", 0), { sum: 30, count: 4 });
  assert.deepEqual(matchesOf(fromCallers(packed, plain), "lib", 0), { sum: 12, count: 2 });
});

test("words and the table have values and shares of all and of the zoom", () => {
  const root = fromCallers(packed, plain);
  const measured = { unit: "ns", column: 0, difference: null };
  const b = [...[...root.children.values()][0].children.values()][1];
  assert.deepEqual(wordsOf(b, root, b.parent, measured),
    ["b", "program", "9 ns: 30.0% of all, 37.5% of the zoom", "9 ns by itself"]);
  const table = tableOf(root, 30, "Title", measured);
  assert.deepEqual(table.rows.slice(0, 2), [["main", "program", 1, 24, 0.8],
    ["a", "program", 13, 20, 20 / 30]]);
});

test("a difference is told from chance by its pairs", () => {
  const difference = { before: 1, after: 2, pairs: [3, 4, 5], factor: 2.484, names: ["A", "B"] };
  assert.equal(changeOf([9, 5, 9, 4, 4.1, 3.9], difference).isNoise, false);
  assert.equal(changeOf([9, 5, 9, 12, -4, 4], difference).isNoise, true);
  assert.deepEqual(changeOf([9, 5, 9], { ...difference, pairs: [] }),
    { mean: 4, low: null, high: null, isNoise: false });
  const [, , , both, change] = wordsOf({ name: "f", kind: "kernel", own: [9], parent: {},
    sums: [9, 5, 9, 12, -4, 4] }, { sums: [9] }, { sums: [9] },
  { unit: "ns", column: 0, difference });
  assert.equal(both, "5 ns in A, 9 ns in B");
  assert.match(change, /^\+4 ns, 95% interval \u2212.* not told from chance$/);
});

test("speedscope gets every stack with its weight", () => {
  const file = speedscopeOf(fromCallers(packed, plain), { title: "T", unit: "ns", column: 0 });
  const [{ samples, weights, unit, endValue }] = file.profiles;
  assert.deepEqual([unit, endValue, weights.reduce((a, b) => a + b, 0)], ["nanoseconds", 30, 30]);
  assert.deepEqual(samples[4].map((frame) => file.shared.frames[frame].name),
    ["main", "a", "lib", "lib2", "a"]);
});
