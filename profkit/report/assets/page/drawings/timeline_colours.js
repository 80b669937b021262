// Colours of slices: by cause, phase or name; never the only thing that tells them apart.

/** @typedef {import("./timeline_data.js").Lane} Lane */
/**
 * @typedef {object} Palette
 * @property {string[]} fills tints that text can be read on; the last one is muted
 * @property {string[]} inks the same colours in full, for lines
 * @property {string} text
 * @property {string} faint
 * @property {string} line
 * @property {string} grid
 * @property {string} ground
 * @property {string} band
 * @property {string} accent
 * @property {string} accentSoft
 * @property {string} mono
 */

const MUTED = 8;
/** Causes and phases keep their colours in every step. @type {[RegExp, number][]} */
const FIXED = [
  [/computing|operators on the cpu/i, 0],
  [/waiting for other ranks/i, 1], [/transfer|communication/i, 5],
  [/loading|^data$/i, 3], [/^python/i, 4], [/blocked/i, 6], [/copies|copy|HtoD|DtoH/, 2],
  [/^forward$/, 0], [/^backward$/, 2], [/^optimizer$/, 4], [/not recorded/i, MUTED],
];

/** @param {string} text */
function hashed(text) {
  let number = 7;
  for (let i = 0; i < text.length; i += 1) number = (number * 31 + text.charCodeAt(i)) | 0;
  return Math.abs(number);
}

/** @type {WeakMap<Lane, Uint8Array>} */
const known = new WeakMap();

/**
 * The colour of each name of a lane, as a position in the palette.
 * @param {Lane} lane
 * @returns {Uint8Array}
 */
export function tintsOf(lane) {
  const found = known.get(lane) ?? Uint8Array.from(lane.names, (name) => tintOf(lane.kind, name));
  known.set(lane, found);
  return found;
}

/** @param {string} kind @param {string} name */
export function tintOf(kind, name) {
  if (kind === "steps") return MUTED;
  if (kind === "causes" || kind === "phases") {
    return FIXED.find(([pattern]) => pattern.test(name))?.[1] ?? hashed(name) % MUTED;
  }
  if (kind === "collectives") return 1;
  if (kind === "gpu" && /nccl|rccl|msccl/i.test(name)) return 1;
  if (kind === "gpu" && /^mem(cpy|set)/i.test(name)) return 4;
  if (kind === "cpu" && /^(cuda|hip|cu)[A-Z]/.test(name)) return 6;
  if (/^(ProfilerStep|step)#/.test(name)) return MUTED;
  return [0, 2, 3, 5, 7][hashed(name) % 5];
}

/** @param {string} colour `#rrggbb` */
function parts(colour) {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

/** @param {string} colour @param {string} ground @param {number} share of the colour */
export function mixed(colour, ground, share) {
  const below = parts(ground);
  const made = parts(colour).map((part, i) => Math.round(part * share + below[i] * (1 - share)));
  return `rgb(${made.join(" ")})`;
}

/** @param {Element} place @returns {Palette} */
export function paletteOf(place) {
  const style = getComputedStyle(place);
  const value = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const ground = value("--raised");
  const series = [...value("--series").split(/\s+/).slice(0, MUTED), value("--series-muted")];
  return {
    fills: series.map((colour) => mixed(colour, ground, 0.5)), inks: series,
    text: value("--text"), faint: value("--faint"), line: value("--line-strong"),
    grid: value("--grid"), ground, band: value("--sunken"), accent: value("--accent"),
    accentSoft: value("--accent-soft"), mono: value("--mono"),
  };
}
