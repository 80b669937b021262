// Rank, step and repeat that the reader looks at, in every view: tables and charts of their rows.

import { sumsOf } from "./model.js";

/** @typedef {import("./model.js").Table} Table */
/** @typedef {import("./model.js").Value} Value */
/** @typedef {import("./model.js").Drawn} Drawn */
/** @typedef {Record<string, string>} State of the address */

/** Keys of the address, by the label of the columns that they filter. @type {[string, string][]} */
export const FILTERS = [["Rank", "rank"], ["Step", "step"], ["Repeat", "repeat"]];

const PREFIX = "filter.";
/** More choices than these are no menu. */
const MOST_CHOICES = 200;

/** @param {State} state @returns {State} the filters alone, which other views keep */
export function filtersOf(state) {
  return Object.fromEntries(Object.entries(state).filter(([key]) => key.startsWith(PREFIX)));
}

/** @param {State} state @param {string} key such as `rank` */
export function filterIn(state, key) {
  return state[`${PREFIX}${key}`] ?? "";
}

/** @param {State} state @param {string} key @param {string} value empty for all @returns {State} */
export function withFilter(state, key, value) {
  const others = { ...state, [`${PREFIX}${key}`]: value };
  if (!value) delete others[`${PREFIX}${key}`];
  return others;
}

/**
 * The number in a cell: ranks may have their label there, such as `rank3_dp1_tp0_pp0`.
 * @param {Value} cell
 */
export function numberOf(cell) {
  if (typeof cell === "number") return String(cell);
  return /^rank(\d+)(_|$)/.exec(cell ?? "")?.[1] ?? "";
}

/**
 * The values that can be chosen, by key; those of which there is one are left out.
 * @param {Drawn} drawn
 * @returns {[string, string, string[]][]} label, key and values
 */
export function choicesOf({ tables }) {
  return FILTERS.flatMap(([label, key]) => {
    /** @type {Set<string>} */
    const values = new Set();
    for (const { columns, rows } of tables) {
      const column = columns.findIndex((one) => one.label === label);
      if (column >= 0) for (const row of rows) values.add(numberOf(row[column]));
    }
    values.delete("");
    if (values.size < 2 || values.size > MOST_CHOICES) return [];
    const ordered = [...values].sort((a, b) => Number(a) - Number(b));
    return [/** @type {[string, string, string[]]} */ ([label, key, ordered])];
  });
}

/** What was chosen, such as `rank 0, step 3`; empty for all. @param {State} state */
export function chosenWords(state) {
  return FILTERS.flatMap(([, key]) => (
    filterIn(state, key) ? [`${key} ${filterIn(state, key)}`] : [])).join(", ");
}

/**
 * The rows of what was chosen; a table without such columns stays as it is.
 * @param {Table} table
 * @param {State} state
 * @returns {Table}
 */
export function filtered(table, state) {
  const asked = FILTERS.flatMap(([label, key]) => {
    const value = filterIn(state, key);
    const column = table.columns.findIndex((one) => one.label === label);
    return value && column >= 0 ? [{ label, value, column }] : [];
  });
  if (asked.length === 0) return table;
  const rows = table.rows.filter((row) => (
    asked.every(({ value, column }) => numberOf(row[column]) === value)));
  const said = asked.map(({ label, value }) => `${label.toLowerCase()} ${value}`).join(", ");
  const note = `${table.note} Only ${said}: ${rows.length} of ${table.rows.length} rows.`.trim();
  // Of rows that were cut it is not known what they would add.
  const isWhole = table.total + table.left_out === table.rows.length;
  const sums = isWhole ? sumsOf(rows, table.sums.map(([column]) => column)) : [];
  return { ...table, rows, note, sums, total: table.total - table.rows.length + rows.length };
}
