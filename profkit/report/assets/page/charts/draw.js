// A figure in its layout as SVG. Series differ by colour, and by dashes, symbols or hatching.

import { shape } from "../elements.js";
import { MUTED } from "../format.js";
import { LETTER } from "./layout.js";

/** @typedef {import("./figure.js").Figure} Figure */
/** @typedef {import("./figure.js").Series} Series */
/** @typedef {import("./figure.js").Point} Point */
/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Look} Look */
/** @typedef {{x: number, y: number, words: string[], name?: string, box?: {x: number, y: number, width: number, height: number}}} Target what a pointer or the arrow keys can reach */

const DASHES = ["", "6 4", "2 3", "8 3 2 3", "12 4", "12 4 2 4"];
const MARKER = 4;
const FEW_POINTS = 80;
// Drawings so far: the stripes of each have names of their own.
let drawings = 0;

/**
 * @param {Figure} figure
 * @param {Layout} layout
 * @param {Look} look
 * @returns {{svg: SVGSVGElement, targets: Target[]}}
 */
export function drawFigure(figure, layout, look) {
  const { width, height } = layout;
  drawings += 1;
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "figure" });
  const colors = figure.series.map((series) => paint(series, look));
  svg.append(hatching(colors), axes(figure, layout, look), legend(figure, layout, look, colors));
  /** @type {Target[]} */
  const targets = [];
  if (figure.kind === "forest") svg.append(...noChange(figure, layout, look));
  figure.series.forEach((series, index) => {
    const kind = KINDS[figure.kind];
    if (!kind) throw new Error(`there is no chart of kind ${figure.kind}`);
    svg.append(kind({ figure, layout, series, index, color: colors[index], targets, look }));
  });
  return { svg, targets };
}

/**
 * @typedef {object} Task
 * @property {Figure} figure
 * @property {Layout} layout
 * @property {Series} series
 * @property {number} index
 * @property {string} color
 * @property {Target[]} targets
 * @property {Look} look
 */
/** @type {Record<string, (task: Task) => SVGElement>} */
const KINDS = {
  bar: drawBars, stacked_bar: drawBars, line: drawLine, scatter: drawPoints,
  box: drawBoxes, forest: drawForest, waterfall: drawBars,
};

/** @param {Series} series @param {Look} look */
function paint(series, look) {
  return MUTED.test(series.name) ? look.muted : look.colors[series.owner % look.colors.length];
}

/**
 * Stripes for the fill of every series but the first.
 * @param {string[]} colors
 */
function hatching(colors) {
  return shape("defs", {}, ...colors.slice(1).map((color, index) => {
    const turn = [45, -45, 0, 90][index % 4];
    const step = 6 + 3 * Math.floor(index / 4);
    return shape("pattern", { id: hatchId(index + 1), width: step, height: step,
      patternUnits: "userSpaceOnUse", patternTransform: `rotate(${turn})` },
    shape("rect", { width: step, height: step, fill: color }),
    shape("line", { y2: step, stroke: "#fff", "stroke-opacity": 0.4, "stroke-width": 1.5 }));
  }));
}

/** @param {number} index */
function hatchId(index) {
  return `stripes-${drawings}-${index}`;
}

/** @param {Task} task */
function fillOf({ color, index }) {
  return index === 0 ? color : `url(#${hatchId(index)})`;
}

/** @param {Figure} figure @param {Layout} layout @param {Look} look */
function axes(figure, layout, look) {
  const { frame, acrossMarks, upMarks, leaning } = layout;
  const group = shape("g", { class: "axes", "font-family": look.font, "font-size": 12,
    fill: look.text });
  const isSideways = figure.horizontal && figure.names !== null;
  for (const { at, text } of upMarks) {
    const ends = isSideways ? { x1: at, x2: at, y1: frame.top, y2: frame.bottom }
      : { x1: frame.left, x2: frame.right, y1: at, y2: at };
    group.append(shape("line", { ...ends, stroke: look.grid }));
    const place = isSideways ? { x: at, y: frame.bottom + 15, "text-anchor": "middle" }
      : { x: frame.left - 6, y: at + 4, "text-anchor": "end" };
    group.append(shape("text", { ...place, class: isSideways ? "below" : "beside" }, text));
  }
  for (const { at, text } of acrossMarks) {
    group.append(acrossText(at, text, isSideways, leaning, layout));
    if (!figure.names) group.append(shape("line", { x1: at, x2: at, y1: frame.bottom,
      y2: frame.bottom + 4, stroke: look.line }));
  }
  const ground = isSideways ? { x1: frame.left, x2: frame.left, y1: frame.top, y2: frame.bottom }
    : { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom };
  group.append(shape("line", { ...ground, stroke: look.line }));
  group.append(...titles(figure, layout, isSideways));
  return group;
}

/**
 * @param {number} at
 * @param {string} text
 * @param {boolean} isSideways
 * @param {boolean} leaning
 * @param {Layout} layout
 */
function acrossText(at, text, isSideways, leaning, { frame, width }) {
  if (isSideways) {
    const place = { x: frame.left - 6, y: at + 4, "text-anchor": "end" };
    return shape("text", { ...place, class: "beside" }, text);
  }
  const y = frame.bottom + 15;
  if (leaning) {
    return shape("text", { x: at + 4, y, "text-anchor": "end", class: "below",
      transform: `rotate(-36 ${at + 4} ${y})` }, text);
  }
  const half = (text.length * LETTER) / 2;
  const x = Math.max(half, Math.min(width - half, at));
  return shape("text", { x, y, "text-anchor": "middle", class: "below" }, text);
}

/** @param {Figure} figure @param {Layout} layout @param {boolean} isSideways */
function titles(figure, { frame, height, width }, isSideways) {
  const below = isSideways ? figure.upTitle : figure.acrossTitle;
  const beside = isSideways ? "" : figure.upTitle;
  const middle = (frame.top + frame.bottom) / 2;
  return [
    shape("text", { x: Math.min((frame.left + frame.right) / 2, width - 60), y: height - 5,
      "text-anchor": "middle", class: "title-below" }, below),
    shape("text", { x: 13, y: middle, "text-anchor": "middle", class: "title-beside",
      transform: `rotate(-90 13 ${middle})` }, beside),
  ];
}

/** @param {Figure} figure @param {Layout} layout @param {Look} look @param {string[]} colors */
function legend(figure, layout, look, colors) {
  const group = shape("g", { class: "legend", "font-family": look.font, "font-size": 12,
    fill: look.text });
  for (const { x, y, text, series } of layout.legend) {
    const isLine = figure.kind === "line" || figure.series[series].isLine;
    const color = colors[series];
    const sample = isLine
      ? shape("line", { x1: x, x2: x + 18, y1: y - 4, y2: y - 4, stroke: color, "stroke-width": 2,
        "stroke-dasharray": DASHES[series % DASHES.length] })
      : figure.kind === "scatter" || figure.kind === "forest" ? symbol(x + 9, y - 4, series, color)
        : shape("rect", { x: x + 3, y: y - 10, width: 12, height: 12, rx: 2,
          fill: series === 0 ? color : `url(#${hatchId(series)})` });
    group.append(sample, shape("text", { x: x + 23, y }, text));
  }
  return group;
}

/** @param {Task} task */
function drawBars(task) {
  const { figure, layout, series, index, targets } = task;
  const group = shape("g", { class: "marks bars", fill: fillOf(task) });
  const isSideways = figure.horizontal && figure.names !== null;
  const { slots } = figure;
  const few = figure.names && figure.names.length <= 3 && !isSideways;
  const room = layout.band * (few ? 0.4 : figure.names ? 0.72 : 0.9);
  const thick = Math.max(0.5, room / slots);
  const slot = slots === 1 ? 0 : index;
  for (const point of series.points) {
    const start = layout.across(point.at) - room / 2 + slot * thick;
    const [from, to] = [layout.up(point.low), layout.up(point.high)].sort((a, b) => a - b);
    const long = Math.max(to - from, 0.5);
    const width = Math.max(thick - (thick > 3 ? 1 : 0), 0.5);
    const box = isSideways ? { x: from, y: start, width: long, height: width }
      : { x: start, y: from, width, height: long };
    group.append(shape("rect", box));
    targets.push({ x: box.x + box.width / 2, y: box.y + box.height / 2, words: point.words,
      name: point.name, box });
  }
  return group;
}

/** @param {Task} task */
function drawLine(task) {
  const { figure, layout, series, index, color, targets } = task;
  const group = shape("g", { class: "marks line", stroke: color, fill: "none", "stroke-width": 2 });
  const places = placed(series.points, layout);
  const kept = thinned(places, layout.frame.right - layout.frame.left);
  const dash = DASHES[index % DASHES.length];
  group.append(shape("path", { d: pathOf(kept), "stroke-dasharray": dash,
    "stroke-linejoin": "round" }));
  // Beside points, a line has none of its own.
  if (kept.length <= FEW_POINTS && figure.kind !== "scatter") {
    group.append(...kept.map(({ x, y }) => symbol(x, y, index, color)));
  }
  targets.push(...kept);
  return group;
}

/** @param {Task} task */
function drawPoints(task) {
  const { layout, series, index, color, targets } = task;
  if (series.isLine) return drawLine(task);
  const group = shape("g", { class: "marks points", "fill-opacity": 0.75 });
  const places = placed(series.points, layout);
  group.append(...places.map(({ x, y }) => symbol(x, y, index, color)));
  targets.push(...places);
  return group;
}

/** @param {Task} task */
function drawBoxes(task) {
  const { figure, layout, series, index, color, targets } = task;
  const isSideways = figure.horizontal && figure.names !== null;
  const { slots } = figure;
  const room = layout.band * 0.6;
  const thick = room / slots;
  const group = shape("g", { class: "marks boxes", stroke: color, fill: color, "fill-opacity": 0.25,
    "stroke-width": 1.5 });
  for (const box of series.boxes) {
    const start = layout.across(box.at) - room / 2 + (slots === 1 ? 0 : index) * thick;
    const middle = start + thick / 2;
    const [least, low, median, high, most] = box.five.map(layout.up);
    const line = (/** @type {number[]} */ ends) => (isSideways
      ? shape("line", { x1: ends[0], y1: ends[1], x2: ends[2], y2: ends[3] })
      : shape("line", { x1: ends[1], y1: ends[0], x2: ends[3], y2: ends[2] }));
    const size = Math.max(Math.abs(high - low), 0.5);
    const along = Math.min(low, high);
    const body = isSideways ? { x: along, y: start, width: size, height: thick - 1 }
      : { x: start, y: along, width: thick - 1, height: size };
    group.append(shape("rect", body), line([least, middle, low, middle]),
      line([high, middle, most, middle]), line([median, start, median, start + thick - 1]));
    group.append(...box.outliers.map((value) => (isSideways
      ? shape("circle", { cx: layout.up(value), cy: middle, r: 2.5 })
      : shape("circle", { cx: middle, cy: layout.up(value), r: 2.5 }))));
    targets.push({ x: body.x + body.width / 2, y: body.y + body.height / 2, words: box.words,
      box: body });
  }
  return group;
}

/** Factors with their intervals, at the side of one another. @param {Task} task */
function drawForest({ figure, layout, series, index, color, targets, look }) {
  const group = shape("g", { class: "marks", stroke: color, "stroke-width": 2 });
  const thick = layout.band * 0.9 / figure.slots;
  for (const { at, five: [low, , middle, , high], words, note } of series.boxes) {
    const y = layout.across(at) + (index - (figure.slots - 1) / 2) * thick;
    const [from, x, to] = [low, middle, high].map(layout.up);
    group.append(shape("line", { x1: from, x2: to, y1: y, y2: y }), symbol(x, y, index, color));
    if (note) {
      group.append(shape("text", { x: layout.frame.right + 8, y: y + 4, fill: look.faint,
        stroke: "none", "font-size": 12, "font-family": look.font }, note));
    }
    targets.push({ x, y, words, box: { x: from, y: y - thick / 2, width: to - from,
      height: thick } });
  }
  return group;
}

/** Where factors change nothing that matters. @param {Figure} figure @param {Layout} layout @param {Look} look */
function noChange({ band }, { frame, up }, look) {
  const [from, one, to] = [1 / (1 + band), 1, 1 + band].map(up);
  const ends = { y1: frame.top, y2: frame.bottom };
  return [shape("rect", { x: from, y: frame.top, width: to - from, height: frame.bottom - frame.top,
    fill: look.muted, "fill-opacity": 0.5 }),
  shape("line", { x1: one, x2: one, ...ends, stroke: look.text, "stroke-dasharray": "4 3" })];
}

/** @param {Point[]} points @param {Layout} layout @returns {Target[]} */
function placed(points, layout) {
  return inFrame(points, layout).map((point) => targetOf(point, layout))
    .filter(({ y }) => Number.isFinite(y));
}

/** @param {Point} point @param {Layout} layout @returns {Target} */
function targetOf({ at, high, words, name }, layout) {
  return { x: layout.across(at), y: layout.up(high), words, name };
}

/** @param {Point[]} points @param {Layout} layout */
function inFrame(points, { across, frame }) {
  return points.filter((point) => {
    const x = across(point.at);
    return x >= frame.left - 1 && x <= frame.right + 1;
  });
}

/**
 * Of the points of one column of pixels: first, lowest, highest and last. The line looks the same.
 * @template {{x: number, y: number}} Place
 * @param {Place[]} places by their x
 * @param {number} width
 * @returns {Place[]}
 */
export function thinned(places, width) {
  if (places.length <= 4 * width) return places;
  /** @type {Place[]} */
  const kept = [];
  for (let from = 0; from < places.length;) {
    const column = Math.floor(places[from].x);
    let to = from;
    let [low, high] = [from, from];
    for (; to < places.length && Math.floor(places[to].x) === column; to += 1) {
      if (places[to].y < places[low].y) low = to;
      if (places[to].y > places[high].y) high = to;
    }
    const wanted = [...new Set([from, low, high, to - 1])].sort((a, b) => a - b);
    kept.push(...wanted.map((index) => places[index]));
    from = to;
  }
  return kept;
}

/** @param {{x: number, y: number}[]} places */
function pathOf(places) {
  return places.map(({ x, y }, index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`)
    .join("");
}

/** @param {number} x @param {number} y @param {number} index @param {string} color */
function symbol(x, y, index, color) {
  const size = MARKER;
  const forms = [
    () => shape("circle", { cx: x, cy: y, r: size }),
    () => shape("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size }),
    () => corners([[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]),
    () => corners([[0, -1.2], [1.1, 0.9], [-1.1, 0.9]]),
    () => corners([[-1, -1], [0, -0.35], [1, -1], [0.35, 0], [1, 1], [0, 0.35], [-1, 1],
      [-0.35, 0]]),
    () => corners([[0, 1.2], [1.1, -0.9], [-1.1, -0.9]]),
  ];
  /** @param {number[][]} all */
  function corners(all) {
    return shape("polygon", { points: all.map(([dx, dy]) =>
      `${(x + dx * size).toFixed(1)},${(y + dy * size).toFixed(1)}`).join(" ") });
  }
  const made = forms[index % forms.length]();
  made.setAttribute("fill", color);
  made.setAttribute("stroke", "none");
  return made;
}
