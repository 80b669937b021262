// What a step is spent on: one table whose rows add up to the step, grouped as the reader chooses.

import { element, menu } from "../elements.js";
import { detailOf, madeTable, report } from "../model.js";
import { mountTable } from "../table.js";
import { GROUPS, groupsOf, rowsOf } from "./costs_groups.js";

/** @typedef {import("../model.js").DrawingData} DrawingData */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./costs_groups.js").Costs} Costs */

/** @param {DrawingData} shown @param {State} state @returns {Node} */
export function drawCosts(shown, state) {
  const place = element("div", { class: "table-place" });
  const tools = element("div", { class: "costs-tools" });
  const made = element("div", { class: "costs" }, tools, place);
  const turn = (/** @type {Record<string, string>} */ chosen) => {
    state.set(chosen);
    refresh();
  };
  const refresh = async () => {
    const asked = state.get("rank");
    const rank = ranksOf(shown).some(([one]) => one === asked) ? asked
      : String(shown.data.ranks[0]);
    made.setAttribute("aria-busy", "true");
    const costs = await costsOf(shown, rank);
    const groups = groupsOf(costs);
    const group = groups.includes(state.get("by")) ? state.get("by") : groups[0];
    tools.replaceChildren(
      choice("Grouped by", groups.map((name) => [name, GROUPS[name].title]), group,
        (by) => turn({ by })),
      ...(shown.data.ranks.length > 1 ? [choice("Rank", ranksOf(shown), rank,
        (chosen) => turn({ rank: chosen }))] : []));
    mountTable(place, tableOf(costs, group, rank), report().rows_per_page);
    made.removeAttribute("aria-busy");
  };
  state.onChange(refresh);
  refresh();
  return made;
}

/** @param {DrawingData} shown @returns {[string, string][]} */
function ranksOf({ data, details }) {
  const there = new Set(details.map(({ name }) => name));
  /** @type {string[]} */
  const ranks = data.ranks.map(String);
  return ranks.filter((rank, index) => index === 0 || there.has(`rank ${rank}`))
    .map((rank) => [rank, rank]);
}

/** @param {DrawingData} shown @param {string} rank @returns {Promise<Costs>} */
async function costsOf({ data, details }, rank) {
  const detail = details.find(({ name }) => name === `rank ${rank}`);
  return detail ? detailOf(detail.block) : data.first;
}

/**
 * @param {string} label
 * @param {[string, string][]} options
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
function choice(label, options, chosen, choose) {
  const made = menu({}, options, choose);
  made.value = chosen;
  return element("label", { class: "field" }, `${label} `, made);
}

/** @param {Costs} costs @param {string} by @param {string} rank */
function tableOf(costs, by, rank) {
  const group = GROUPS[by];
  const rows = rowsOf(costs, group);
  const first = group.columns.length;
  return madeTable(`Costs of a step by ${group.title.toLowerCase()}, rank ${rank}`,
    [...group.columns.map((label) => ({ label, unit: "" })),
      { label: "Time per step", unit: "ms" }, { label: "Share of the step", unit: "share" },
      { label: "Calls per step", unit: "count" }],
    rows, [first, first + 1]);
}
