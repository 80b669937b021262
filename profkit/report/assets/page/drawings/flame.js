// Flame graphs: an order, filters, a search, and the frame that the reader zoomed into.

import { action, element, menu, searchBox, shape } from "../elements.js";
import { human, percent } from "../format.js";
import { detailOf } from "../model.js";
import { saveJson, saves } from "../save.js";
import { foldedTable } from "../table.js";
import { boxAt, boxesOf, legendOf, nextBox, placeOf, plotOf, sandwichOf } from "./flame_plot.js";
import { around, byName, frameOf, fromCallers, fromLeaves, hasLibraries, hasRecursion, matchesOf,
  pathTo, speedscopeOf } from "./flame_tree.js";
import { tableOf, wordsOf } from "./flame_words.js";
import { follow, pointedLabel, putDrawing } from "./pointed.js";
import { themed, whenSized } from "./sized.js";
import { stateOf } from "./state.js";
import { paletteOf } from "./timeline_colours.js";

/** @typedef {import("./flame_tree.js").Frame} Frame */
/** @typedef {import("./flame_tree.js").Packed} Packed */
/** @typedef {import("./flame_plot.js").Box} Box */
/** @typedef {import("../model.js").DrawingData} DrawingData */
/** @typedef {import("./state.js").State} State */

/** @type {[string, string][]} */
const ORDERS = [["", "Largest first"], ["time", "Time order"],
  ["callers", "Callers, from the leaf"], ["sandwich", "Callers and callees of one"]];
const ALL = "all";
const NONE = "none";
const FACTS = 12;

/** @param {DrawingData} shown @param {State} state */
export function drawFlame(shown, state) {
  // The page says itself for what it has no room.
  return shown.details.length ? new FlameView(shown, state).made : new DocumentFragment();
}

class FlameView {
  /** @param {DrawingData} shown @param {State} state */
  constructor(shown, state) {
    this.shown = shown;
    this.state = state;
    /** @type {Map<string, Packed>} */
    this.trees = new Map();
    /** @type {Packed | null} */
    this.packed = null;
    /** @type {HTMLSelectElement[]} */
    this.groups = [];
    /** @type {Box[]} */
    this.boxes = [];
    /** @type {Box | null} */
    this.at = null;
    this.parts = this.select(shown.data.of, "part", shown.details.map(({ name }) => [name, name]));
    this.orders = this.select("Order", "order", ORDERS);
    this.measures = this.select("Measure", "measure",
      shown.data.measures.map((/** @type {{title: string}} */ { title }) => [title, title]));
    this.filters = element("span", { class: "flame-filters" });
    this.place = element("div", { class: "plot" });
    this.label = pointedLabel();
    this.legend = element("p", { class: "flame-legend" });
    this.picked = element("div", { class: "picked" });
    this.found = element("span", { class: "timeline-count", role: "status" });
    this.search = searchBox(`Search frames of ${shown.title}`, "Search frames",
      (find) => this.set({ find }, false));
    this.rows = foldedTable("As a table", () => this.table());
    this.note = element("p", { class: "note" });
    this.made = element("div", { class: "flame" }, this.tools(), this.legend, this.picked,
      this.place, this.note, this.rows.made);
    state.onChange(() => this.show());
    whenSized(this.place, () => this.show());
  }

  /** @param {string} name @param {string} key @param {[string, string][]} options value and text */
  select(name, key, options) {
    const made = menu({ "aria-label": name }, options,
      (value) => this.set({ [key]: value, at: "" }));
    made.hidden = options.length < 2;
    return made;
  }

  /** @param {string} title @param {string} key set where the reader wants the opposite */
  check(title, key) {
    const box = element("input", { type: "checkbox", name: key });
    box.addEventListener("change", () => this.set({ [key]: box.checked ? "" : "no", at: "" }));
    return element("label", {}, box, ` ${title}`);
  }

  tools() {
    const { title } = this.shown;
    return element("div", { class: "drawing-tools" }, this.parts, this.measures, this.orders,
      this.filters, this.search, this.found, saves(title, this.place, () => this.table(),
        ["speedscope", () => saveJson(speedscopeOf(this.whole(), { ...this.measured, title }),
          title, "speedscope.json")]));
  }

  /** @param {Record<string, string>} values @param {boolean} [isStep] */
  set(values, isStep = true) {
    this.state.set(values, isStep);
    this.show();
  }

  /** @returns {import("./flame_words.js").Measured} */
  get measured() {
    const { unit, measures, difference } = this.shown.data;
    const { column, title } = measures[this.measures.selectedIndex];
    const { pairs = [], factor = 0 } = this.packed ?? {};
    return { unit, column, title, difference: difference
      ? { ...difference, pairs, factor, names: [difference.base, this.parts.value] } : null };
  }

  /** @param {HTMLSelectElement} select @param {string} key */
  chosen(select, key) {
    const values = [...select.options].map(({ value }) => value);
    select.selectedIndex = Math.max(values.indexOf(this.state.get(key)), 0);
    return select.value;
  }

  /** The part that the reader chose, or else the first of the rank that the whole page shows. */
  part() {
    const own = this.chosen(this.parts, "part");
    const names = this.shown.details.map(({ name }) => name);
    const rank = `rank ${this.state.get("rank")}`;
    const ofRank = names.findIndex((name) => name.split(/[,(]/)[0].trim() === rank);
    if (!this.state.get("part") && ofRank >= 0) this.parts.selectedIndex = ofRank;
    return this.state.get("part") ? own : this.parts.value;
  }

  async show() {
    const name = this.part();
    const block = this.shown.details.find((one) => one.name === name)?.block;
    if (!block) return;
    const known = this.trees.get(name);
    /** @type {Packed} */
    const tree = known ?? await detailOf(block);
    this.trees.set(name, tree);
    if (tree !== this.packed) this.showFilters(tree);
    this.packed = tree;
    this.draw();
  }

  /** What can be chosen of this tree. @param {Packed} packed */
  showFilters(packed) {
    /** @type {string[]} */
    const titles = this.shown.data.groups;
    this.groups = titles.map((title, i) => {
      const values = [...new Set(packed.groups.map((group) => group[i] || NONE))];
      const first = this.shown.data.first?.[i];
      const one = (/** @type {string} */ value) => /** @type {[string, string]} */ ([value, value]);
      /** @type {[string, string][]} */
      const options = [[ALL, `${title}: all`], ...values.map(one)];
      options.sort(([a], [b]) => Number(b === first) - Number(a === first));
      const made = this.select(title, `of${i}`, options);
      made.hidden = values.length < 2;
      return made;
    });
    this.filters.replaceChildren(...this.groups,
      ...(hasLibraries(packed) ? [this.check("fold libraries", "fold")] : []),
      ...(hasRecursion(packed) ? [this.check("join recursion", "join")] : []));
  }

  /** The tree from the callers, as filters and folds leave it. */
  whole() {
    const { packed, groups } = this;
    if (!packed) throw new Error("the flame graph is not drawn yet");
    const wanted = groups.map((select, i) => this.chosen(select, `of${i}`));
    return fromCallers(packed, { inTime: this.orders.value === "time",
      isFolded: !this.state.get("fold"), isCollapsed: !this.state.get("join"),
      isShown: (group) => wanted.every((value, i) => (
        value === ALL || value === (group[i] || NONE))) });
  }

  draw() {
    const width = this.place.clientWidth;
    if (!width || !this.packed) return;
    this.chosen(this.measures, "measure");
    const order = this.chosen(this.orders, "order");
    for (const box of this.filters.querySelectorAll("input")) {
      box.checked = !this.state.get(box.name);
    }
    const find = this.state.get("find");
    if (document.activeElement !== this.search) this.search.value = find;
    const whole = this.whole();
    const { column } = this.measured;
    this.root = order === "callers" ? fromLeaves(whole, column) : whole;
    this.focus = frameOf(this.root, Number(this.state.get("at")) || 0);
    if (order === "sandwich") {
      const trees = around(whole, this.chosenName(whole), column);
      this.boxes = sandwichOf(trees, column, 1 / width);
      this.focus = [...trees.callees.children.values()][0] ?? whole;
    } else {
      this.boxes = boxesOf(this.focus, column, order === "time", 1 / width);
    }
    this.paint(width, find);
    this.showFound(find);
    this.showFocus();
    this.rows.refresh();
    this.showNote();
  }

  /** The function of the sandwich: the chosen one, or that with most time by itself. @param {Frame} whole */
  chosenName(whole) {
    const all = byName(whole);
    const { column } = this.measured;
    const asked = this.state.get("name");
    if (all.some(({ name }) => name === asked)) return asked;
    return all.sort((a, b) => b.own[column] - a.own[column])[0]?.name ?? "";
  }

  /** @param {number} width @param {string} find */
  paint(width, find) {
    const look = { palette: paletteOf(this.place), font: themed("--font"), width, find,
      ...this.measured };
    const svg = plotOf(this.boxes, look);
    putDrawing(this.place, svg, this.label, `${this.shown.title}. The arrow keys go from frame to `
      + "frame, Enter zooms, Escape steps out, S shows callers and callees; the table below has "
      + "the numbers.");
    this.listen(svg);
    this.legend.replaceChildren(...legendOf(this.boxes, look).map(([fill, title]) => {
      const sample = element("i", { "aria-hidden": "true" });
      sample.style.background = fill;
      return element("span", {}, sample, ` ${title}`);
    }));
  }

  /** @param {SVGSVGElement} svg */
  listen(svg) {
    this.at = null;
    follow(svg, (x, y) => boxAt(this.boxes, x, y, svg.clientWidth), (box) => this.point(box),
      (box) => this.zoom(box), (event) => this.press(event));
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const { key } = event;
    if (key === "Enter") this.zoom(this.at);
    else if (key.toLowerCase() === "s" && this.at) this.turnTo(this.at.frame.name);
    else if (key.startsWith("Arrow") && this.boxes.length) {
      const start = this.boxes.find(({ frame }) => frame === this.focus) ?? this.boxes[0];
      this.point(this.at ? nextBox(this.boxes, this.at, key) : start);
    } else if (key !== "Escape" || !this.stepOut()) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** To the next caller that has more; whether there was anything to step out of. */
  stepOut() {
    const { focus } = this;
    if (this.state.get("order") === "sandwich") this.set({ order: "", name: "" });
    else if (focus?.parent) {
      const { column } = this.measured;
      let to = focus.parent;
      while (to.parent && to.sums[column] <= focus.sums[column]) to = to.parent;
      this.set({ at: to.id ? String(to.id) : "" });
    } else return false;
    return true;
  }

  /** @param {Box | null} box */
  zoom(box) {
    if (!box) return;
    if (this.orders.value === "sandwich") this.turnTo(box.frame.name);
    else this.set({ at: box.frame.id ? String(box.frame.id) : "" });
  }

  /** Shows who calls a function and what it calls. @param {string} name */
  turnTo(name) {
    this.set({ order: "sandwich", name, at: "" });
  }

  /** @param {Box | null} box */
  point(box) {
    const svg = this.place.querySelector("svg");
    this.at = box;
    this.label.hidden = !box;
    svg?.querySelector(".at")?.remove();
    if (!box || !svg) return;
    const width = this.place.clientWidth;
    const { x, y, wide, high } = placeOf(box, width);
    svg.append(shape("rect", { x, y, width: Math.max(wide, 2), height: high, class: "at" }));
    this.label.replaceChildren(...this.words(box.frame).map((text, line) => (
      element("div", line ? {} : { class: "flame-name" }, text.slice(0, 400)))));
    const { offsetWidth, offsetHeight } = this.label;
    this.label.style.left = `${Math.max(Math.min(x + 4, width - offsetWidth), 0)}px`;
    const { scrollTop, clientHeight } = this.place;
    if (y < scrollTop || y + high > scrollTop + clientHeight) {
      this.place.scrollTop = y - clientHeight / 2;
    }
    const isBelow = y + high + 6 + offsetHeight < this.place.scrollTop + clientHeight;
    this.label.style.top = `${isBelow ? y + high + 6 : Math.max(y - offsetHeight - 6, 0)}px`;
  }

  /** All that is known of a frame. @param {Frame} frame @returns {string[]} */
  words(frame) {
    const root = this.root ?? frame;
    const isZoomed = this.orders.value !== "sandwich";
    return wordsOf(frame, root, isZoomed ? this.focus ?? root : root, this.measured);
  }

  /** @param {string} find */
  showFound(find) {
    const { root, focus } = this;
    const { column, unit } = this.measured;
    this.found.textContent = "";
    if (!find || !root || !focus) return;
    const place = this.orders.value === "sandwich" ? this.whole() : focus;
    const { sum, count } = matchesOf(place, find, column);
    const all = root.sums[column] || 1;
    const zoomed = place.sums[column] || 1;
    const ofZoom = place.parent ? `, ${percent(100 * sum / zoomed)} of the zoom` : "";
    this.found.textContent = count === 0 ? "nothing found" : `${count.toLocaleString("en-US")} `
      + `found: ${human(sum, unit)}, ${percent(100 * sum / all)} of all${ofZoom}`;
  }

  /** What is zoomed into, with the way back. */
  showFocus() {
    const { focus, picked } = this;
    picked.replaceChildren();
    const isSandwich = this.orders.value === "sandwich";
    if (!focus || (!focus.parent && !isSandwich)) return;
    const [name, ...facts] = this.words(focus);
    picked.append(element("p", { class: "picked-title" }, element("b", {}, name), " ",
      action(isSandwich ? "Whole graph" : "Zoom out", { class: "page" }, () => this.stepOut()),
      ...(isSandwich ? [] : [" ", action("Callers and callees", { class: "page" },
        () => this.turnTo(focus.name))]), " ",
    action("All that is known of it", { class: "page" },
      () => stateOf("details").set({ of: focus.name }))),
    element("p", {}, facts.join("; ")));
    if (isSandwich) return;
    const path = pathTo(focus).slice(1, -1).map(({ name: text }) => text);
    if (!path.length) return;
    picked.append(element("p", { class: "faint" }, path.slice(-FACTS).join(" \u203a ")));
  }

  /** @returns {import("../model.js").Table} */
  table() {
    const whole = this.whole();
    const focus = this.orders.value === "callers" ? whole : this.focus ?? whole;
    return tableOf(focus, whole.sums[this.measured.column], this.shown.title, this.measured);
  }

  showNote() {
    const { of } = this.packed ?? {};
    const { total } = this.shown.data;
    const count = this.shown.details.length + this.shown.cut.length;
    const said = [];
    if (of) said.push(of === 1 ? "One step." : `The mean of ${of} steps.`);
    if (total > count) {
      said.push(`${count} of ${total} ranks: the first, least, median, most work.`);
    }
    this.note.textContent = said.join(" ");
  }
}
