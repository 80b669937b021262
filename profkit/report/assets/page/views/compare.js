// Runs beside one another.

import { element } from "../elements.js";
import { pair } from "./pair.js";
import { drawer } from "./parts.js";
import { charts, contents, section, silent, tables } from "./sections.js";

/** @param {import("../model.js").Report} report @returns {Node[]} */
export function compare(report) {
  const { across, overview } = report;
  const made = element("section", { id: across.anchor }, element("h2", {}, "Compare"),
    ...contents("Compare", across.sections));
  const answers = across.sections.filter(({ is_answer }) => is_answer);
  made.append(...answers.map((one) => section(one, across.drawn)));
  if (overview.tables.length) {
    const [, every] = overview.tables;
    made.append(pair(report), charts(overview.charts, overview),
      drawer("All numbers of all runs", tables([every], "h4")));
  }
  made.append(...across.sections.filter((one) => !answers.includes(one))
    .map((one) => section(one, across.drawn)));
  if (across.silent.length) made.append(silent(across.silent));
  return [made];
}
