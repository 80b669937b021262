// Memory over time: bands of stacks, asked with the pointer or keys, and single allocations.

import { letDrag } from "../charts/pointer.js";
import { action, element, menu, shape } from "../elements.js";
import { claimNow, isNamed } from "../evidence.js";
import { human } from "../format.js";
import { detailOf, madeTable } from "../model.js";
import { saves } from "../save.js";
import { foldedTable, placedTable } from "../table.js";
import { allocatedAt, allocationsOf, axisOf, bandAt, bandName, instantAt, shortageWords, stepAt,
  tableOf, wordsOf } from "./memory_bands.js";
import { plotOf } from "./memory_plot.js";
import { follow, pointedLabel, putDrawing } from "./pointed.js";
import { lookOf, whenSized } from "./sized.js";

/** @typedef {import("./memory_bands.js").Track} Track */
/** @typedef {import("./memory_bands.js").Stack} Stack */
/** @typedef {import("../model.js").DrawingData} DrawingData */
/** @typedef {import("./state.js").State} State */
/** @typedef {{at: number, band: number}} Place an instant, and a band or -1 */

const SINGLE = "allocations, one by one";
const NEARBY = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/**
 * @param {DrawingData} shown
 * @param {State} state
 */
export function drawMemory(shown, state) {
  return new MemoryView(shown, state).made;
}

class MemoryView {
  /** @param {DrawingData} shown @param {State} state */
  constructor(shown, state) {
    this.title = shown.title;
    this.state = state;
    this.blocks = new Map(shown.details.map(({ name, block }) => [name, block]));
    const { devices, first, total } = shown.data;
    /** @type {string[]} */
    this.names = devices.filter((/** @type {string} */ name, /** @type {number} */ index) => (
      index === 0 || this.blocks.has(name)));
    /** @type {Map<string, Track>} */
    this.tracks = new Map([[this.names[0], first]]);
    this.devices = this.select("Device", this.names, "device");
    this.axes = this.select("Axis", ["entries", "time"], "axis");
    this.alarm = element("div");
    this.place = element("div", { class: "plot" });
    this.label = pointedLabel();
    this.picked = element("div", { class: "picked" });
    this.rows = foldedTable("As a table", () => this.table());
    this.single = foldedTable("Allocations, one by one", () => this.allocations());
    this.made = element("div", { class: "memory" }, this.tools(), this.alarm, this.place,
      this.picked, ...(total > devices.length ? [element("p", { class: "note" },
        `${devices.length} of ${total} devices: those with the highest peaks.`)] : []),
      this.rows.made, ...(this.blocks.has(SINGLE) ? [this.single.made] : []));
    state.onChange(() => this.show());
    whenSized(this.place, () => this.show());
  }

  /** @param {string} name @param {string[]} values @param {string} key */
  select(name, values, key) {
    return menu({ "aria-label": name }, values.map((value) => (
      [value, key === "axis" ? `by ${value}` : value])), (value) => {
      this.state.set({ [key]: value === values[0] ? "" : value, at: "", from: "", to: "" });
      this.show();
    });
  }

  tools() {
    return element("div", { class: "drawing-tools" },
      ...(this.names.length > 1 ? [this.devices] : []), this.axes,
      action("Peak", { class: "page" }, () => this.pick({ at: this.track?.peak ?? 0, band: -1 })),
      saves(this.title, this.place, () => this.table()));
  }

  show() {
    const ofRank = this.names.find((one) => one.startsWith(`rank ${this.state.get("rank")},`));
    const asked = this.state.get("device") || ofRank || "";
    this.devices.selectedIndex = Math.max(this.names.indexOf(asked), 0);
    const name = this.names[this.devices.selectedIndex];
    const known = this.tracks.get(name);
    if (known) {
      this.draw(known);
      return;
    }
    detailOf(this.blocks.get(name) ?? "").then((track) => {
      this.tracks.set(name, track);
      this.show();
    });
  }

  /** @param {Track} track */
  draw(track) {
    if (!this.place.clientWidth) return;
    this.track = track;
    this.axes.selectedIndex = this.state.get("axis") === "time" ? 1 : 0;
    this.axes.hidden = track.time_ns.length === 0;
    this.axis = axisOf(track, this.state.get("axis"));
    const [from, to] = [this.state.get("from"), this.state.get("to")].map(Number);
    /** @type {[number, number] | null} */
    const window = to > from ? [from, to] : null;
    const claim = claimNow();
    const lit = claim ? [...track.stack.keys()].filter((band) => (
      isNamed(claim, track.lines[track.stack[band]] ?? ""))) : [];
    const plot = plotOf(track, this.axis, window, lookOf(this.place), lit);
    this.plot = plot;
    const { svg } = plot;
    putDrawing(this.place, svg, this.label, `${this.title}. Left and right go through instants, up `
      + "and down through what is held, Enter keeps a place; the table below has the numbers.");
    this.listen(svg);
    letDrag(svg, plot.frame, (start, end) => this.look(plot.valueAt(start), plot.valueAt(end)));
    if (window) {
      this.place.append(action("Show all", { class: "whole-axis" }, () => this.look(0, 0)));
    }
    this.showAlarm(track);
    this.showPicked();
  }

  /** @param {number} from @param {number} to */
  look(from, to) {
    this.state.set(to > from ? { from: from.toFixed(0), to: to.toFixed(0) } : { from: "", to: "" });
    this.show();
  }

  /** @param {SVGSVGElement} svg */
  listen(svg) {
    /** @type {Place} */
    let place = { at: -1, band: 0 };
    follow(svg, (x, y) => this.under(x, y), (spot) => this.point(spot), (spot) => this.pick(spot),
      (event) => {
      const by = NEARBY[/** @type {keyof typeof NEARBY} */ (event.key)];
      if (event.key === "Enter" && place.at >= 0) this.pick(place);
      if (!by || !this.track) return;
      event.preventDefault();
      const { event: instants, live_bytes: bands, peak } = this.track;
      place = place.at < 0 ? { at: peak, band: 0 }
        : { at: Math.min(Math.max(place.at + by[0], 0), instants.length - 1),
          band: (place.band + by[1] + bands.length) % bands.length };
      this.point(place);
    });
  }

  /** @param {number} x @param {number} y @returns {Place | null} */
  under(x, y) {
    const { plot, axis } = this;
    if (!plot || !axis) return null;
    const { left, right, top, bottom } = plot.frame;
    if (x < left || x > right || y < top || y > bottom) return null;
    const at = instantAt(axis.at, plot.valueAt(x));
    return { at, band: bandAt(plot.upper, at, plot.bytesAt(y)) };
  }

  /** @param {Place | null} place */
  point(place) {
    const { plot, track, axis } = this;
    this.label.hidden = !place;
    plot?.svg.querySelector(".at")?.remove();
    if (!place || !plot || !track || !axis) return;
    const x = plot.across(axis.at[place.at]);
    plot.svg.append(this.outline(place, "at"));
    this.label.replaceChildren(...wordsOf(track, axis, place.at, place.band)
      .map((text) => element("div", {}, text)));
    const width = this.label.offsetWidth;
    const left = x + 14 + width < this.place.clientWidth ? x + 14 : Math.max(x - 14 - width, 0);
    this.label.style.left = `${left}px`;
    const y = place.band < 0 ? plot.frame.top : plot.up(plot.upper[place.band][place.at]);
    this.label.style.top = `${Math.max(y - this.label.offsetHeight - 6, 0)}px`;
  }

  /** @param {Place} place @param {string} kind */
  outline({ at, band }, kind) {
    const { plot, axis } = this;
    const made = shape("g", { class: kind, "clip-path": "url(#memory-frame)" });
    if (!plot || !axis) return made;
    const x = plot.across(axis.at[at]);
    made.append(shape("line", { x1: x, x2: x, y1: plot.frame.top, y2: plot.frame.bottom }));
    if (band >= 0) made.append(shape("path", { d: plot.pathOf(band) }));
    return made;
  }

  /** @param {Place | null} place nothing forgets */
  pick(place) {
    this.state.set({ at: place ? `${place.at}~${place.band}` : "" });
    this.showPicked();
  }

  /** @returns {Place | null} */
  chosen() {
    const [at, band] = this.state.get("at").split("~").map(Number);
    const { track } = this;
    const isThere = track && this.state.get("at") && track.event[at] !== undefined
      && (band === -1 || track.live_bytes[band] !== undefined);
    return isThere ? { at, band } : null;
  }

  showPicked() {
    const { plot, track, axis } = this;
    const place = this.chosen();
    this.picked.replaceChildren();
    plot?.svg.querySelector(".chosen")?.remove();
    this.single.refresh();
    if (!place || !plot || !track || !axis) return;
    plot.svg.append(this.outline(place, "chosen"));
    const [where, allocated] = wordsOf(track, axis, place.at, -1);
    this.picked.append(element("p", { class: "picked-title" }, element("b", {}, where), " ",
      `${allocated}. `, action("Close", { class: "page" }, () => this.pick(null))));
    if (place.band < 0) {
      this.picked.append(this.held(place.at));
      return;
    }
    const stack = track.stacks[track.stack[place.band]];
    const live = track.live_bytes[place.band];
    this.picked.append(element("p", {}, `${human(live[place.at], "bytes")} here, `
      + `${human(Math.max(...live), "bytes")} at its most: ${bandName(track, place.band)}`));
    if (stack) this.picked.append(stackOf(stack));
  }

  /** What is held at an instant, the most first. @param {number} at */
  held(at) {
    const { track } = this;
    if (!track) return "";
    const total = Math.max(allocatedAt(track, at), 1);
    const bands = track.live_bytes.map((live, band) => ({ band, live: live[at] }))
      .filter(({ live }) => live > 0).sort((a, b) => b.live - a.live);
    return placedTable(madeTable(`Held in ${stepAt(track, at) || "set-up"}`,
      [{ label: "Line", unit: "" }, { label: "Origin", unit: "" },
        { label: "Held", unit: "bytes" }, { label: "Of all", unit: "share" }],
      bands.map(({ band, live }) => [bandName(track, band),
        track.origins[track.origin[band]], live, live / total]), [2, 3]), 10);
  }

  /** @param {Track} track */
  showAlarm(track) {
    this.alarm.replaceChildren(...track.out_of_memory.map((one) => element("div",
      { class: "banner failed" }, element("p", {}, shortageWords(one, track.fits_with)),
      ...(one.stack.frames.length ? [stackOf(one.stack)] : []))));
  }

  table() {
    if (!this.track || !this.axis) throw new Error("the memory is not drawn yet");
    return tableOf(this.track, this.axis, this.title);
  }

  async allocations() {
    const single = await detailOf(this.blocks.get(SINGLE) ?? "");
    const { track } = this;
    const place = this.devices.selectedIndex === 0 ? this.chosen() : null;
    const [of, all] = [single.size_bytes.length, single.total]
      .map((count) => count.toLocaleString("en-US"));
    const title = of === all ? "Allocations" : `The largest ${of} of ${all} allocations`;
    if (!place || !track || place.band < 0) return allocationsOf(single, null, title);
    const where = { event: track.event[place.at], line: track.lines[track.stack[place.band]] ?? "",
      origin: track.origins[track.origin[place.band]] };
    return allocationsOf(single, where, `${title}: those at the chosen place`);
  }
}

/** A stack from the innermost frame: the program's lines, and all of it on demand. @param {Stack} stack */
function stackOf({ frames, own }) {
  const list = (/** @type {string[]} */ shown) => element("ol", { class: "stack" },
    ...shown.map((frame) => element("li", {}, frame)));
  const made = element("div");
  if (own.length) made.append(list(own.slice(0, 8).map((at) => frames[at])));
  made.append(element("details", { class: "explain", ...(own.length ? {} : { open: "" }) },
    element("summary", {}, `All ${frames.length} frames, the innermost first`), list(frames)));
  return made;
}
