// Rows of a table: which of them have some words, in which order, and which are in sight.

/** @typedef {import("./model.js").Table} Table */
/** @typedef {import("./model.js").Value} Value */

const DIGITS = 15;
// Keys of rows and what was recorded of them as JSON, which CSV files have.
export const FOR_PROGRAMS = new Set(["ID", "Evidence"]);
// Rows come and go in blocks.
const BLOCK = 4;

/**
 * By what a value is sorted: numbers in a text by their size, and letters whatever their case.
 * A collator takes four times as long for a hundred thousand names.
 * @param {Value} value
 */
function keyOf(value) {
  return typeof value === "string"
    ? value.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0")) : value;
}

/**
 * What is not known goes last in both directions.
 * @param {Value} a
 * @param {Value} b
 * @param {number} direction
 */
function compared(a, b, direction) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return (Number(a > b) - Number(a < b)) * direction;
}

/** @param {Table} table @param {number} column */
export function isNumeric(table, column) {
  let known = 0;
  for (const row of table.rows) {
    if (typeof row[column] === "string") return false;
    if (row[column] !== null) known += 1;
  }
  return known > 0;
}

/**
 * Columns that are not shown at first: those without a value, and what programs read.
 * @param {Table} table
 * @returns {Set<number>}
 */
export function silentColumns({ columns, rows }) {
  return new Set(columns.flatMap(({ label }, index) => (
    index > 0 && (FOR_PROGRAMS.has(label) || rows.every((row) => row[index] === null
      || row[index] === "")) ? [index] : [])));
}

/** What is searched of each row. @type {WeakMap<Table, string[]>} */
const texts = new WeakMap();

/** Texts and identifiers: no reader types the digits of a time. @param {Table} table */
export function textsOf(table) {
  const known = texts.get(table);
  if (known) return known;
  const shown = table.columns.flatMap(({ unit }, at) => (
    unit === "id" || !isNumeric(table, at) ? [at] : []));
  const made = table.rows.map((row) => shown.map((at) => row[at]).join("\n").toLowerCase());
  texts.set(table, made);
  return made;
}

/** By what rows are sorted, by column. @type {WeakMap<Table, Map<number, Value[]>>} */
const keys = new WeakMap();

/** @param {Table} table @param {number} column */
export function keysOf(table, column) {
  const known = keys.get(table) ?? new Map();
  keys.set(table, known);
  const isText = !isNumeric(table, column);
  const made = known.get(column) ?? table.rows.map((row) => keyOf(
    isText ? row[column]?.toString() ?? null : row[column]));
  known.set(column, made);
  return made;
}

/**
 * The rows to draw of a scrolled table: those in sight, and a block before.
 * @param {number} top how far it is scrolled, in pixels
 * @param {number} room its height
 * @param {number} row height of a row
 * @param {number} count
 * @returns {[number, number]} the first, and the one after the last
 */
export function windowOf(top, room, row, count) {
  const block = Math.floor(top / row / BLOCK);
  const blocks = Math.ceil(room / row / BLOCK) + 2;
  const from = Math.max(Math.min(block - 1, Math.ceil(count / BLOCK) - blocks), 0) * BLOCK;
  return [from, Math.min(from + blocks * BLOCK, count)];
}

/**
 * Positions of the rows that have all of the words, in order of a column.
 * @param {Table} table
 * @param {string[]} words in lower case
 * @param {number} column -1 for the order of the table
 * @param {number} direction 1 upwards, -1 downwards
 */
export function found(table, words, column, direction) {
  let order = table.rows.map((_, index) => index);
  if (words.length) {
    const all = textsOf(table);
    order = order.filter((index) => words.every((word) => all[index].includes(word)));
  }
  if (column >= 0) {
    const own = keysOf(table, column);
    order.sort((a, b) => compared(own[a], own[b], direction));
  }
  return order;
}

