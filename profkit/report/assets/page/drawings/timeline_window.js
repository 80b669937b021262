// The part of the time that is seen: zooming, panning, and round times for the axis.

import { scaleFor } from "../format.js";

/** @typedef {{from: number, to: number}} Span in ns */

const LEAST_NS = 20;
const STEPS = [1, 2, 5];

/**
 * A span inside the whole, as long as asked for where that is possible.
 * @param {Span} wanted
 * @param {number} length of the whole, in ns
 * @returns {Span}
 */
export function clamped({ from, to }, length) {
  const size = Math.min(Math.max(to - from, LEAST_NS), Math.max(length, LEAST_NS));
  const middle = (from + to) / 2;
  const begin = to - from < LEAST_NS ? middle - size / 2 : from;
  const start = Math.min(Math.max(begin, 0), Math.max(length - size, 0));
  return { from: start, to: start + size };
}

/**
 * Closer or farther, with the time under the pointer where it is.
 * @param {Span} seen
 * @param {number} factor below 1 for closer
 * @param {number} at in ns
 * @param {number} length
 */
export function zoomed({ from, to }, factor, at, length) {
  return clamped({ from: at - (at - from) * factor, to: at + (to - at) * factor }, length);
}

/** @param {Span} seen @param {number} by in ns @param {number} length */
export function panned({ from, to }, by, length) {
  return clamped({ from: from + by, to: to + by }, length);
}

/** @param {Span} chosen @param {number} length of the whole */
export function fitted({ from, to }, length) {
  const room = Math.max((to - from) * 0.08, 10);
  return clamped({ from: from - room, to: to + room }, length);
}

/** @param {number} rough in ns @returns {number} the next round number */
function stepOf(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  return power * (STEPS.find((one) => one * power >= rough) ?? 10);
}

/**
 * Texts of the round times in a span: all in one unit, with the decimals that tell them apart.
 * @param {Span} seen
 * @param {number} count
 * @returns {[number, string][]}
 */
export function marksOf(seen, count) {
  const step = stepOf((seen.to - seen.from) / Math.max(count, 1));
  const { factor, name } = scaleFor("ns", seen.to);
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(step * factor) - 1e-9), 0), 9);
  const text = (/** @type {number} */ time) => `${(time * factor).toFixed(digits)} ${name}`;
  return roundTimes(seen, count).map((time) => [time, text(time)]);
}

/**
 * Round times in the span, about `count` of them.
 * @param {Span} seen
 * @param {number} count
 * @returns {number[]}
 */
export function roundTimes({ from, to }, count) {
  const step = stepOf((to - from) / Math.max(count, 1));
  const first = Math.ceil(from / step);
  const last = Math.floor(to / step);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => (first + i) * step);
}

/** @param {string} from @param {string} to as the hash has them @param {number} length @returns {Span} */
export function spanOf(from, to, length) {
  const [start, end] = [Number(from), Number(to)];
  const isSpan = from !== "" && to !== "" && end > start;
  return clamped(isSpan ? { from: start, to: end } : { from: 0, to: length }, length);
}
