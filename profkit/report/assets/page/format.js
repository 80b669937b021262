// Raw values and units to what people read. The only place where numbers become text.

/**
 * @typedef {[number, string, number?][]} Ladder steps of a unit: size, name, and where it begins if
 * that is further up: steps are given in ms, also those of some seconds
 */

/** @type {Ladder} */
const WALL = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
/** @type {Ladder} */
const TIME = [...WALL.slice(0, 3), [1e9, "s", 1e10]];
/** @type {Ladder} */
const SIZE = [[1, "B"], [2 ** 10, "KiB"], [2 ** 20, "MiB"], [2 ** 30, "GiB"], [2 ** 40, "TiB"]];
/** @type {Ladder} */
const OPERATIONS = [[1, "FLOP"], [1e3, "kFLOP"], [1e6, "MFLOP"], [1e9, "GFLOP"], [1e12, "TFLOP"],
  [1e15, "PFLOP"]];
/** @type {Ladder} */
const FREQUENCY = [[1, "Hz"], [1e3, "kHz"], [1e6, "MHz"], [1e9, "GHz"]];
// Bandwidths and rates have powers of ten, as data sheets and the tests of NCCL state them.
/** @type {Ladder} */
const BANDWIDTH = [[1, "B/s"], [1e3, "kB/s"], [1e6, "MB/s"], [1e9, "GB/s"], [1e12, "TB/s"]];
/** @type {Ladder} */
const RATE = OPERATIONS.map(([size, name]) => [size, `${name}/s`]);
/** Unit of a column: what one of it is on its ladder. @type {Record<string, [Ladder, number]>} */
const LADDERS = {
  ns: [TIME, 1], us: [TIME, 1e3], ms: [TIME, 1e6], s: [WALL, 1e9],
  bytes: [SIZE, 1], flops: [OPERATIONS, 1], flop: [OPERATIONS, 1],
  hz: [FREQUENCY, 1], mhz: [FREQUENCY, 1e6],
  bytes_per_s: [BANDWIDTH, 1], flops_per_s: [RATE, 1], flop_per_s: [RATE, 1],
};
/** @type {Record<string, string>} */
const SUFFIXES = {
  share: "%", fraction: "%", percent: "%", ratio: "×", w: " W", j: " J", count: "", id: "", "": "",
};
/** Names of what is drawn without a colour of its own. */
export const MUTED = /^(idle|unknown|not known)\b/i;
export const NOT_KNOWN = "not known";

/**
 * The step of the ladder that suits numbers as large as `largest`.
 * @param {string} unit
 * @param {number} largest
 */
export function scaleFor(unit, largest) {
  if (unit === "share" || unit === "fraction") return { factor: 100, name: "%" };
  if (!(unit in LADDERS)) return { factor: 1, name: unitName(unit) };
  const [ladder, one] = LADDERS[unit];
  const size = Math.abs(largest) * one;
  let step = ladder[0];
  for (const next of ladder) if (size >= (next[2] ?? next[0])) step = next;
  return { factor: one / step[0], name: step[1] };
}

/** @param {string} unit */
function unitName(unit) {
  if (unit in SUFFIXES) return SUFFIXES[unit].trim();
  return unit.replace(/(^|_)per_/, "/").replaceAll("_", " ");
}

/**
 * Three digits that mean something, and as many decimals as its neighbours of the same size.
 * @param {number} value
 */
export function decimals(value) {
  const size = Math.abs(value);
  if (size > 0 && size < 0.0005) return value.toExponential(1);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return grouped(value, Number.isInteger(value) ? 0 : digits);
}

/** @param {number} value */
function scaledText(value) {
  const size = Math.abs(value);
  return grouped(value, size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2);
}

// Making a format takes 50 times as long as using it, and a table may have 50,000 numbers.
const FORMATS = [0, 1, 2, 3].map((digits) => new Intl.NumberFormat("en-US", {
  minimumFractionDigits: digits, maximumFractionDigits: digits,
}));
const RECORDED = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 17 });

/** @param {number} value @param {number} digits */
function grouped(value, digits) {
  return FORMATS[digits].format(value);
}

/**
 * Human text of one value; text and identifiers stay as they are.
 * @param {string | number | null | undefined} value
 * @param {string} unit
 */
export function human(value, unit) {
  if (value === null || value === undefined) return NOT_KNOWN;
  if (typeof value !== "number") return String(value);
  if (unit === "id") return String(value);
  if (unit === "share" || unit === "fraction") return percent(value * 100);
  if (unit === "percent") return percent(value);
  const { factor, name } = scaleFor(unit, value);
  const glue = /^(|×|\/.*)$/.test(name) ? "" : " ";
  // Bytes and nanoseconds themselves are whole; what was scaled keeps its decimals.
  const text = factor === 1 && unit !== "ratio" ? decimals(value) : scaledText(value * factor);
  return text + glue + name;
}

/** @param {number} value */
export function percent(value) {
  if (value !== 0 && Math.abs(value) < 0.01) return "<0.01%";
  return `${grouped(value, value !== 0 && Math.abs(value) < 1 ? 2 : 1)}%`;
}

/**
 * The value as it was recorded, for tooltips.
 * @param {string | number | null | undefined} value
 * @param {string} unit
 */
export function raw(value, unit) {
  if (value === null || value === undefined) return NOT_KNOWN;
  if (typeof value !== "number" || unit === "id" || unit === "") return String(value);
  return `${value} ${unit.replace(/(^|_)per_/, "/")}`;
}

/**
 * Human text of a value, with the recorded one where that says more.
 * @param {string | number | null | undefined} value
 * @param {string} unit
 */
export function exact(value, unit) {
  const text = human(value, unit);
  if (typeof value !== "number") return text;
  const own = RECORDED.format(value);
  const isWhole = text === own || text.startsWith(`${own} `);
  const name = unit.replace(/(^|_)per_/, "/");
  return isWhole || unit === "id" || unit === "share" ? text
    : `${text} (${`${own} ${name}`.trim()})`;
}

/**
 * A long text without the folders of its source files: file and line are what one looks for.
 * @param {string} text
 * @param {number} length
 */
export function withoutFolders(text, length) {
  return text.length <= length ? text : text.replace(/[^\s(;]*[\\/](?=[^\\/\s;()]+:\d)/g, "");
}

/** What a kernel of C++ has around its name. */
const SPARE = new RegExp(String.raw`^void |(?:\b(?:at|native|c10|cub)|\(anonymous namespace\))::`
  + String.raw`|(?<=[>\w])\((?:[^()]|\([^()]*\))*\)$`, "g");

/**
 * Keep both ends of a long name: kernels differ at the end as often as at the start.
 * @param {string} text
 * @param {number} length
 */
export function shortened(text, length) {
  const whole = withoutFolders(text.replace(/\s+/g, " "), length);
  const line = whole.length <= length ? whole : whole.replace(SPARE, "");
  if (line.length <= length) return line;
  const head = Math.ceil((length - 1) * 0.6);
  return `${line.slice(0, head)}…${line.slice(line.length - (length - 1 - head))}`;
}
