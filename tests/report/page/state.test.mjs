import assert from "node:assert/strict";
import { test } from "node:test";

import { keepStateIn, stateChanged, stateOf } from
  "../../../profkit/report/assets/page/drawings/state.js";
import { decoded, hashOf, positionOf, routeOf } from
  "../../../profkit/report/assets/page/route.js";

test("the state of drawings is part of the hash, beside the run and the place", () => {
  const route = { view: "compute", run: 1, at: "run-2-3", state: { "flame.zoom": "a;b & c" } };
  assert.deepEqual(routeOf(hashOf(route), 2), route);
  assert.equal(hashOf({ view: "compute", run: 0, at: "" }), "#/compute");
});

test("each drawing has its own state, and an empty value forgets", () => {
  /** @type {Record<string, string>} */
  let kept = { "timeline.step": "4" };
  /** @type {boolean[]} */
  const steps = [];
  keepStateIn({ read: () => kept, write: (values, isStep) => { kept = values; steps.push(isStep); } });
  const flame = stateOf("flame");
  flame.set({ zoom: "a;b", order: "left" });
  flame.set({ zoom: "" }, false);
  assert.deepEqual(kept, { "timeline.step": "4", "flame.order": "left" });
  assert.deepEqual(steps, [true, false]);
  assert.equal(flame.get("order"), "left");
  assert.equal(flame.get("step"), "");
});

test("a drawing hears of a state that Back brought", () => {
  let heard = 0;
  stateOf("flame").onChange(() => { heard += 1; });
  stateChanged();
  assert.equal(heard, 1);
});

test("a hash that was changed by hand leads to what is there", () => {
  const asked = ["2", "99", "0", "-3", "x", "", null];
  assert.deepEqual(asked.map((text) => positionOf(text, 2, 3)), [1, 2, 1, 0, 1, 1, 1]);
  assert.equal(decoded("run-1%20x"), "run-1 x");
  assert.equal(decoded("run-%"), "run-%");
});
