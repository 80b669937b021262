// A matrix before any pixel of it: its order, its scale, the words of a cell, and its table.

import { isNamed, rankOf } from "../evidence.js";
import { exact, human, scaleFor } from "../format.js";
import { madeTable } from "../model.js";

/** @typedef {import("../evidence.js").Claim} Claim */
/** @typedef {import("../model.js").Table} Table */
/**
 * @typedef {object} Layer
 * @property {string} title
 * @property {string} group heading below which it is chosen
 * @property {string} unit
 * @property {number} columns
 * @property {(number | null)[]} values row after row
 * @property {number[]} [alike] positions of the rows, those with alike values together
 */
/**
 * @typedef {object} Side
 * @property {string} of what its names are, such as rank; empty for names that say it
 * @property {(string | number)[]} names
 * @property {number[]} [last] last step of each part, where several were averaged
 * @property {number} [total] how many there are, where some were left out
 * @property {string[]} [hosts] host of each
 */
/**
 * @typedef {object} Matrix
 * @property {Side} rows
 * @property {Side} columns
 * @property {Layer[]} layers
 * @property {string[]} [names] what each cell is, row after row, where it is more than its sides
 */
/**
 * @typedef {object} Shown
 * @property {number[]} rows positions in the order in which they are drawn
 * @property {number[]} columns those that have a value
 * @property {number} low value with the first colour
 * @property {number} high value with the last colour
 * @property {number} largest
 */

export const ORDERS = ["In their order", "Largest first", "Alike together"];
const FAR = 3;

/**
 * The matrix with words in place of steps, where none was marked.
 * @param {Matrix} matrix
 * @returns {Matrix}
 */
export function withWords(matrix) {
  const { columns } = matrix;
  const isWhole = columns.of === "step" && columns.names.join() === "-1";
  return isWhole ? { ...matrix, columns: { of: "", names: ["All that was recorded"] } } : matrix;
}

/**
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {string} order one of `ORDERS`
 * @returns {Shown}
 */
export function shownOf(matrix, layer, order) {
  const width = layer.columns;
  const all = matrix.rows.names.map((_, row) => row);
  const columns = matrix.columns.names.map((_, column) => column).filter((column) => (
    column < width && all.some((row) => layer.values[row * width + column] !== null)));
  const rows = all.filter((row) => columns.some((column) => (
    layer.values[row * width + column] !== null)));
  const means = new Map(rows.map((row) => [row, meanOf(layer, row)]));
  if (order === ORDERS[1]) {
    rows.sort((a, b) => (means.get(b) ?? 0) - (means.get(a) ?? 0) || a - b);
  } else if (order === ORDERS[2] && layer.alike) {
    rows.splice(0, Infinity, ...layer.alike.filter((row) => means.has(row)));
  } else if (matrix.rows.hosts) {
    const { hosts } = matrix.rows;
    const first = new Map();
    for (const row of rows) if (!first.has(hosts[row])) first.set(hosts[row], row);
    rows.sort((a, b) => first.get(hosts[a]) - first.get(hosts[b]) || a - b);
  }
  const values = layer.values.filter((value) => value !== null).sort((a, b) => a - b);
  const largest = values[values.length - 1] ?? 0;
  const common = values[Math.floor((values.length - 1) * 0.98)] ?? 0;
  // One far value would leave all others in one colour.
  const high = common > 0 && largest > FAR * common ? common : largest;
  return { rows, columns, low: Math.min(values[0] ?? 0, high), high, largest };
}

/** @param {Layer} layer @param {number} row */
function meanOf(layer, row) {
  const known = layer.values.slice(row * layer.columns, (row + 1) * layer.columns)
    .filter((value) => value !== null);
  return known.reduce((sum, value) => sum + value, 0) / Math.max(known.length, 1);
}

/**
 * The layer that a claim is about, empty for none.
 * @param {Matrix} matrix
 * @param {Claim | null} claim
 */
export function layerOf({ layers }, claim) {
  return (claim && layers.find(({ title }) => isNamed(claim, title))?.title) ?? "";
}

/**
 * The cells that a claim rests on, as they are drawn: its cause's, or else its rank's.
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {Shown} shown
 * @param {Claim | null} claim
 * @returns {[number, number][]}
 */
export function markedCells(matrix, layer, { rows, columns }, claim) {
  if (!claim) return [];
  const all = rows.flatMap((_, row) => columns.map((__, column) => (
    /** @type {[number, number]} */ ([row, column]))));
  const where = (/** @type {(row: number, column: number) => boolean} */ holds) => (
    all.filter(([row, column]) => holds(rows[row], columns[column])));
  const named = where((_, column) => isNamed(claim, String(matrix.columns.names[column])));
  if (named.length) return named;
  const rank = rankOf(claim);
  const [above, beside] = [matrix.columns, matrix.rows].map(({ of }) => of.endsWith("rank"));
  if (above) return where((_, column) => matrix.columns.names[column] === rank);
  const ofRank = beside ? where((row) => matrix.rows.names[row] === rank) : [];
  return ofRank.length || !isNamed(claim, layer.title) ? ofRank : all;
}

/** @param {Layer} layer @param {number} row @param {number} column */
export function valueAt(layer, row, column) {
  return layer.values[row * layer.columns + column] ?? null;
}

/**
 * Where a value lies between the ends of the scale, 0 to 1.
 * @param {Shown} shown
 * @param {number} value
 */
export function shareOf({ low, high }, value) {
  return high > low ? Math.min(Math.max((value - low) / (high - low), 0), 1) : 0.5;
}

/**
 * What a cell is, such as a run; empty where its row and column say it.
 * @param {Matrix} matrix
 * @param {number} row
 * @param {number} column
 */
export function nameOfCell(matrix, row, column) {
  return matrix.names?.[row * matrix.columns.names.length + column] ?? "";
}

/** @param {Side} side @param {number} at */
export function nameOf(side, at) {
  const name = side.names[at];
  const last = side.last?.[at];
  const range = last === undefined || last === name ? String(name) : `${name} to ${last}`;
  return side.of ? `${side.of} ${range}` : range;
}

/**
 * What a cell is, line by line.
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {Shown} shown
 * @param {number} row
 * @param {number} column
 */
export function wordsOf(matrix, layer, shown, row, column) {
  const host = matrix.rows.hosts?.[row];
  const where = `${nameOf(matrix.rows, row)}, ${nameOf(matrix.columns, column)}`;
  const value = exact(valueAt(layer, row, column), layer.unit);
  const words = [host ? `${where}, on ${host}` : where, `${layer.title}: ${value}`];
  if (shown.rows.length > 1) {
    const middle = human(medianOf(layer, shown.rows, column), layer.unit);
    words.push(`Median of the ${shown.rows.length} rows: ${middle}`);
  }
  return words;
}

/** @param {Layer} layer @param {number[]} rows @param {number} column */
export function medianOf(layer, rows, column) {
  const values = rows.map((row) => valueAt(layer, row, column)).filter((value) => value !== null);
  values.sort((a, b) => a - b);
  const middle = values.length >> 1;
  if (!values.length) return null;
  return values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/**
 * The number in a cell, in the unit of the legend.
 * @param {Layer} layer
 * @param {Shown} shown
 */
export function cellTexts(layer, shown) {
  const { factor, name } = scaleFor(layer.unit, shown.largest);
  const digits = shown.largest * factor >= 100 ? 0 : shown.largest * factor >= 10 ? 1 : 2;
  return { unit: name, text: (/** @type {number} */ value) => (value * factor).toFixed(digits) };
}

/**
 * The layer as a table, in the order that is shown.
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {Shown} shown
 * @param {string} title
 * @returns {Table}
 */
export function tableOf(matrix, layer, shown, title) {
  const { hosts } = matrix.rows;
  const capital = (/** @type {string} */ text) => text.charAt(0).toUpperCase() + text.slice(1);
  const heads = [{ label: capital(matrix.rows.of || "row"), unit: "" }];
  if (hosts) heads.push({ label: "Host", unit: "" });
  return madeTable(`${title}: ${layer.title}`,
    [...heads, ...shown.columns.map((column) => (
      { label: matrix.columns.of ? capital(nameOf(matrix.columns, column))
        : nameOf(matrix.columns, column), unit: layer.unit }))],
    shown.rows.map((row) => [matrix.rows.names[row], ...(hosts ? [hosts[row]] : []),
      ...shown.columns.map((column) => valueAt(layer, row, column))]));
}
