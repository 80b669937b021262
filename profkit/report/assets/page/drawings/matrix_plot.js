// A matrix as a drawing: one image with a pixel for each cell, and words around it and in it.

import { shape } from "../elements.js";
import { shortened } from "../format.js";
import { cellTexts, nameOf, shareOf, valueAt } from "./matrix_cells.js";

/** @typedef {import("./matrix_cells.js").Matrix} Matrix */
/** @typedef {import("./matrix_cells.js").Layer} Layer */
/** @typedef {import("./matrix_cells.js").Shown} Shown */
/** @typedef {{stops: number[][], text: string, faint: string, line: string, font: string, width: number}} Look */
/**
 * @typedef {object} Plot
 * @property {SVGSVGElement} svg
 * @property {(x: number, y: number) => [number, number] | null} cellAt row and column as drawn
 * @property {(row: number, column: number) => {x: number, y: number, width: number, height: number}} boxOf
 */

const LETTER = 6.6;
const TALL = 640;
const LONGEST = 26;
const LEGEND = 46;

/** @param {number[][]} stops colours as red, green and blue @param {number} share 0 to 1 */
export function colorAt(stops, share) {
  const place = share * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const part = place - below;
  return stops[below].map((from, index) => (
    Math.round(from + (stops[below + 1][index] - from) * part)));
}

/** @param {string} list hexadecimal colours with spaces between */
export function stopsOf(list) {
  return list.trim().split(/\s+/).map((color) => (
    [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16))));
}

/**
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {Shown} shown
 * @param {Look} look
 * @returns {Plot}
 */
export function plotOf(matrix, layer, shown, look) {
  const { rows, columns } = shown;
  const across = columns.map((column) => String(matrix.columns.of ? matrix.columns.names[column]
    : nameOf(matrix.columns, column)));
  const longest = Math.min(Math.max(...across.map((text) => text.length), 1), LONGEST);
  const beside = rows.map((row) => String(matrix.rows.names[row]));
  const margin = 30 + Math.max(...beside.map((text) => text.length), 1) * LETTER;
  const wide = (look.width - margin - 12) / Math.max(columns.length, 1);
  // Names that lean reach beyond the left edge of their column.
  const over = !matrix.columns.of && longest * LETTER > wide - 6
    ? Math.min(across[0].length, LONGEST) * LETTER * 0.8 - wide / 2 : 0;
  const left = Math.max(margin, over);
  const room = (look.width - left - 12) / Math.max(columns.length, 1);
  const cell = { width: Math.min(Math.max(room, 1), matrix.columns.of ? 96 : 150),
    height: Math.min(Math.max(TALL / Math.max(rows.length, 1), 2), 26) };
  const isTall = rows.length * cell.height > TALL;
  const top = LEGEND + (isTall && matrix.columns.of ? 16 : 0);
  const isLeaning = !matrix.columns.of && longest * LETTER > cell.width - 6;
  const below = isLeaning ? 26 + longest * LETTER * 0.6 : 38;
  const bottom = top + cell.height * rows.length;
  const [width, height] = [look.width, bottom + below];
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "figure",
    "font-family": look.font, "font-size": 12, fill: look.text });
  const box = { x: left, y: top, width: cell.width * columns.length, height: bottom - top };
  svg.append(unknown(look), shape("rect", { ...box, fill: "url(#matrix-unknown)" }),
    shape("image", { ...box, href: imageOf(layer, shown, look.stops), preserveAspectRatio: "none",
      style: "image-rendering: pixelated" }),
    ...legend(layer, shown, look, left), ...numbers(layer, shown, cell, box, look.stops),
    ...names(beside, across, { matrix, cell, box, isLeaning, isTall, look }));
  if (matrix.rows.hosts) svg.append(...hostLines(matrix.rows.hosts, rows, cell, box, look));
  return {
    svg,
    cellAt: (x, y) => {
      const [row, column] = [Math.floor((y - box.y) / cell.height),
        Math.floor((x - box.x) / cell.width)];
      return row >= 0 && row < rows.length && column >= 0 && column < columns.length
        ? [row, column] : null;
    },
    boxOf: (row, column) => ({ x: box.x + column * cell.width, y: box.y + row * cell.height,
      width: cell.width, height: cell.height }),
  };
}

/** @param {Layer} layer @param {Shown} shown @param {number[][]} stops */
function imageOf(layer, shown, stops) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(shown.columns.length, 1);
  canvas.height = Math.max(shown.rows.length, 1);
  const context = canvas.getContext("2d");
  if (!context) return "";
  const image = context.createImageData(canvas.width, canvas.height);
  shown.rows.forEach((row, y) => shown.columns.forEach((column, x) => {
    const value = valueAt(layer, row, column);
    if (value === null) return;
    image.data.set([...colorAt(stops, shareOf(shown, value)), 255], 4 * (y * canvas.width + x));
  }));
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** Stripes where nothing is known. @param {Look} look */
function unknown(look) {
  return shape("defs", {}, shape("pattern", { id: "matrix-unknown", width: 6, height: 6,
    patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  shape("line", { y2: 6, stroke: look.line, "stroke-width": 2 })));
}

/** @param {Layer} layer @param {Shown} shown @param {Look} look @param {number} left */
function legend(layer, shown, look, left) {
  const { unit, text } = cellTexts(layer, shown);
  const wide = 160;
  const parts = Array.from({ length: 16 }, (_, index) => shape("rect", { x: left + index * 10, y: 6,
    width: 10, height: 12, fill: `rgb(${colorAt(look.stops, index / 15).join(" ")})` }));
  const middle = (shown.low + shown.high) / 2;
  const marks = shown.high > shown.low ? [shown.low, middle, shown.high] : [shown.high];
  const more = shown.largest > shown.high ? " or more" : "";
  return [...parts, ...marks.map((value, index) => shape("text", {
    x: left + (marks.length > 1 ? index * wide / 2 : wide / 2), y: 32,
    "text-anchor": index === 0 && marks.length > 1 ? "start" : "middle" },
  text(value) + (index === marks.length - 1 ? ` ${unit}${more}` : "")))];
}

/**
 * The numbers in the cells, where they fit.
 * @param {Layer} layer
 * @param {Shown} shown
 * @param {{width: number, height: number}} cell
 * @param {{x: number, y: number}} box
 * @param {number[][]} stops
 */
function numbers(layer, shown, cell, box, stops) {
  const { text } = cellTexts(layer, shown);
  const widest = text(shown.largest).length * LETTER + 8;
  if (cell.height < 15 || cell.width < widest) return [];
  return shown.rows.flatMap((row, y) => shown.columns.flatMap((column, x) => {
    const value = valueAt(layer, row, column);
    if (value === null) return [];
    const [red, green, blue] = colorAt(stops, shareOf(shown, value));
    const isLight = 0.299 * red + 0.587 * green + 0.114 * blue > 140;
    return [shape("text", { x: box.x + (x + 0.5) * cell.width,
      y: box.y + (y + 0.5) * cell.height + 4, "text-anchor": "middle",
      fill: isLight ? "#0b1622" : "#ffffff" }, text(value))];
  }));
}

/**
 * @param {string[]} beside
 * @param {string[]} across
 * @param {{matrix: Matrix, cell: {width: number, height: number}, box: {x: number, y: number, height: number}, isLeaning: boolean, isTall: boolean, look: Look}} room
 */
function names(beside, across, { matrix, cell, box, isLeaning, isTall, look }) {
  const every = Math.ceil(14 / cell.height);
  const bottom = box.y + box.height;
  const made = beside.flatMap((text, row) => (row % every ? [] : [shape("text", { x: box.x - 6,
    y: box.y + (row + 0.5) * cell.height + 4, "text-anchor": "end" }, text)]));
  const widest = Math.max(...across.map((text) => text.length), 1) * LETTER + 8;
  const step = Math.ceil((isLeaning ? 15 : Math.min(widest, 170)) / cell.width);
  across.forEach((text, column) => {
    if (column % step) return;
    const [x, y] = [box.x + (column + 0.5) * cell.width, bottom + 15];
    made.push(isLeaning ? shape("text", { x: x + 4, y, "text-anchor": "end",
      transform: `rotate(-36 ${x + 4} ${y})` }, shortened(text, LONGEST))
      : shape("text", { x, y, "text-anchor": "middle" }, shortened(text, LONGEST)));
    // Where the drawing is scrolled, its lower end is far away.
    if (isTall && matrix.columns.of) {
      made.push(shape("text", { x, y: box.y - 5, "text-anchor": "middle" }, text));
    }
  });
  const middle = box.y + box.height / 2;
  made.push(shape("text", { x: 11, y: middle, "text-anchor": "middle", fill: look.faint,
    transform: `rotate(-90 11 ${middle})` }, matrix.rows.of));
  if (matrix.columns.of) {
    made.push(shape("text", { x: box.x, y: bottom + 32, fill: look.faint }, matrix.columns.of));
  }
  return made;
}

/**
 * A line where the next host begins.
 * @param {string[]} hosts
 * @param {number[]} rows
 * @param {{height: number}} cell
 * @param {{x: number, y: number, width: number}} box
 * @param {Look} look
 */
function hostLines(hosts, rows, cell, box, look) {
  return rows.flatMap((row, at) => (at === 0 || hosts[row] === hosts[rows[at - 1]] ? []
    : [shape("line", { x1: box.x - 18, x2: box.x + box.width, y1: box.y + at * cell.height,
      y2: box.y + at * cell.height, stroke: look.text, "stroke-width": 1.5 })]));
}
