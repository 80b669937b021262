// Two runs of the reader's choice side by side: what was set otherwise, and all their numbers.

import { stateOf } from "../drawings/state.js";
import { element, menu } from "../elements.js";
import { human } from "../format.js";
import { positionOf } from "../route.js";
import { rowsOf } from "./pair_rows.js";
import { command, drawer, number } from "./parts.js";
import { plainTable } from "./sections.js";

/** @typedef {import("../model.js").Report} Report */
/** @typedef {import("../model.js").Table} Table */

/** @param {Report} report @returns {HTMLElement} */
export function pair({ runs, overview: { tables: [glance, every] } }) {
  const state = stateOf("pair");
  const place = element("div");
  const menus = /** @type {[string, string][]} */ ([["A", "a"], ["B", "b"]]).map(([name, key]) => {
    const made = menu({ "aria-label": `Run ${name}` },
      runs.map(({ label }, at) => [String(at + 1), label]), (run) => {
        state.set({ [key]: run });
        show();
      });
    return { key, made, field: element("label", { class: "field" }, `${name} `, made) };
  });
  const show = () => {
    const [a, b] = menus.map(({ key, made }, at) => {
      made.selectedIndex = positionOf(state.get(key), at + 1, runs.length);
      return made.selectedIndex;
    });
    const beside = (/** @type {string} */ title, /** @type {Table} */ table) => plainTable(title,
      ["Number", runs[a].label, runs[b].label, "B − A", "B / A"],
      rowsOf(table, a, b).map(({ label, unit, before, after, difference, factor }) => [label,
        number(before, unit), number(after, unit),
        difference === null ? "" : human(difference, unit),
        factor === null ? "" : human(factor, "ratio")]));
    place.replaceChildren(element("p", { class: "note" }, glance.note),
      beside("Key numbers of the two runs", glance),
      drawer("All numbers of the two runs", beside("All numbers of the two runs", every)),
      element("p", { class: "note" }, "How sure that is, and what causes it:"),
      command(`profkit compare ${every.rows[a][0]} ${every.rows[b][0]}`,
        "Command that compares the two runs"));
  };
  state.onChange(show);
  show();
  return element("section", { class: "analysis", id: "pair" },
    element("h3", {}, "Any two runs"),
    element("p", { class: "costs-tools" }, ...menus.map(({ field }) => field)), place);
}
