// A matrix: values of rows and columns by colour, in cells where they fit, and in words when pointed at.

import { action, element, menu, shape } from "../elements.js";
import { claimNow } from "../evidence.js";
import { human } from "../format.js";
import { detailOf, madeTable } from "../model.js";
import { saves } from "../save.js";
import { foldedTable, placedTable } from "../table.js";
import {
  ORDERS, layerOf, markedCells, medianOf, nameOf, nameOfCell, shownOf, tableOf,
  valueAt, withWords, wordsOf,
} from "./matrix_cells.js";
import { plotOf, stopsOf } from "./matrix_plot.js";
import { follow, pointedLabel, putDrawing } from "./pointed.js";
import { lookOf, themed, whenSized } from "./sized.js";
import { stateOf } from "./state.js";

/** @typedef {import("./matrix_cells.js").Matrix} Matrix */
/** @typedef {import("./matrix_cells.js").Layer} Layer */
/** @typedef {import("../model.js").DrawingData} DrawingData */
/** @typedef {import("../model.js").Table} Table */
/** @typedef {import("./state.js").State} State */
/** @typedef {[number, number]} Cell row and column as they are in the data */

/** @type {Record<string, number>} */
const NS = { ns: 1, us: 1e3, ms: 1e6 };
const KEYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * @param {DrawingData} shown
 * @param {State} state
 */
export function drawMatrix(shown, state) {
  const view = new MatrixView(shown, state);
  return view.made;
}

class MatrixView {
  /** @param {DrawingData} shown @param {State} state */
  constructor(shown, state) {
    this.title = shown.title;
    this.state = state;
    const { cut, details } = shown;
    const all = /** @type {Matrix} */ (shown.data);
    this.matrix = { ...withWords(all),
      layers: all.layers.filter(({ title }) => !cut.includes(title)) };
    this.blocks = new Map(details.map(({ name, block }) => [name, block]));
    this.layers = this.select("Shown", [], "layer");
    this.layers.append(...grouped(this.matrix.layers));
    const orders = ORDERS.slice(0, this.matrix.layers.some(({ alike }) => alike) ? 3 : 2);
    this.orders = this.select("Rows", orders.map((name) => [name, name]), "order");
    this.place = element("div", { class: "plot scroll" });
    this.picked = element("div", { class: "picked" });
    this.label = pointedLabel();
    this.rows = foldedTable("As a table", () => this.table());
    this.made = element("div", { class: "matrix" }, this.tools(), this.place, this.picked,
      this.note(), this.rows.made);
    state.onChange(() => this.show());
    whenSized(this.place, () => this.show());
  }

  /** @param {string} name @param {[string, string][]} options @param {string} key */
  select(name, options, key) {
    return menu({ "aria-label": name }, options, (value) => {
      this.state.set({ [key]: value });
      this.show();
    });
  }

  tools() {
    const made = element("div", { class: "drawing-tools" });
    if (this.matrix.layers.length > 1) made.append(this.layers);
    if (this.matrix.rows.names.length > 2) made.append(this.orders);
    made.append(saves(this.title, this.place, () => this.table()));
    return made;
  }

  note() {
    const { rows, columns } = this.matrix;
    const notes = [];
    if ((rows.total ?? 0) > rows.names.length) {
      notes.push(`${rows.names.length} of ${rows.total} ${rows.of}s: those that differ most from `
        + "the others, and evenly chosen ones.");
    }
    if (columns.last?.some((last, at) => last !== columns.names[at])) {
      notes.push(`Neighbouring ${columns.of}s are averaged.`);
    }
    return element("p", { class: "note" }, notes.join(" "));
  }

  show() {
    const titles = this.matrix.layers.map(({ title }) => title);
    this.layers.selectedIndex = Math.max(titles.indexOf(this.state.get("layer")
      || layerOf(this.matrix, claimNow())), 0);
    this.orders.selectedIndex = Math.max(ORDERS.indexOf(this.state.get("order")), 0);
    const layer = this.matrix.layers[this.layers.selectedIndex];
    if (this.isThere(layer)) this.draw(layer);
    else this.fetch(layer).then(() => this.show());
  }

  /** @param {Layer} layer */
  isThere({ title, values }) {
    return values.length > 0 || !this.blocks.has(title);
  }

  /** @param {Layer} layer */
  async fetch(layer) {
    Object.assign(layer, await detailOf(this.blocks.get(layer.title) ?? ""));
  }

  /** @param {Layer} layer */
  draw(layer) {
    if (!this.place.clientWidth) return;
    this.layer = layer;
    this.shown = shownOf(this.matrix, layer, this.orders.value);
    this.plot = plotOf(this.matrix, layer, this.shown,
      { ...lookOf(this.place), stops: stopsOf(themed("--heat")) });
    const { svg } = this.plot;
    putDrawing(this.place, svg, this.label, `${this.title}: ${layer.title}. The arrow keys go `
      + "through the cells, Enter keeps one; the table below has the numbers.");
    this.showEvidence(layer);
    this.listen(svg);
    this.showPicked();
    this.rows.refresh();
  }

  /** Frames the cells that the highlighted claim rests on. @param {Layer} layer */
  showEvidence(layer) {
    const { plot, shown } = this;
    if (!plot || !shown) return;
    for (const [row, column] of markedCells(this.matrix, layer, shown, claimNow())) {
      plot.svg.append(shape("rect", { ...plot.boxOf(row, column), class: "marked" }));
    }
  }

  /** @param {SVGSVGElement} svg */
  listen(svg) {
    /** @type {Cell} */
    let at = [-1, -1];
    follow(svg, (x, y) => this.plot?.cellAt(x, y) ?? null, (cell) => this.point(cell),
      (cell) => this.pick(cell), (event) => {
      const by = KEYS[/** @type {keyof typeof KEYS} */ (event.key)];
      if (event.key === "Enter" && at[0] >= 0) this.pick(at);
      if (!by || !this.shown) return;
      event.preventDefault();
      const { rows, columns } = this.shown;
      at = at[0] < 0 ? [0, 0] : [(at[0] + by[0] + rows.length) % rows.length,
        (at[1] + by[1] + columns.length) % columns.length];
      this.point(at);
    });
  }

  /** @param {Cell | null} cell as it is drawn */
  point(cell) {
    const { plot, shown, layer } = this;
    this.label.hidden = !cell;
    plot?.svg.querySelector(".at")?.remove();
    if (!cell || !plot || !shown || !layer) return;
    const box = plot.boxOf(...cell);
    plot.svg.append(shape("rect", { ...box, class: "at" }));
    const words = wordsOf(this.matrix, layer, shown, shown.rows[cell[0]], shown.columns[cell[1]]);
    this.label.replaceChildren(...words.map((text) => element("div", {}, text)));
    const left = Math.min(box.x + box.width + 8, this.place.clientWidth - this.label.offsetWidth);
    const above = box.y - this.label.offsetHeight - 8;
    this.label.style.left = `${Math.max(left, 0)}px`;
    this.label.style.top = `${above < 0 ? box.y + box.height + 8 : above}px`;
  }

  /** @param {Cell | null} cell as it is drawn; nothing forgets */
  pick(cell) {
    if (!this.shown) return;
    const { rows, columns } = this.shown;
    const cellName = cell ? `${this.matrix.rows.names[rows[cell[0]]]}~`
      + `${this.matrix.columns.names[columns[cell[1]]]}` : "";
    this.state.set({ cell: cellName });
    this.showPicked();
    const of = cell ? nameOfCell(this.matrix, rows[cell[0]], columns[cell[1]]) : "";
    if (of) stateOf("details").set({ of });
  }

  /** All that is known of the cell that the reader chose. */
  showPicked() {
    const { plot, shown } = this;
    this.picked.replaceChildren();
    plot?.svg.querySelector(".chosen")?.remove();
    const [rowName, columnName] = this.state.get("cell").split("~");
    const row = this.matrix.rows.names.findIndex((name) => String(name) === rowName);
    const column = this.matrix.columns.names.findIndex((name) => String(name) === columnName);
    if (!plot || !shown || row < 0 || column < 0) return;
    const missing = this.matrix.layers.filter((layer) => !this.isThere(layer));
    if (missing.length) {
      Promise.all(missing.map((layer) => this.fetch(layer))).then(() => this.showPicked());
      return;
    }
    const at = [shown.rows.indexOf(row), shown.columns.indexOf(column)];
    if (at[0] >= 0 && at[1] >= 0) {
      const box = plot.boxOf(at[0], at[1]);
      plot.svg.append(shape("rect", { ...box, class: "chosen" }));
      const { scrollTop, clientHeight } = this.place;
      const isSeen = box.y >= scrollTop && box.y + box.height <= scrollTop + clientHeight;
      if (!isSeen) this.place.scrollTop = box.y - clientHeight / 2;
    }
    const title = `${nameOf(this.matrix.rows, row)}, ${nameOf(this.matrix.columns, column)}`;
    const cellName = nameOfCell(this.matrix, row, column);
    const things = cellName ? [cellName]
      : [nameOf(this.matrix.rows, row), nameOf(this.matrix.columns, column)];
    this.picked.append(element("p", { class: "picked-title" }, ...things.flatMap((of) => [
      action(of, { class: "thing" }, () => stateOf("details").set({ of })), " "]),
      action("Close", { class: "page" }, () => this.pick(null))),
    placedTable(this.aboutCell(row, column, title), this.matrix.layers.length));
  }

  /** @param {number} row @param {number} column @param {string} title @returns {Table} */
  aboutCell(row, column, title) {
    const all = this.matrix.rows.names.map((_, index) => index);
    const known = this.matrix.layers.filter((layer) => valueAt(layer, row, column) !== null);
    const inNs = (/** @type {Layer} */ layer, /** @type {number | null} */ value) => (
      value === null || layer.unit in NS ? value && value * NS[layer.unit]
        : human(value, layer.unit));
    return madeTable(title, [{ label: "Quantity", unit: "" }, { label: "Here", unit: "ns" },
      { label: `Median of the ${this.matrix.rows.of}s`, unit: "ns" }],
    known.map((layer) => [layer.title, inNs(layer, valueAt(layer, row, column)),
      inNs(layer, medianOf(layer, all, column))]));
  }

  table() {
    if (!this.layer || !this.shown) throw new Error("the matrix is not drawn yet");
    return tableOf(this.matrix, this.layer, this.shown, this.title);
  }
}

/**
 * Options below the headings of their groups.
 * @param {Layer[]} layers
 */
function grouped(layers) {
  /** @type {Map<string, HTMLElement>} */
  const groups = new Map();
  for (const { title, group } of layers) {
    const known = groups.get(group) ?? element("optgroup", { label: group });
    groups.set(group, known);
    known.append(new Option(title, title));
  }
  return [...groups.values()];
}
