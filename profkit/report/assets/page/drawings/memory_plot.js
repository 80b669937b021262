// Memory over time as a drawing: bands of stacks, what is reserved, the peak, and what did not fit.

import { scaleOf, ticks } from "../charts/scale.js";
import { shape } from "../elements.js";
import { decimals, human, scaleFor, shortened } from "../format.js";
import { tops } from "./memory_bands.js";

/** @typedef {import("./memory_bands.js").Track} Track */
/** @typedef {import("./memory_bands.js").Axis} Axis */
/** @typedef {{colors: string[], text: string, faint: string, grid: string, line: string, raised: string, bad: string, font: string, width: number}} Look */
/** @typedef {{left: number, right: number, top: number, bottom: number}} Frame */
/**
 * @typedef {object} Plot
 * @property {SVGSVGElement} svg
 * @property {Frame} frame
 * @property {(at: number) => number} across place of a value on the axis, in pixels
 * @property {(bytes: number) => number} up
 * @property {(x: number) => number} valueAt what is at a place of the axis
 * @property {(y: number) => number} bytesAt
 * @property {number[][]} upper
 * @property {(band: number) => string} pathOf
 */

const HEIGHT = 380;
const LETTER = 7;
const BOLD = 8.5;

/**
 * @param {Track} track
 * @param {Axis} axis
 * @param {[number, number] | null} window part of the axis, or null for all of it
 * @param {Look} look
 * @param {number[]} lit bands that stand out; none for all alike
 * @returns {Plot}
 */
export function plotOf(track, axis, window, look, lit) {
  const upper = tops(track);
  const legendRows = Math.ceil(track.origins.length * 150 / Math.max(look.width - 70, 150));
  const frame = { left: 64, right: look.width - 12, top: 26 + legendRows * 18,
    bottom: HEIGHT - 40 + legendRows * 18 };
  const height = frame.bottom + 40;
  const most = Math.max(...track.reserved_bytes, ...(upper[upper.length - 1] ?? [0]),
    track.closed_form_bytes, ...track.out_of_memory.map(({ allocated_bytes: held }) => held), 1);
  const domain = window ?? [axis.at[0], Math.max(axis.at[axis.at.length - 1], axis.at[0] + 1)];
  const across = scaleOf([domain[0], domain[1]], [frame.left, frame.right], false);
  const up = scaleOf([0, most * 1.06], [frame.bottom, frame.top], false);
  const svg = shape("svg", { width: look.width, height, viewBox: `0 0 ${look.width} ${height}`,
    class: "figure", "font-family": look.font, "font-size": 12, fill: look.text });
  const inFrame = shape("g", { "clip-path": "url(#memory-frame)" });
  const pathOf = (/** @type {number} */ band) => steps(axis.at, upper[band], across, up)
    + steps(axis.at, upper[band - 1] ?? axis.at.map(() => 0), across, up, true) + "Z";
  svg.append(shape("defs", {}, shape("clipPath", { id: "memory-frame" }, shape("rect", {
    x: frame.left, y: frame.top, width: Math.max(frame.right - frame.left, 1),
    height: frame.bottom - frame.top }))),
  ...axes(axis, domain, most, { across, up, frame, look }), inFrame,
  ...legend(track, look));
  inFrame.append(...upper.map((_, band) => shape("path", { d: pathOf(band), class: "band",
    opacity: lit.length === 0 || lit.includes(band) ? 1 : 0.25,
    fill: look.colors[track.origin[band] % look.colors.length], stroke: look.raised,
    "stroke-width": 0.35 })));
  if (track.reserved_bytes.length) {
    inFrame.append(shape("path", { d: steps(axis.at, track.reserved_bytes, across, up),
      fill: "none", stroke: look.text, "stroke-width": 1.5 }));
  }
  inFrame.append(...marks(track, axis, { across, up, frame, look }), ...inBands(track, axis, upper,
    { across, up, frame, look }));
  const [low, high] = domain;
  return { svg, frame, across, up, upper, pathOf,
    valueAt: (x) => low + (x - frame.left) / (frame.right - frame.left) * (high - low),
    bytesAt: (y) => (frame.bottom - y) / (frame.bottom - frame.top) * most * 1.06 };
}

/**
 * Levels stay until the next instant.
 * @param {number[]} at
 * @param {number[]} levels
 * @param {(value: number) => number} across
 * @param {(value: number) => number} up
 * @param {boolean} [isBack] from the last to the first, as the lower edge of an area
 */
function steps(at, levels, across, up, isBack = false) {
  const corners = at.flatMap((value, index) => {
    const x = across(value).toFixed(1);
    const y = up(levels[index]).toFixed(1);
    return index ? [`${x} ${up(levels[index - 1]).toFixed(1)}`, `${x} ${y}`] : [`${x} ${y}`];
  });
  return (isBack ? "L" : "M") + (isBack ? corners.reverse() : corners).join("L");
}

/** @typedef {{across: (value: number) => number, up: (value: number) => number, frame: Frame, look: Look}} Room */

/** @param {Axis} axis @param {number[]} domain @param {number} most @param {Room} room */
function axes(axis, domain, most, { across, up, frame, look }) {
  const bytes = scaleFor("bytes", most);
  const made = ticks(0, most * bytes.factor, 6).flatMap((value) => {
    const y = up(value / bytes.factor);
    return [shape("line", { x1: frame.left, x2: frame.right, y1: y, y2: y, stroke: look.grid }),
      shape("text", { x: frame.left - 6, y: y + 4, "text-anchor": "end" }, decimals(value))];
  });
  made.push(shape("text", { x: frame.left - 6, y: frame.top - 8, "text-anchor": "end",
    fill: look.faint }, bytes.name));
  const time = axis.of === "time" ? scaleFor("ns", domain[1]) : { factor: 1, name: "" };
  const count = Math.max(Math.floor((frame.right - frame.left) / 90), 2);
  for (const value of ticks(domain[0] * time.factor, domain[1] * time.factor, count)) {
    const x = across(value / time.factor);
    made.push(shape("line", { x1: x, x2: x, y1: frame.bottom, y2: frame.bottom + 4,
      stroke: look.line }), shape("text", { x, y: frame.bottom + 17, "text-anchor": "middle" },
      decimals(value)));
  }
  made.push(shape("text", { x: frame.right, y: frame.bottom + 34, "text-anchor": "end",
    fill: look.faint }, axis.of === "time" ? `Time (${time.name})` : "Entry of the history"),
  shape("line", { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom,
    stroke: look.line }));
  return made;
}

/** @param {Track} track @param {Look} look */
function legend(track, look) {
  let [x, y] = [64, 14];
  const entry = (/** @type {string} */ text, /** @type {SVGElement} */ sample) => {
    const wide = 26 + text.length * LETTER;
    if (x > 64 && x + wide > look.width) [x, y] = [64, y + 18];
    const made = shape("g", { transform: `translate(${x} ${y})` }, sample,
      shape("text", { x: 18, y: 0 }, text));
    x += wide + 8;
    return made;
  };
  const box = (/** @type {number} */ origin) => shape("rect", { x: 2, y: -10, width: 12,
    height: 12, rx: 2, fill: look.colors[origin % look.colors.length] });
  const names = track.origins.map((name, origin) => entry(name, box(origin)));
  if (track.reserved_bytes.length) {
    names.push(entry("reserved", shape("line", { x1: 1, x2: 15, y1: -4, y2: -4,
      stroke: look.text, "stroke-width": 2 })));
  }
  return names;
}

/** What is marked: steps, the peak, the closed form, requests that failed. @param {Track} track @param {Axis} axis @param {Room} room */
function marks(track, axis, { across, up, frame, look }) {
  const made = [];
  let free = -Infinity;
  track.steps.at.forEach((at, index) => {
    const x = across(axis.at[at]);
    made.push(shape("line", { x1: x, x2: x, y1: frame.top, y2: frame.bottom, stroke: look.faint,
      "stroke-dasharray": "2 4" }));
    const text = `step ${track.steps.step[index]}`;
    if (x < free || x < frame.left) return;
    made.push(shape("text", { x: x + 3, y: frame.top + 11, fill: look.faint }, text));
    free = x + text.length * LETTER + 8;
  });
  const line = (/** @type {number} */ at, /** @type {string} */ text, /** @type {string} */ color,
    /** @type {number} */ y) => {
    const x = across(axis.at[at]);
    const isRight = x > frame.right - text.length * BOLD;
    return [shape("line", { x1: x, x2: x, y1: frame.top, y2: frame.bottom, stroke: color,
      "stroke-width": 1.5 }), shape("text", { x: isRight ? x - 5 : x + 5, y, fill: color,
      "font-weight": 600, "text-anchor": isRight ? "end" : "start", stroke: look.raised,
      "stroke-width": 3, "paint-order": "stroke" }, text)];
  };
  const sum = track.live_bytes.reduce((all, live) => all + live[track.peak], 0);
  made.push(...line(track.peak, `peak ${human(sum, "bytes")}`, look.text, frame.top + 26));
  for (const one of track.out_of_memory) {
    made.push(...line(one.at, `out of memory: ${human(one.asked_bytes, "bytes")} asked`, look.bad,
      frame.top + 42));
  }
  if (track.closed_form_bytes > 0) {
    const y = up(track.closed_form_bytes);
    made.push(shape("line", { x1: frame.left, x2: frame.right, y1: y, y2: y, stroke: look.text,
      "stroke-dasharray": "8 4" }), shape("text", { x: frame.left + 6, y: y - 4, "font-weight": 600,
      stroke: look.raised, "stroke-width": 3, "paint-order": "stroke" },
    `expected ${human(track.closed_form_bytes, "bytes")}`));
  }
  return made;
}

/** Names of bands, where they are high enough at the peak. @param {Track} track @param {Axis} axis @param {number[][]} upper @param {Room} room */
function inBands(track, axis, upper, { across, up, frame, look }) {
  const x = across(axis.at[track.peak]);
  const isRight = x > (frame.left + frame.right) / 2;
  return track.origins.flatMap((name, origin) => {
    const mine = track.origin.flatMap((of, band) => (of === origin ? [band] : []));
    const [first, last] = [mine[0], mine[mine.length - 1]];
    const bottom = up(upper[first - 1]?.[track.peak] ?? 0);
    const top = up(upper[last][track.peak]);
    if (bottom - top < 18) return [];
    return [shape("text", { x: isRight ? x - 6 : x + 6, y: (top + bottom) / 2 + 4,
      "text-anchor": isRight ? "end" : "start", "paint-order": "stroke", stroke: look.raised,
      "stroke-width": 3, "pointer-events": "none" }, shortened(name, 24))];
  });
}
