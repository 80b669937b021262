// A flame graph as SVG: where each frame lies, and how it looks.

import { shape } from "../elements.js";
import { human, withoutFolders } from "../format.js";
import { pathTo, titleOf } from "./flame_tree.js";
import { changeOf, endedOf, signed } from "./flame_words.js";
import { mixed } from "./timeline_colours.js";

/** @typedef {import("./flame_tree.js").Frame} Frame */
/** @typedef {import("./timeline_colours.js").Palette} Palette */
/** @typedef {{frame: Frame, left: number, wide: number, row: number}} Box shares of the width */
/** @typedef {import("./flame_words.js").Difference} Difference */
/**
 * @typedef {object} Look
 * @property {Palette} palette
 * @property {string} font
 * @property {number} width in pixels
 * @property {string} unit
 * @property {number} column
 * @property {string} title of the column
 * @property {Difference | null} difference
 * @property {string} find what is looked for
 */

const ROW = 19;
const NARROWEST = 1;
const ROOM = 4;
const TEXT = 22;
const DEEPEST = 0.2;
const KINDS = ["module", "operator", "kernel", "range", "program"];
const MUTED = 8;
const OF_LIBRARIES = 6;

/**
 * The focus, those around it in full width, and what it calls, each as wide as its share.
 * @param {Frame} focus
 * @param {number} column
 * @param {boolean} inTime in the order of the first call, else the largest first
 * @param {number} least share of the width below which frames are left out
 * @returns {Box[]}
 */
export function boxesOf(focus, column, inTime, least) {
  const path = pathTo(focus);
  /** @type {Box[]} */
  const boxes = path.map((frame, row) => ({ frame, left: 0, wide: 1, row }));
  const pending = boxes.slice(-1);
  const whole = focus.sums[column] || 1;
  for (let box = pending.pop(); box; box = pending.pop()) {
    let { left } = box;
    const children = [...box.frame.children.values()];
    if (!inTime) children.sort((a, b) => b.sums[column] - a.sums[column]);
    for (const frame of children) {
      const wide = frame.sums[column] / whole;
      const made = { frame, left, wide, row: box.row + 1 };
      left += wide;
      if (wide < least) continue;
      boxes.push(made);
      pending.push(made);
    }
  }
  return boxes;
}

/**
 * A function between those that call it, above, and what it calls, below.
 * @param {{callers: Frame, callees: Frame}} trees
 * @param {number} column
 * @param {number} least
 * @returns {Box[]}
 */
export function sandwichOf({ callers, callees }, column, least) {
  const up = boxesOf(callers, column, false, least).slice(1);
  const down = boxesOf(callees, column, false, least).slice(1);
  const height = Math.max(0, ...up.map(({ row }) => row));
  return [...up.filter(({ row }) => row > 1).map((box) => ({ ...box, row: height - box.row })),
    ...down.map((box) => ({ ...box, row: height - 2 + box.row }))];
}

/** @param {Frame} frame @param {Look} look @param {number} whole */
function fillOf(frame, { palette, difference }, whole) {
  if (difference) {
    const { mean, isNoise } = changeOf(frame.sums, difference);
    if (isNoise) return palette.fills[MUTED];
    const share = Math.min(1, Math.abs(mean) / (DEEPEST * whole));
    return mixed(palette.inks[mean > 0 ? 1 : 0], palette.ground, 0.15 + 0.45 * share);
  }
  const kind = KINDS.indexOf(frame.kind);
  if (kind >= 0) return palette.fills[kind];
  return palette.fills[frame.kind.startsWith("library") ? OF_LIBRARIES : MUTED];
}

/**
 * What stands in a frame: its name, and the difference, so that colours are not needed.
 * @param {Frame} frame
 * @param {Look} look
 */
function textOf(frame, { unit, difference, column, title }) {
  const name = frame.parent ? frame.name : `${title}: ${human(frame.sums[column], unit)}`;
  if (!difference) return name;
  const { mean, isNoise } = changeOf(frame.sums, difference);
  const change = `${endedOf(frame.sums, difference)}${signed(mean, unit)}`;
  return `${isNoise ? "=" : change} ${name}`;
}

/** @type {CanvasRenderingContext2D | null} */
let pen = null;

/**
 * As much of a text as fits.
 * @param {string} text
 * @param {number} room in pixels
 * @param {string} font with its size
 */
function fitting(text, room, font) {
  if (room < TEXT) return "";
  pen ??= document.createElement("canvas").getContext("2d");
  if (!pen) return "";
  pen.font = font;
  const full = text.slice(0, 400);
  if (pen.measureText(full).width <= room) return full;
  const short = withoutFolders(full, 0);
  const wide = pen.measureText(short).width;
  if (wide <= room) return short;
  const count = Math.floor(short.length * (room - 14) / wide);
  return count > 1 ? `${short.slice(0, count)}…` : "";
}

/**
 * @param {Box[]} boxes
 * @param {Look} look
 * @returns {SVGSVGElement}
 */
export function plotOf(boxes, look) {
  const { width, palette, font, find } = look;
  const height = ROW * (1 + Math.max(0, ...boxes.map(({ row }) => row))) + 2 * ROOM;
  const svg = shape("svg", { class: "flame-graph", width, height,
    viewBox: `0 0 ${width} ${height}`, "font-family": font, "font-size": 12, fill: palette.text });
  const whole = boxes.reduce((most, { frame }) => Math.max(most, frame.sums[look.column]), 1);
  const wanted = find.toLowerCase();
  for (const box of boxes) {
    const { x, y, wide } = placeOf(box, width);
    const isFound = wanted !== "" && box.frame.name.toLowerCase().includes(wanted);
    const group = shape("g", wanted && !isFound ? { opacity: 0.55 } : {}, shape("rect", { x, y,
      width: Math.max(wide - 1, 0.6), height: ROW - 1, rx: 2, fill: fillOf(box.frame, look, whole),
      ...(isFound ? { stroke: palette.text, "stroke-width": 1.4 } : {}) }));
    const text = fitting(textOf(box.frame, look), wide - 8, `${isFound ? 600 : 400} 12px ${font}`);
    if (text) {
      group.append(shape("text", { x: x + 4, y: y + 13, "pointer-events": "none",
        ...(isFound ? { "font-weight": 600 } : {}) }, text));
    }
    svg.append(group);
  }
  return svg;
}

/** @param {Box} box @param {number} width */
export function placeOf({ left, wide, row }, width) {
  return { x: left * width, y: ROOM + row * ROW, wide: wide * width, high: ROW - 1 };
}

/** @param {Box[]} boxes @param {number} x @param {number} y @param {number} width */
export function boxAt(boxes, x, y, width) {
  const row = Math.floor((y - ROOM) / ROW);
  return boxes.find((box) => box.row === row && x >= box.left * width
    && x < Math.max((box.left + box.wide) * width, box.left * width + NARROWEST)) ?? null;
}

/**
 * The box beside another one: up to the caller, down to the widest callee, left and right in the row.
 * @param {Box[]} boxes
 * @param {Box} from
 * @param {string} key of the arrow
 */
export function nextBox(boxes, from, key) {
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const beside = boxes.filter(({ row }) => row === from.row).sort((a, b) => a.left - b.left);
    return beside[beside.indexOf(from) + (key === "ArrowLeft" ? -1 : 1)] ?? from;
  }
  const row = from.row + (key === "ArrowUp" ? -1 : 1);
  const near = boxes.filter((box) => box.row === row && box.left < from.left + from.wide + 1e-9
    && box.left + box.wide > from.left - 1e-9);
  return near.sort((a, b) => b.wide - a.wide)[0] ?? from;
}

/** Colours and what they stand for. @param {Box[]} boxes @param {Look} look @returns {[string, string][]} */
export function legendOf(boxes, look) {
  const { palette, difference } = look;
  if (difference) {
    const after = difference.names[1];
    const [less, more] = [0, 1].map((ink) => mixed(palette.inks[ink], palette.ground, 0.5));
    return [[more, `more in ${after} (+)`], [less, `less in ${after} (\u2212)`],
      [palette.fills[MUTED], "the same, or not told from chance (=)"]];
  }
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const { frame } of boxes) {
    const title = frame.kind.startsWith("library") ? "library" : titleOf(frame.kind);
    if (frame.parent && !found.has(title)) found.set(title, fillOf(frame, look, 1));
  }
  return [...found].map(([title, fill]) => [fill, title]);
}
