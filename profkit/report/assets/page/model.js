// What the page embeds, as `profkit.report.view` writes it.

/** @typedef {string | number | null} Value a cell; null is not known */
/** @typedef {{label: string, unit: string}} Column */
/** @typedef {Value[]} Row */
/**
 * @typedef {object} Table
 * @property {string} title
 * @property {Column[]} columns
 * @property {Row[]} rows
 * @property {number} total rows of the result; more than `rows` if some were cut
 * @property {string[]} links where the first cell of each row leads to; empty for nowhere
 * @property {[number, number][]} best cells to mark as the best of their column
 * @property {Record<string, string>} reasons why a cell is not known, by "row,column"
 */
/**
 * @typedef {object} Chart a drawing of columns of a table; numbers are positions
 * @property {string} title
 * @property {string} kind
 * @property {number} table
 * @property {number} x
 * @property {number[]} y
 * @property {number} color column whose values are the series; -1 for one a column of `y`
 * @property {boolean} horizontal
 * @property {string[]} log axes with even steps for multiples
 * @property {string[]} lines series of a scatter that are drawn as lines
 * @property {number} choose column of which the reader chooses one value; -1 for all rows
 * @property {string} note
 */
/** @typedef {{tables: Table[], charts: Chart[]}} Drawn */

/** @type {Map<string, Drawn>} */
const parsed = new Map();

/**
 * The tables and charts of one source, parsed when the first of them comes into view.
 * @param {string} name
 * @returns {Drawn}
 */
export function drawnOf(name) {
  const known = parsed.get(name);
  if (known) return known;
  const text = document.getElementById(`data-${name}`)?.textContent;
  if (!text) throw new Error(`this page holds no data of ${name}`);
  /** @type {Drawn} */
  const made = JSON.parse(text);
  parsed.set(name, made);
  return made;
}
