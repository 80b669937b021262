// Charts are drawn when they come into view, and again when the theme or their width changes.

import { action, menu } from "../elements.js";
import { stateOf } from "../drawings/state.js";
import { human } from "../format.js";
import { saves, slug } from "../save.js";
import { drawFigure } from "./draw.js";
import { figureOf, firstChoice } from "./figure.js";
import { acrossDomain, layoutOf } from "./layout.js";
import { lookOf } from "../drawings/sized.js";
import { letDrag, pointOut } from "./pointer.js";
import { drawTree } from "./tree.js";

/** @typedef {import("../model.js").Chart} Chart */
/** @typedef {import("../model.js").Table} Table */
/** @typedef {import("../model.js").Value} Value */

const ZOOMABLE = new Set(["line", "scatter"]);
/** @typedef {{redraw: () => void, width: number, part: string}} Known with the part that was drawn */
/** @type {Map<Element, Known>} */
const charts = new Map();

/**
 * Draws, and returns whether there was room to.
 * @param {HTMLElement} holder the figure
 * @param {Chart} chart
 * @param {Table} table
 * @param {number} maxBars
 */
export function drawChart(holder, chart, table, maxBars) {
  const place = /** @type {HTMLElement} */ (holder.querySelector(".plot"));
  if (!place.clientWidth) return false;
  const shown = { ...table, rows: chosen(holder, chart, table) };
  const { state } = windowOf(chart);
  const redraw = () => drawChart(holder, chart, table, maxBars);
  const cut = chart.kind === "sunburst"
    ? drawTree(place, chart, shown, lookOf(place), state, redraw)
    : plot(holder, place, chart, shown, maxBars);
  const svg = /** @type {SVGSVGElement} */ (place.querySelector("svg"));
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Chart: ${chart.title}. The table below has its numbers. `
    + "The arrow keys go through what is drawn.");
  const notes = [chart.note];
  if (cut > 0) notes.push(`${cut.toLocaleString("en-US")} more in the table below.`);
  const note = /** @type {HTMLElement} */ (holder.querySelector(".note"));
  note.textContent = notes.filter(Boolean).join(" ");
  note.hidden = note.textContent === "";
  holder.dataset.drawn = "yes";
  const isNew = !charts.has(holder);
  charts.set(holder, { redraw, width: place.clientWidth, part: state.get("part") });
  if (isNew) {
    state.onChange(() => {
      if (charts.get(holder)?.part !== state.get("part")) redraw();
    }, holder);
    resized.observe(place);
    holder.querySelector("figcaption")?.append(saves(chart.title, place, () => table));
  }
  return true;
}

/** The part of the axis that the reader looks closer at. @param {Chart} chart */
function windowOf(chart) {
  const state = stateOf(slug(chart.title));
  const [low, high] = state.get("part").split("~").map(Number);
  const window = high > low ? /** @type {[number, number]} */ ([low, high]) : null;
  return { state, window };
}

/**
 * The rows of the value that the reader chose; the charts of one analysis go together.
 * @param {HTMLElement} holder
 * @param {Chart} chart
 * @param {Table} table
 */
function chosen(holder, chart, table) {
  const values = chart.choose < 0 ? [] : [...new Set(table.rows.map((row) => row[chart.choose]))];
  if (values.length < 2) return table.rows;
  const select = holder.querySelector("select") ?? chooser(holder, chart, table, values);
  return table.rows.filter((row) => row[chart.choose] === values[select.selectedIndex]);
}

/**
 * @param {HTMLElement} holder
 * @param {Chart} chart
 * @param {Table} table
 * @param {Value[]} values
 */
function chooser(holder, chart, table, values) {
  const column = table.columns[chart.choose];
  const select = menu({ "aria-label": column.label }, values.map((value) => {
    const text = typeof value === "string" ? value
      : `${column.label} ${human(value, column.unit)}`;
    return [text, text];
  }), (chosenText) => {
    for (const other of holder.closest(".analysis")?.querySelectorAll("select") ?? []) {
      if (!namesIn(other).includes(chosenText)) continue;
      other.value = chosenText;
      const figure = other.closest("figure");
      const known = figure && charts.get(figure);
      if (known) known.redraw();
      else other.dispatchEvent(new Event("change"));
    }
  });
  const beside = [...(holder.closest(".analysis")?.querySelectorAll("select") ?? [])];
  select.selectedIndex = firstChoice(namesIn(select), beside.map((other) => (
    { names: namesIn(other), chosen: other.selectedIndex })));
  holder.querySelector("figcaption")?.append(select);
  return select;
}

/** @param {HTMLSelectElement} menu */
function namesIn({ options }) {
  return [...options].map(({ value }) => value);
}

/**
 * Draws, and returns how many bars found no room.
 * @param {HTMLElement} holder
 * @param {HTMLElement} place
 * @param {Chart} chart
 * @param {Table} table
 * @param {number} maxBars
 */
function plot(holder, place, chart, table, maxBars) {
  const look = lookOf(place);
  const figure = figureOf(chart, table, maxBars);
  const { state, window } = windowOf(chart);
  const layout = layoutOf(figure, look, window);
  const { svg, targets } = drawFigure(figure, layout, look);
  place.style.height = `${layout.height}px`;
  place.replaceChildren(svg);
  pointOut(place, svg, targets, (name) => stateOf("details").set({ of: name }));
  if (!figure.names && ZOOMABLE.has(figure.kind) && !figure.log.across) {
    const [low, high] = window ?? acrossDomain(figure);
    const { left, right } = layout.frame;
    const value = (/** @type {number} */ x) => low + ((x - left) / (right - left)) * (high - low);
    const lookAt = (/** @type {string} */ part) => {
      state.set({ part });
      charts.get(holder)?.redraw();
    };
    letDrag(svg, layout.frame, (from, to) => lookAt(`${value(from)}~${value(to)}`));
    if (window) place.append(action("Show all", { class: "whole-axis" }, () => lookAt("")));
  }
  return figure.cut;
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const figure = target.closest("figure");
    const known = figure && charts.get(figure);
    if (known && target.clientWidth && target.clientWidth !== known.width) known.redraw();
  }
});

/** Draws the charts of the view again; those of views that were left are forgotten. */
export function redrawCharts() {
  for (const [holder, chart] of charts) {
    if (holder.isConnected) chart.redraw();
    else charts.delete(holder);
  }
}
