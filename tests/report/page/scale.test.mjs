import assert from "node:assert/strict";
import { test } from "node:test";

import { thinned } from "../../../profkit/report/assets/page/charts/draw.js";
import { nearest } from "../../../profkit/report/assets/page/charts/pointer.js";
import { domainOf, multiples, scaleOf, ticks } from "../../../profkit/report/assets/page/charts/scale.js";

test("marks are round numbers inside the axis", () => {
  assert.deepEqual(ticks(0, 33, 6), [0, 10, 20, 30]);
  assert.deepEqual(ticks(-0.3, 0.3, 6), [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3]);
  assert.deepEqual(ticks(5, 5, 6), [5]);
  assert.equal(ticks(1e9, 1e9 + 1e-7, 5).length < 20, true);
});

test("a logarithmic axis has powers of ten, and 2 and 5 times them where they are few", () => {
  assert.deepEqual(multiples(0.01, 1000), [0.01, 0.1, 1, 10, 100, 1000]);
  assert.deepEqual(multiples(1, 20), [1, 2, 5, 10, 20]);
});

test("axes begin at zero where nothing is below it", () => {
  assert.deepEqual(domainOf([10, 20], false, true), [0, 21]);
  assert.deepEqual(domainOf([], false, true), [0, 1]);
  assert.deepEqual(domainOf([0, -1, 10, NaN], true, true), [5, 20]);
  const [low, high] = domainOf([-10, 10], false, true);
  assert.equal(low < -10 && high > 10, true);
});

test("even multiples are even distances on a logarithmic axis", () => {
  const place = scaleOf([1, 100], [0, 200], true);
  assert.deepEqual([1, 10, 100].map(place), [0, 100, 200]);
});

test("a line of many points keeps the extremes of each column of pixels", () => {
  const places = Array.from({ length: 100_000 }, (_, index) => ({ x: index / 500, y: index % 97 }));
  const kept = thinned(places, 200);
  assert.equal(kept.length <= 4 * 200, true);
  assert.equal(Math.max(...kept.map(({ y }) => y)), 96);
  assert.deepEqual(thinned(places.slice(0, 10), 200), places.slice(0, 10));
});

test("the pointer finds the bar it is over, or the nearest point", () => {
  const bar = { x: 50, y: 50, words: [], box: { x: 0, y: 40, width: 100, height: 20 } };
  const point = { x: 200, y: 50, words: [] };
  assert.equal(nearest([bar, point], 5, 45), bar);
  assert.equal(nearest([bar, point], 190, 60), point);
  assert.equal(nearest([bar, point], 400, 400), undefined);
});
