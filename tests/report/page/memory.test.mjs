import assert from "node:assert/strict";
import { test } from "node:test";

import { allocationsOf, axisOf, bandAt, bandName, instantAt, shortageWords, stepAt, tableOf, tops,
  wordsOf } from "../../../profkit/report/assets/page/drawings/memory_bands.js";

const stack = { frames: ["linear (f.py:9)", "forward (model.py:3)"], own: [1] };
const track = { event: [-1, 0, 4], time_ns: [0, 2_000_000, 3_000_000], peak: 1,
  reserved_bytes: [4096, 4096, 8192], origins: ["optimizer", "forward"], origin: [0, 1, 1],
  stack: [0, 1, -1], live_bytes: [[1024, 1024, 1024], [0, 2048, 0], [0, 512, 0]],
  lines: ["step (adam.py:5)", "forward (model.py:3)"], stacks: [stack, stack],
  steps: { step: [3], at: [1] }, out_of_memory: [], closed_form_bytes: -1, fits_with: "" };

test("bands lie on one another, and a height is in one of them", () => {
  const upper = tops(track);
  assert.deepEqual(upper.map((band) => band[1]), [1024, 3072, 3584]);
  assert.deepEqual([500, 1024, 3100, 4000].map((bytes) => bandAt(upper, 1, bytes)), [0, 1, 2, -1]);
  assert.deepEqual([1, 2].map((band) => bandName(track, band)),
    ["forward (model.py:3)", "forward, other stacks"]);
});

test("the nearest instant is found on either axis", () => {
  assert.deepEqual([-5, 1.4, 2.1, 99].map((value) => instantAt([-1, 0, 4], value)), [0, 1, 2, 2]);
  assert.equal(axisOf(track, "time").of, "time");
  assert.equal(axisOf(track, "").of, "entries");
  assert.equal(axisOf({ ...track, time_ns: [] }, "time").of, "entries");
});

test("a place says when it is, what is allocated of what is reserved, and who holds it", () => {
  assert.equal(stepAt(track, 0), "");
  assert.deepEqual(wordsOf(track, axisOf(track, "time"), 1, 1), ["2.00 ms, step 3",
    "Allocated: 3.50 KiB (3,584 bytes) of 4.00 KiB reserved, 512 B unused", "2.00 KiB (2,048 bytes) by forward: forward (model.py:3)"]);
});

test("a request that failed is told with what it found", () => {
  const one = { at: 2, asked_bytes: 2 ** 30, free_bytes: 2 ** 20, reserved_bytes: 3 * 2 ** 20,
    allocated_bytes: 2 ** 20, step: 3, line: "", stack };
  assert.equal(shortageWords(one, "expandable_segments:True"),
    "Out of memory in step 3: 1.00 GiB asked, 1.00 MiB free on the GPU, 1,023 MiB missing, 1.00 MiB allocated, "
    + "2.00 MiB reserved but unused. It fits with expandable_segments:True.");
  assert.equal(shortageWords({ ...one, asked_bytes: 0, free_bytes: -1, step: -1 }, ""),
    "Out of memory: an unknown size asked, 1.00 MiB allocated, 2.00 MiB reserved but unused.");
});

test("the table sums the bands of an origin", () => {
  const table = tableOf(track, axisOf(track, ""), "Memory");
  assert.deepEqual(table.rows[1], [0, 3584, 4096, 1024, 2560]);
  assert.deepEqual(table.columns.map(({ label }) => label),
    ["Entry", "Allocated", "Reserved", "optimizer", "forward"]);
});

test("single allocations of a place are those that were live there", () => {
  const single = { total: 3, size_bytes: [8, 16, 32], start_event: [-1, 0, 2], end_event: [1, -1, 3],
    start_ns: [-1, 10, 20], end_ns: [15, -1, 30], step: [-1, 0, 0], line: [0, 1, 1],
    lines: ["", "forward (model.py:3)"], origin: [0, 1, 1], origins: ["optimizer", "forward"] };
  assert.equal(allocationsOf(single, null, "All").rows.length, 3);
  const place = { event: 2, line: "forward (model.py:3)", origin: "forward" };
  assert.deepEqual(allocationsOf(single, place, "Here").rows,
    [[16, 10, null, null, 0, "forward", "forward (model.py:3)"],
      [32, 20, 30, 10, 0, "forward", "forward (model.py:3)"]]);
});
