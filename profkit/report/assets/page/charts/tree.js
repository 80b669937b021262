// Trees as sunbursts: every part stands for a path, as wide as its share of the whole.

import { action, element, shape } from "../elements.js";
import { MUTED, human, percent, shortened } from "../format.js";

/** @typedef {import("../model.js").Chart} Chart */
/** @typedef {import("../model.js").Table} Table */
/** @typedef {import("./layout.js").Look} Look */
/**
 * @typedef {object} Part of a tree
 * @property {string} name
 * @property {number} value
 * @property {number} depth
 * @property {Part | null} parent
 * @property {Map<string, Part>} children
 */
/** @typedef {{tell: (part: Part) => void, zoom: (part: Part) => void}} Acts */

const RINGS = 6;
const NARROWEST = 1;
/** @type {Record<string, number>} */
const KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/**
 * @param {HTMLElement} place
 * @param {Chart} chart
 * @param {Table} table
 * @param {Look} look
 * @param {import("../drawings/state.js").State} state keeps what a reader has zoomed into
 * @param {() => void} redraw
 */
export function drawTree(place, chart, table, look, state, redraw) {
  const whole = treeOf(chart, table);
  let focus = whole;
  for (const name of state.get("part").split(";")) focus = focus.children.get(name) ?? focus;
  const unit = table.columns[chart.y[0]].unit;
  const told = element("p", { class: "tree-told", role: "status" });
  const tell = (/** @type {Part} */ node) => { told.textContent = sentence(node, whole, unit); };
  const zoom = (/** @type {Part} */ node) => {
    const hadFocus = place.contains(document.activeElement);
    state.set({ part: pathOf(node).join(";") });
    redraw();
    if (hadFocus) place.querySelector("svg")?.focus();
  };
  tell(focus);
  const svg = drawSunburst(focus, look, { tell, zoom });
  svg.addEventListener("pointerleave", () => tell(focus));
  listenToKeys(svg, () => { if (focus.parent) zoom(focus.parent); });
  place.replaceChildren(told, svg);
  place.style.height = "auto";
  if (focus.parent) place.prepend(action("Show all", { class: "tree-back" }, () => zoom(whole)));
  return 0;
}

/**
 * The arrow keys go through the parts, Enter zooms, Escape steps out.
 * @param {SVGSVGElement} svg
 * @param {() => void} stepOut
 */
function listenToKeys(svg, stepOut) {
  const pieces = [...svg.querySelectorAll(".piece")];
  let at = -1;
  svg.addEventListener("keydown", (event) => {
    const { key } = event;
    if (KEYS[key]) {
      pieces[at]?.classList.remove("at");
      at = (at + KEYS[key] + pieces.length) % pieces.length;
      pieces[at].classList.add("at");
      pieces[at].dispatchEvent(new Event("pointerenter"));
    } else if (key === "Enter") pieces[at]?.dispatchEvent(new Event("click"));
    else if (key === "Escape") stepOut();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/**
 * @param {Chart} chart
 * @param {Table} table
 * @returns {Part}
 */
export function treeOf(chart, table) {
  /** @type {Part} */
  const whole = { name: "all", value: 0, depth: 0, parent: null, children: new Map() };
  for (const row of table.rows) {
    const value = row[chart.y[0]];
    if (typeof value !== "number" || !(value > 0) || row[chart.x] === null) continue;
    whole.value += value;
    let node = whole;
    for (const name of String(row[chart.x]).split(";")) {
      /** @type {Part} */
      const child = node.children.get(name)
        ?? { name, value: 0, depth: node.depth + 1, parent: node, children: new Map() };
      node.children.set(name, child);
      child.value += value;
      node = child;
    }
  }
  return whole;
}

/** @param {Part} node */
function sorted(node) {
  return [...node.children.values()].sort((a, b) => b.value - a.value);
}

/** @param {Part} node @returns {string[]} */
function pathOf(node) {
  return node.parent ? [...pathOf(node.parent), node.name] : [];
}

/** @param {Part} node @param {Part} whole @param {string} unit */
function sentence(node, whole, unit) {
  const share = whole.value > 0 ? percent(100 * node.value / whole.value) : "";
  return `${pathOf(node).join(" / ") || "All"}: ${human(node.value, unit)}, ${share} of all`;
}

/**
 * The second level tells the colours, as the first is often one name for everything.
 * @param {Part} node
 * @param {Look} look
 */
function paintOf(node, look) {
  const path = pathOf(node);
  const name = path[Math.min(path.length, 2) - 1] ?? "";
  if (MUTED.test(name)) return look.muted;
  const sum = [...name].reduce((total, letter) => (
    (total * 31 + (letter.codePointAt(0) ?? 0)) % 9973), 7);
  return look.colors[sum % look.colors.length];
}

/**
 * Rings take the colour of the part of the whole that they belong to, by its name's order.
 * @param {Part} node
 * @param {Look} look
 */
function paintOfRing(node, look) {
  let top = node;
  while (top.parent && top.depth > 1) top = top.parent;
  const beside = [...(top.parent?.children.keys() ?? [])].sort();
  if (beside.length < 2) return paintOf(node, look);
  if (MUTED.test(top.name)) return look.muted;
  return look.colors[beside.indexOf(top.name) % look.colors.length];
}

/** @param {SVGElement} piece @param {Part} node @param {Acts} acts */
function listen(piece, node, acts) {
  piece.addEventListener("pointerenter", () => acts.tell(node));
  if (node.children.size) piece.addEventListener("click", () => acts.zoom(node));
}

/** @param {Part} focus @param {Look} look @param {Acts} acts */
function drawSunburst(focus, look, acts) {
  const size = Math.min(look.width, 460);
  const rings = Math.min(RINGS, depthOf(focus));
  const ring = size / 2 / (rings + 1);
  const box = `${-size / 2} ${-size / 2} ${size} ${size}`;
  const svg = shape("svg", { width: size, height: size, viewBox: box, class: "tree round" });
  /** @param {Part} node @param {number} from @param {number} angle @param {number} depth */
  const lay = (node, from, angle, depth) => {
    if (depth > 0) slice(svg, node, from, angle, depth, ring, look, acts);
    if (depth === rings) return;
    let at = from;
    for (const child of sorted(node)) {
      const share = angle * child.value / node.value;
      if (share * ring * (depth + 1) < NARROWEST) break;
      lay(child, at, share, depth + 1);
      at += share;
    }
  };
  lay(focus, 0, 2 * Math.PI, 0);
  const name = shortened(focus.name, Math.floor(ring * 2 / 7.5));
  const middle = shape("g", { class: "piece" }, shape("circle", { r: ring, fill: look.grid }),
    shape("text", { "text-anchor": "middle", y: 4, fill: look.text }, name));
  svg.append(middle);
  middle.addEventListener("pointerenter", () => acts.tell(focus));
  const { parent } = focus;
  if (parent) middle.addEventListener("click", () => acts.zoom(parent));
  return svg;
}

/**
 * @param {SVGSVGElement} svg
 * @param {Part} node
 * @param {number} from
 * @param {number} angle
 * @param {number} depth
 * @param {number} ring
 * @param {Look} look
 * @param {Acts} acts
 */
function slice(svg, node, from, angle, depth, ring, look, acts) {
  const piece = shape("g", { class: "piece" });
  svg.append(piece);
  const opacity = Math.max(0.9 - 0.12 * (depth - 1), 0.3);
  const round = Math.min(angle, 2 * Math.PI - 1e-4);
  piece.append(shape("path", { d: arc(from, round, ring * depth, ring * (depth + 1) - 1),
    fill: paintOfRing(node, look), "fill-opacity": opacity }));
  label(piece, node, from + angle / 2, angle, ring * (depth + 0.5), ring, look);
  listen(piece, node, acts);
}

/**
 * A name stands level, where its part of the ring has room for some of it.
 * @param {SVGElement} piece
 * @param {Part} node
 * @param {number} at
 * @param {number} angle
 * @param {number} radius
 * @param {number} ring
 * @param {Look} look
 */
function label(piece, node, at, angle, radius, ring, look) {
  const along = 2 * radius * Math.sin(Math.min(angle, Math.PI) / 2);
  const room = Math.abs(Math.sin(at)) > 0.7 ? ring : along;
  const fits = Math.floor((room - 6) / 6.4);
  if (fits < 4 || along < 14) return;
  const place = { x: radius * Math.sin(at), y: 4 - radius * Math.cos(at), fill: look.text };
  piece.append(shape("text", { ...place, "text-anchor": "middle" }, shortened(node.name, fits)));
}

/** @param {Part} node @returns {number} */
function depthOf(node) {
  return node.children.size ? 1 + Math.max(...[...node.children.values()].map(depthOf)) : 0;
}

/**
 * A part of a ring, clockwise from the top.
 * @param {number} from
 * @param {number} angle
 * @param {number} inner
 * @param {number} outer
 */
function arc(from, angle, inner, outer) {
  const point = (/** @type {number} */ radius, /** @type {number} */ at) => (
    `${radius * Math.sin(at)} ${-radius * Math.cos(at)}`);
  const large = angle > Math.PI ? 1 : 0;
  const to = from + angle;
  return `M${point(outer, from)}A${outer} ${outer} 0 ${large} 1 ${point(outer, to)}`
    + `L${point(inner, to)}A${inner} ${inner} 0 ${large} 0 ${point(inner, from)}Z`;
}
