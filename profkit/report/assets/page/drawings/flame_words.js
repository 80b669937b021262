// What is said of a frame: its numbers and shares, how two runs differ in it, and the table of all.

import { exact, human, percent } from "../format.js";
import { madeTable } from "../model.js";
import { byName, titleOf } from "./flame_tree.js";

/** @typedef {import("./flame_tree.js").Frame} Frame */
/** @typedef {import("../model.js").Table} Table */
/**
 * @typedef {object} Difference of two runs
 * @property {number} before column
 * @property {number} after column
 * @property {number[]} pairs columns with how much more the second run has, one for each pair
 * @property {number} factor from the spread of the pairs to half the interval of their mean
 * @property {string[]} names of the runs
 */
/** @typedef {{mean: number, low: number | null, high: number | null, isNoise: boolean}} Change */
/**
 * @typedef {object} Measured what the numbers of frames are
 * @property {string} unit
 * @property {number} column
 * @property {string} title
 * @property {Difference | null} difference
 */

/**
 * How much more the second run has in a frame, and whether the pairs tell it from nothing.
 * @param {number[]} sums
 * @param {Difference} difference
 * @returns {Change}
 */
export function changeOf(sums, { before, after, pairs, factor }) {
  const mean = sums[after] - sums[before];
  if (pairs.length < 2) return { mean, low: null, high: null, isNoise: mean === 0 };
  const values = pairs.map((column) => sums[column]);
  const middle = values.reduce((all, value) => all + value, 0) / values.length;
  const spread = Math.sqrt(values.reduce((all, value) => all + (value - middle) ** 2, 0)
    / (values.length - 1));
  const [low, high] = [middle - factor * spread, middle + factor * spread];
  return { mean, low, high, isNoise: low <= 0 && high >= 0 };
}

/** Whether a frame is on one side alone. @param {number[]} sums @param {Difference} difference */
export function endedOf(sums, { before, after }) {
  if (!sums[before] === !sums[after]) return "";
  return sums[before] ? "gone " : "new ";
}

/** @param {number} value @param {string} unit */
export function signed(value, unit) {
  return `${value < 0 ? "\u2212" : "+"}${human(Math.abs(value), unit)}`;
}

/**
 * @param {Frame} frame
 * @param {Frame} root
 * @param {Frame} focus what is zoomed into
 * @param {Measured} measured
 * @returns {string[]} the name first
 */
export function wordsOf(frame, root, focus, { unit, column, difference }) {
  const [all, zoomed] = [root, focus].map(({ sums }) => sums[column] || 1);
  const value = frame.sums[column];
  const isPart = zoomed !== all && frame !== focus;
  const ofZoom = isPart ? `, ${percent(100 * value / zoomed)} of the zoom` : "";
  const size = `${exact(value, unit)}: ${percent(100 * value / all)} of all${ofZoom}`;
  const kind = frame.parent ? [titleOf(frame.kind)] : [];
  if (difference) return [frame.name, ...kind, size, ...changeWords(frame, unit, difference)];
  return [frame.name, ...kind, size, `${human(frame.own[column], unit)} by itself`];
}

/** @param {Frame} frame @param {string} unit @param {Difference} difference */
function changeWords({ sums }, unit, difference) {
  const { mean, low, high, isNoise } = changeOf(sums, difference);
  const [before, after] = difference.names;
  const interval = low === null || high === null ? "no interval: too few pairs of repeats"
    : `95% interval ${signed(low, unit)} to ${signed(high, unit)}`
      + (isNoise ? ": not told from chance" : "");
  return [`${human(sums[difference.before], unit)} in ${before}, `
    + `${human(sums[difference.after], unit)} in ${after}`,
  `${endedOf(sums, difference)}${signed(mean, unit)}, ${interval}`];
}

/**
 * Every frame below the focus, all its places together, the largest first.
 * @param {Frame} focus
 * @param {number} all what shares are of
 * @param {string} title
 * @param {Measured} measured
 * @returns {Table}
 */
export function tableOf(focus, all, title, { unit, column, difference }) {
  const rows = byName(focus).sort((a, b) => b.sums[column] - a.sums[column]);
  const numbers = difference
    ? [...difference.names.map((name) => ({ label: `In ${name}`, unit })),
      ...["Difference", "From", "To"].map((label) => ({ label, unit }))]
    : [{ label: "By itself", unit }, { label: "With what it calls", unit },
      { label: "Of all", unit: "share" }];
  return madeTable(title, [{ label: "Frame", unit: "" }, { label: "Kind", unit: "" }, ...numbers],
    rows.map(({ name, kind, own, sums }) => {
      const values = [own[column], sums[column], sums[column] / (all || 1)];
      if (!difference) return [name, titleOf(kind), ...values];
      const { mean, low, high } = changeOf(sums, difference);
      return [name, titleOf(kind), sums[difference.before], sums[difference.after], mean, low,
        high];
    }), difference ? [] : [2]);
}
