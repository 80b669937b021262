// What two runs differ in: what was set otherwise, then each number.

/** @typedef {import("../model.js").Value} Value */
/**
 * @typedef {object} PairRow
 * @property {string} label
 * @property {string} unit
 * @property {Value} before
 * @property {Value} after
 * @property {number | null} difference null where it is not one of numbers
 * @property {number | null} factor
 */

/**
 * @param {import("../model.js").Table} every one row for each run: its name, what was set, numbers
 * @param {number} a
 * @param {number} b
 * @returns {PairRow[]}
 */
export function rowsOf({ columns, rows }, a, b) {
  return columns.slice(1, -1).flatMap(({ label, unit }, index) => {
    const [before, after] = [rows[a][index + 1], rows[b][index + 1]];
    if (unit === "id" ? before === after : before === null && after === null) return [];
    const areNumbers = unit !== "id" && typeof before === "number" && typeof after === "number";
    return [{ label, unit, before, after, difference: areNumbers ? after - before : null,
      factor: areNumbers && before ? after / before : null }];
  });
}
