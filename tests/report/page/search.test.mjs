import assert from "node:assert/strict";
import { test } from "node:test";

import { hitsOf } from "../../../profkit/report/assets/page/search.js";

const report = { runs: [{ label: "dark matter", anchor: "run-1" }],
  across: { sections: [], drawn: { tables: [] } } };
const run = { topics: [], drawn: { tables: [] } };
const commands = [{ text: "Dark or light theme", act: () => {} }, { text: "Go to Ranks", act() {} }];

test("commands are found beside names, and alone after >", () => {
  const texts = (question) => hitsOf(question, report, run, [], commands).map(({ text }) => text);
  assert.deepEqual(texts("dark"), ["dark matter", "Dark or light theme"]);
  assert.deepEqual(texts("> dark"), ["Dark or light theme"]);
  assert.deepEqual(texts(">"), ["Go to Ranks", "Dark or light theme"]);
  assert.deepEqual(texts(" "), []);
});

test("signs between letters may differ; titles of tables and findings are found", () => {
  const table = { title: "Gain if compute could hide it",
    columns: [{ label: "Name", unit: "" }, { label: "Evidence", unit: "" }],
    rows: [["nccl:all_reduce", ""], ["allreduce", '{"json": 1}'], ["fit.py(12): step", ""]] };
  const section = { title: "Overlap", anchor: "run-1-1", tables: [0],
    findings: [{ message: "Rank 7 is late" }] };
  const filled = { topics: [{ sections: [section] }], drawn: { tables: [table] } };
  const first = (question) => hitsOf(question, report, filled, [], [])[0]?.text;
  for (const spelling of ["allreduce", "all-reduce", "all_reduce", "All Reduce"]) {
    assert.equal(first(spelling), "allreduce");
  }
  assert.equal(first("fit.py:12"), "fit.py(12): step");
  assert.equal(first("hide"), table.title);
  assert.equal(first("late"), "Rank 7 is late");
  assert.equal(first("--"), undefined);
  assert.equal(first("json"), undefined);
});
