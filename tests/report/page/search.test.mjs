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
