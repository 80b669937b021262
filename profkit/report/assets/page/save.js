// What leaves the page: tables as CSV, drawings as SVG and PNG.

import { action, element } from "./elements.js";

/** @typedef {import("./model.js").Table} Table */

/**
 * The rows of a table as CSV, values as they were recorded, units in the heading.
 * @param {Table} table
 */
export function csvOf(table) {
  const heads = table.columns.map(({ label, unit }) => (unit ? `${label} (${unit})` : label));
  return [heads, ...table.rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/**
 * One value; a text that a spreadsheet would take for a formula begins with an apostrophe.
 * @param {string | number | null} value
 */
function cell(value) {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** What a title is called in names of files and in the address. @param {string} title */
export function slug(title) {
  const plain = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return plain.slice(0, 60) || "profkit";
}

/** @param {string} title @param {string} ending */
export function fileName(title, ending) {
  return `${slug(title)}.${ending}`;
}

/**
 * Buttons by which a drawing and its numbers leave.
 * @param {string} title
 * @param {Element} place that holds the drawing
 * @param {() => Table | Promise<Table>} table
 * @param {...[string, () => void]} more kinds of files
 */
export function saves(title, place, table, ...more) {
  const drawn = () => /** @type {SVGSVGElement} */ (place.querySelector("svg"));
  /** @type {[string, () => void][]} */
  const kinds = [["SVG", () => saveSvg(drawn(), title)], ["PNG", () => savePng(drawn(), title)],
    ["CSV", async () => saveCsv(await table(), title)], ...more];
  return element("span", { class: "saves" }, ...kinds.map(([kind, act]) => action(kind,
    { class: "save", "aria-label": `Save ${title} as ${kind}` }, act)));
}

/** @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {Table} table @param {string} title */
export function saveCsv(table, title) {
  save(new Blob([csvOf(table)], { type: "text/csv" }), fileName(title, "csv"));
}

/** @param {unknown} data @param {string} title @param {string} ending */
export function saveJson(data, title, ending) {
  save(new Blob([JSON.stringify(data)], { type: "application/json" }), fileName(title, ending));
}

/** @param {SVGSVGElement} svg */
function textOf(svg) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

/** @param {SVGSVGElement} svg @param {string} title */
export function saveSvg(svg, title) {
  save(new Blob([textOf(svg)], { type: "image/svg+xml" }), fileName(title, "svg"));
}

/** @param {HTMLCanvasElement} canvas @param {string} title */
export function saveCanvas(canvas, title) {
  canvas.toBlob((blob) => { if (blob) save(blob, fileName(title, "png")); });
}

/**
 * Saves the drawing with twice as many pixels as it has here, on the ground of the page.
 * @param {SVGSVGElement} svg
 * @param {string} title
 */
function savePng(svg, title) {
  const { clientWidth: width, clientHeight: height } = svg;
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    const context = canvas.getContext("2d");
    if (!context) return;
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--raised");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    saveCanvas(canvas, title);
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(svg))}`;
}
