// A frame of the timeline: only what is seen, slices narrower than a pixel drawn together.

import { human } from "../format.js";
import { tintsOf } from "./timeline_colours.js";
import { firstAfter } from "./timeline_find.js";
import { AXIS, rowTop, sliceHeight } from "./timeline_layout.js";
import { marksOf, roundTimes } from "./timeline_window.js";

/** @typedef {import("./timeline_colours.js").Palette} Palette */
/** @typedef {CanvasRenderingContext2D | import("./timeline_picture.js").SvgPen} Pen */
/** @typedef {import("./timeline_data.js").Lane} Lane */
/** @typedef {import("./timeline_find.js").Slice} Slice */
/** @typedef {import("./timeline_layout.js").Layout} Layout */
/** @typedef {import("./timeline_layout.js").Placed} Placed */
/** @typedef {import("./timeline_window.js").Span} Span */
/**
 * @typedef {object} Frame
 * @property {Pen} pen
 * @property {number} width
 * @property {number} height
 * @property {number} top how far the sheet is scrolled
 * @property {Span} seen
 * @property {Layout} layout
 * @property {Palette} palette
 * @property {Slice | null} picked
 * @property {Span | null} range
 * @property {Set<number> | null} found names that the search matches
 * @property {Slice[][]} links slices that belong together
 */

const LETTER = 6.1;
const NAMED = 26;
const IDLE = /\(GPU idle|^GPU idle|^Not recorded/;

/** @param {Frame} frame */
export function paint(frame) {
  const { pen, width, height, palette, layout, top } = frame;
  pen.fillStyle = palette.ground;
  pen.fillRect(0, 0, width, height);
  pen.font = `10.5px ${palette.mono}`;
  pen.textBaseline = "middle";
  grid(frame);
  for (const { y } of layout.headings) {
    pen.fillStyle = palette.band;
    pen.fillRect(0, y - top, width, 20);
  }
  for (const one of layout.placed) {
    if (one.y + one.height < top + AXIS || one.y > top + height) continue;
    if (one.lane.shape === "slices") slices(frame, one);
    else if (one.lane.shape === "busy") shares(frame, one);
    else line(frame, one);
  }
  for (const slicesOfLink of frame.links) link(frame, slicesOfLink);
  if (frame.picked) outline(frame, frame.picked);
  if (frame.range) shade(frame, frame.range);
  axis(frame);
}

/** @param {Frame} frame @param {number} time */
function xOf({ seen, width }, time) {
  return ((time - seen.from) / (seen.to - seen.from)) * width;
}

/** @param {Frame} frame */
function grid(frame) {
  frame.pen.fillStyle = frame.palette.grid;
  for (const time of roundTimes(frame.seen, frame.width / 110)) {
    frame.pen.fillRect(Math.round(xOf(frame, time)), 0, 1, frame.height);
  }
}

/** @param {Frame} frame */
function axis(frame) {
  const { pen, palette, width } = frame;
  pen.fillStyle = palette.ground;
  pen.fillRect(0, 0, width, AXIS - 2);
  pen.fillStyle = palette.line;
  pen.fillRect(0, AXIS - 3, width, 1);
  pen.fillStyle = palette.faint;
  for (const [time, text] of marksOf(frame.seen, width / 110)) {
    const x = xOf(frame, time);
    if (x + text.length * LETTER < width) pen.fillText(text, x + 3, AXIS / 2 - 1);
    pen.fillRect(Math.round(x), AXIS - 7, 1, 5);
  }
}

/**
 * Slices of a lane, a depth after the other: those around others first.
 * @param {Frame} frame
 * @param {Placed} one
 */
function slices(frame, one) {
  const { byDepth, names } = one.lane;
  /** @type {[number, number, number][][]} */
  const wide = byDepth.map((rows, depth) => {
    const y = rowTop(one, depth) - frame.top;
    return y < -one.height || y > frame.height ? [] : row(frame, one, rows, y);
  });
  const named = one.isFolded ? uncovered(wide, frame.width) : wide;
  named.forEach((ofDepth, depth) => {
    const y = rowTop(one, depth) - frame.top;
    for (const [index, x, size] of ofDepth) {
      name(frame, names[one.lane.name[index]], x, y, size, sliceHeight(one));
    }
  });
}

/**
 * Where slices of several depths share a row: the longest part of each that none inside it covers.
 * @param {[number, number, number][][]} wide position, x and width, by depth
 * @param {number} width of the canvas
 * @returns {[number, number, number][][]}
 */
function uncovered(wide, width) {
  const top = new Int16Array(Math.ceil(width) + 1).fill(-1);
  wide.forEach((slicesOfDepth, depth) => {
    for (const [, x, size] of slicesOfDepth) top.fill(depth, Math.floor(x), Math.ceil(x + size));
  });
  return wide.map((slicesOfDepth, depth) => slicesOfDepth.flatMap(([index, x, size]) => {
    let [best, most, from] = [0, 0, Math.floor(x)];
    for (let at = from; at <= Math.ceil(x + size); at += 1) {
      if (top[at] === depth && at < x + size) continue;
      if (at - from > most) [best, most] = [from, at - from];
      from = at + 1;
    }
    return most > NAMED ? [/** @type {[number, number, number]} */ ([index, best, most])] : [];
  }));
}

/**
 * Draws the slices of one depth; returns those with room for a name.
 * @param {Frame} frame
 * @param {Placed} one
 * @param {Int32Array} rows
 * @param {number} y
 * @returns {[number, number, number][]} position, x and width
 */
function row(frame, one, rows, y) {
  const { pen, palette, seen, width, found } = frame;
  const { lane } = one;
  const tints = tintsOf(lane);
  const pixel = (seen.to - seen.from) / width;
  const height = sliceHeight(one);
  /** @type {[number, number, number][]} */
  const wide = [];
  let at = firstAfter(lane, rows, seen.from);
  while (at < rows.length) {
    let index = rows[at];
    const from = lane.start[index];
    if (from >= seen.to) break;
    let to = lane.end[index];
    at += 1;
    if (to - from < pixel) {
      const first = at;
      [at, to] = merged(lane, rows, at, from, pixel);
      if (found) index = foundAmong(lane, rows.subarray(first - 1, at), found);
    }
    const x = Math.max((from - seen.from) / pixel, 0);
    const size = Math.min((to - seen.from) / pixel, width) - x;
    const isFound = found === null || found.has(lane.name[index]);
    const tint = tints[lane.name[index]];
    pen.fillStyle = isFound ? palette.fills[tint] : palette.band;
    pen.fillRect(x, y, Math.max(size - (size > 3 ? 0.6 : 0), 0.8), height);
    if (found !== null && isFound) mark(frame, tint, x, y + height - 3, size);
    if (size > 4 && lane.kind === "causes" && IDLE.test(lane.names[lane.name[index]])) {
      hatch(frame, tint, x, y, size, height);
    }
    if (size > NAMED) wide.push([index, x, size]);
  }
  return wide;
}

/** @param {Lane} lane @param {Int32Array} rows @param {Set<number>} found */
function foundAmong(lane, rows, found) {
  return rows.find((index) => found.has(lane.name[index])) ?? rows[0];
}

/** @param {Frame} frame @param {number} tint @param {number} x @param {number} y @param {number} size */
function mark({ pen, palette }, tint, x, y, size) {
  pen.fillStyle = palette.inks[tint];
  pen.fillRect(x, y, Math.max(size, 1.5), 3);
}

/**
 * The end of a run of slices that are each narrower than a pixel and less than one apart.
 * @param {Lane} lane
 * @param {Int32Array} rows
 * @param {number} at place of the slice after the first
 * @param {number} from
 * @param {number} pixel in ns
 * @returns {[number, number]} the place after the run, and where it ends
 */
export function merged(lane, rows, at, from, pixel) {
  let end = from + pixel;
  let next = at;
  while (next < rows.length) {
    const past = firstAfter(lane, rows, end, next);
    const last = past > next ? lane.end[rows[past - 1]] : end - pixel;
    next = past;
    const index = rows[next];
    const isJoined = next < rows.length && lane.start[index] <= end
      && lane.end[index] - lane.start[index] < pixel;
    if (!isJoined) return [next, Math.max(Math.min(last, end), end - pixel / 2)];
    end += pixel;
  }
  return [next, end];
}

/**
 * @param {Frame} frame
 * @param {number} tint
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function hatch({ pen, palette }, tint, x, y, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.strokeStyle = palette.inks[tint];
  pen.globalAlpha = 0.4;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let left = x - height; left < x + width; left += 7) {
    pen.moveTo(left, y + height);
    pen.lineTo(left + height, y);
  }
  pen.stroke();
  pen.restore();
}

/**
 * @param {Frame} frame
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function name({ pen, palette }, text, x, y, width, height) {
  const room = Math.floor((width - 6) / LETTER);
  if (room < 3) return;
  pen.fillStyle = palette.text;
  const shown = text.length > room ? `${text.slice(0, room - 1)}…` : text;
  pen.fillText(shown, x + 3, y + height / 2 + 0.5);
}

/** @param {Frame} frame @param {Placed} one */
function shares(frame, one) {
  const { pen, palette, seen } = frame;
  const { lane, y, height } = one;
  pen.fillStyle = palette.inks[lane.kind === "gpu" ? 0 : lane.kind === "collectives" ? 1 : 2];
  const bottom = y + height - frame.top;
  for (let i = 0; i < lane.values.length; i += 1) {
    if (lane.end[i] < seen.from || lane.start[i] > seen.to || lane.values[i] <= 0) continue;
    const x = Math.floor(xOf(frame, lane.start[i]));
    const high = (lane.values[i] / 100) * height;
    pen.fillRect(x, bottom - high, Math.floor(xOf(frame, lane.end[i])) - x, high);
  }
  pen.fillStyle = palette.line;
  pen.fillRect(0, bottom, frame.width, 1);
}

/** @param {Frame} frame @param {Placed} one */
function line(frame, one) {
  const { pen, palette, seen } = frame;
  const { lane, y, height } = one;
  const most = lane.values.reduce((largest, value) => Math.max(largest, value), 1);
  const place = (/** @type {number} */ value) => (
    y - frame.top + height - 2 - (Math.max(value, 0) / most) * (height - 6));
  pen.strokeStyle = palette.inks[6];
  pen.lineWidth = 1.4;
  pen.beginPath();
  let isOpen = false;
  for (let i = 0; i < lane.values.length; i += 1) {
    if (lane.end[i] < seen.from || lane.start[i] > seen.to || lane.values[i] < 0) continue;
    const at = place(lane.values[i]);
    if (isOpen) pen.lineTo(xOf(frame, lane.start[i]), at);
    else pen.moveTo(Math.max(xOf(frame, lane.start[i]), 0), at);
    pen.lineTo(Math.min(xOf(frame, lane.end[i]), frame.width), at);
    isOpen = true;
  }
  pen.stroke();
  pen.fillStyle = palette.faint;
  pen.fillText(human(most, "bytes"), 4, y - frame.top + 7);
}

/** @param {Frame} frame @param {Slice} slice @returns {{x: number, y: number, size: number, height: number} | null} */
function boxOf(frame, { lane, index }) {
  const one = frame.layout.placed.find((placed) => placed.lane === lane);
  if (!one) return null;
  const x = xOf(frame, lane.start[index]);
  return { x, y: rowTop(one, lane.depth[index]) - frame.top,
    size: Math.max(xOf(frame, lane.end[index]) - x, 2), height: sliceHeight(one) };
}

/** @param {Frame} frame @param {Slice} slice */
function outline(frame, slice) {
  const box = boxOf(frame, slice);
  if (!box) return;
  const { pen, palette, width } = frame;
  pen.strokeStyle = palette.text;
  pen.lineWidth = 2;
  const left = Math.max(box.x, -4);
  pen.strokeRect(left, box.y, Math.min(box.x + box.size, width + 4) - left, box.height);
}

/**
 * A collective from rank to rank; a call to all that it launched.
 * @param {Frame} frame
 * @param {Slice[]} all
 */
function link(frame, all) {
  const boxes = all.map((slice) => boxOf(frame, slice));
  const isChain = all[0].lane.kind === "collectives";
  const { pen, palette } = frame;
  pen.strokeStyle = palette.accent;
  pen.lineWidth = 1;
  pen.globalAlpha = 0.5;
  for (let i = 1; i < boxes.length; i += 1) {
    const [first, other] = [boxes[isChain ? i - 1 : 0], boxes[i]];
    if (!first || !other) continue;
    pen.beginPath();
    pen.moveTo(first.x, first.y + first.height);
    pen.lineTo(other.x, other.y);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

/** @param {Frame} frame @param {Span} range */
function shade(frame, range) {
  const { pen, palette, height } = frame;
  const [left, right] = [xOf(frame, range.from), xOf(frame, range.to)];
  pen.globalAlpha = 0.14;
  pen.fillStyle = palette.accent;
  pen.fillRect(left, 0, right - left, height);
  pen.globalAlpha = 1;
  for (const x of [left, right]) pen.fillRect(x, 0, 1, height);
  pen.fillText(human(range.to - range.from, "ns"), left + 4, AXIS + 8);
}
