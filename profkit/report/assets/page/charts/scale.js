// Axes: from values to places, and the round numbers in between.

/** @typedef {(value: number) => number} Scale */

const MOST_TICKS = 50;

/**
 * Round numbers from `low` to `high`, about `count` of them.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 * @returns {number[]}
 */
export function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((multiple) => multiple * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9) * step;
  const made = [];
  const between = Math.min(MOST_TICKS, Math.floor((high - first) / step + 1e-9));
  for (let index = 0; index <= between; index += 1) {
    made.push(Number((first + index * step).toPrecision(12)));
  }
  return made;
}

/**
 * Powers of ten from `low` to `high`, and 2 and 5 times them where there are few.
 * @param {number} low positive
 * @param {number} high
 * @returns {number[]}
 */
export function multiples(low, high) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const between = last - first <= 3 ? [1, 2, 5] : [1];
  const made = [];
  for (let power = first; power <= last; power += 1) {
    for (const multiple of between) made.push(Number((multiple * 10 ** power).toPrecision(12)));
  }
  return made.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
}

/**
 * Even steps for even differences, or for even multiples.
 * @param {[number, number]} domain
 * @param {[number, number]} range
 * @param {boolean} isLog
 * @returns {Scale}
 */
export function scaleOf(domain, range, isLog) {
  const place = isLog ? Math.log10 : (/** @type {number} */ value) => value;
  const [low, high] = [place(domain[0]), place(domain[1])];
  const share = high > low ? (range[1] - range[0]) / (high - low) : 0;
  return (value) => range[0] + (place(value) - low) * share;
}

/**
 * From zero where nothing is below, with a little room above; the data's own end on log axes.
 * @param {number[]} values
 * @param {boolean} isLog
 * @param {boolean} fromZero
 * @returns {[number, number]}
 */
export function domainOf(values, isLog, fromZero) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return isLog ? [1, 10] : [0, 1];
  if (isLog) return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
  if (fromZero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  if (low === high) return low === 0 ? [0, 1] : [Math.min(low, 0), Math.max(high, 0)];
  const room = (high - low) * 0.05;
  return [low < 0 || !fromZero ? low - room : low, high > 0 || !fromZero ? high + room : high];
}
