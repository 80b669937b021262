// One timeline on the page: what is seen, chosen and folded, and the canvas that shows it.

import { action, element } from "../elements.js";
import { human } from "../format.js";
import { paletteOf } from "./timeline_colours.js";
import { linkedTo, matchesOf, meetingsIn, neighbour, pieceAt, sliceAt } from "./timeline_find.js";
import { AXIS, laneId, layoutOf, placedAt, startsFolded } from "./timeline_layout.js";
import { frameSeen, minimapHeight, paintMinimap } from "./timeline_minimap.js";
import { paint } from "./timeline_paint.js";
import { timeOf, wordsOf } from "./timeline_panel.js";
import { clamped, fitted, panned, zoomed } from "./timeline_window.js";

/** @typedef {import("./timeline_data.js").Lane} Lane */
/** @typedef {import("./timeline_data.js").Scene} Scene */
/** @typedef {import("./timeline_find.js").Slice} Slice */
/** @typedef {import("./timeline_window.js").Span} Span */
/** @typedef {{x: number, y: number}} Spot */

const REACH = 4;
const MOST_HEIGHT = 620;
const LEAST_HEIGHT = 140;
const MANY_RANKS = 2;
const MOST_LINKS = 40;

/** @type {Scene} */
const NOTHING = { length: 1, start: 0, lanes: [], leftOut: { slices: 0, longest_ns: 0 } };

export class TimelineView {
  /** @param {(what: "seen" | "picked" | "range") => void} changed what follows an act of the reader */
  constructor(changed) {
    this.changed = changed;
    /** @type {Scene} */
    this.scene = NOTHING;
    /** @type {Lane[]} */
    this.lanes = [];
    /** @type {Span} */
    this.seen = { from: 0, to: 1 };
    /** @type {Slice | null} */
    this.picked = null;
    /** @type {Span | null} */
    this.range = null;
    /** @type {import("./timeline_find.js").Matches | null} */
    this.found = null;
    /** @type {Set<string>} */
    this.folded = new Set();
    /** What belongs to a chosen slice. @type {{of: Slice | null, slices: Slice[]}} */
    this.known = { of: null, slices: [] };
    this.layout = layoutOf([], this.folded);
    /** Width that lanes were put in place for. */
    this.arranged = 0;
    this.isSelecting = false;
    this.isAsked = false;
    this.canvas = element("canvas", { class: "timeline-canvas", tabindex: 0, role: "application",
      "aria-roledescription": "timeline", "aria-describedby": "timeline-keys" });
    this.minimap = element("canvas", { class: "timeline-minimap", "aria-hidden": "true" });
    this.labels = element("div", { class: "timeline-labels" });
    this.sheet = element("div", { class: "timeline-sheet" }, this.labels, this.canvas);
    this.scroller = element("div", { class: "timeline-scroll" }, this.sheet);
    this.label = element("div", { class: "pointed", role: "status", hidden: "" });
    this.scroller.addEventListener("scroll", () => this.ask(), { passive: true });
    /** The minimap without the frame: it changes with the scene alone. */
    this.strip = document.createElement("canvas");
  }

  get width() {
    return this.canvas.clientWidth;
  }

  /** @param {Scene} scene @param {(lane: Lane) => boolean} isShown */
  show(scene, isShown) {
    const isOther = scene !== this.scene;
    this.scene = scene;
    if (isOther) {
      const crowded = new Set(scene.lanes.map(({ group }) => group)).size > MANY_RANKS;
      this.folded = new Set(scene.lanes.filter((one) => startsFolded(one, crowded)).map(laneId));
      this.picked = null;
      this.range = null;
      this.found = null;
    }
    this.lanes = scene.lanes.filter(isShown);
    this.arrange();
  }

  /** Puts lanes and their labels in place. */
  arrange() {
    this.layout = layoutOf(this.lanes, this.folded);
    const { placed, headings, height } = this.layout;
    this.labels.replaceChildren(
      ...headings.map(({ title, y }) => element("div", { class: "timeline-rank",
        style: `top: ${y}px` }, title)),
      ...placed.map((one) => this.labelOf(one)));
    this.sheet.style.height = `${height}px`;
    const room = Math.min(Math.max(height, LEAST_HEIGHT), MOST_HEIGHT, innerHeight * 0.75);
    this.scroller.style.height = `${room}px`;
    this.canvas.style.height = `${room}px`;
    this.arranged = this.width;
    this.resize();
  }

  /** @param {import("./timeline_layout.js").Placed} one */
  labelOf({ lane, y, height, isFolded }) {
    const style = `top: ${y}px; max-height: ${Math.max(height, 16)}px`;
    const title = `${lane.group}: ${lane.title}`;
    if (lane.rows === 1) {
      return element("div", { class: "timeline-lane", style, title }, lane.title);
    }
    return action(`${isFolded ? "▸" : "▾"} ${lane.title}`, { class: "timeline-lane", style, title,
      "aria-expanded": String(!isFolded) }, () => {
      const id = laneId(lane);
      if (!this.folded.delete(id)) this.folded.add(id);
      this.arrange();
    });
  }

  /** Gives the canvases the pixels of the screen. */
  resize() {
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    // On paper, or on no page, it keeps what it has.
    if (!width) return;
    [this.canvas.width, this.canvas.height] = [width * ratio, height * ratio].map(Math.round);
    const across = this.minimap.clientWidth;
    this.minimap.style.height = `${minimapHeight(this.scene)}px`;
    for (const one of [this.minimap, this.strip]) {
      [one.width, one.height] = [across * ratio, minimapHeight(this.scene) * ratio].map(Math.round);
    }
    this.palette = paletteOf(this.canvas);
    const pen = this.strip.getContext("2d");
    pen?.scale(ratio, ratio);
    if (pen) paintMinimap(pen, this.scene, across, this.palette);
    this.ask();
  }

  /** Asks for a frame. */
  ask() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.draw();
    });
  }

  draw() {
    const pen = this.canvas.getContext("2d");
    const overview = this.minimap.getContext("2d");
    const { width } = this;
    if (!pen || !overview || !this.palette || !width) return;
    const ratio = this.canvas.width / width;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paint(pen);
    overview.setTransform(1, 0, 0, 1, 0, 0);
    overview.drawImage(this.strip, 0, 0);
    overview.scale(ratio, ratio);
    frameSeen(overview, this.scene, this.seen, this.minimap.clientWidth, this.palette);
  }

  /** @param {import("./timeline_paint.js").Pen} pen */
  paint(pen) {
    if (!this.palette) return;
    paint({ pen, width: this.width, height: this.canvas.clientHeight,
      top: this.scroller.scrollTop, seen: this.seen, layout: this.layout, palette: this.palette,
      picked: this.picked, range: this.range, found: this.found ? this.found.names : null,
      links: this.linksInSight() });
  }

  /** @returns {Slice[][]} collectives if they are few, and what belongs to the chosen slice */
  linksInSight() {
    const all = meetingsIn(this.lanes, this.seen, MOST_LINKS);
    const own = this.linked();
    return own.length > 1 ? [...all, own] : all;
  }

  /** @returns {Slice[]} what belongs to the chosen slice, itself among it */
  linked() {
    const { picked, scene } = this;
    if (this.known.of !== picked) {
      this.known = { of: picked, slices: linkedTo(scene.lanes, picked) };
    }
    return this.known.slices;
  }

  /** @param {Span} span @param {boolean} [isQuiet] not an act of the reader's */
  look(span, isQuiet = false) {
    this.seen = clamped(span, this.scene.length);
    this.label.hidden = true;
    this.ask();
    if (!isQuiet) this.changed("seen");
  }

  /** @param {number} factor @param {number} [x] */
  zoom(factor, x = this.width / 2) {
    this.look(zoomed(this.seen, factor, this.timeAt(x), this.scene.length));
  }

  /** @param {number} share of what is seen, forwards */
  pan(share) {
    this.look(panned(this.seen, (this.seen.to - this.seen.from) * share, this.scene.length));
  }

  /** @param {number} dx @param {number} dy pixels that the sheet follows */
  drag(dx, dy) {
    this.scroller.scrollTop -= dy;
    this.pan(-dx / this.width);
  }

  whole() {
    this.look({ from: 0, to: this.scene.length });
  }

  fit() {
    const { picked, range } = this;
    const span = range ?? (picked
      && { from: picked.lane.start[picked.index], to: picked.lane.end[picked.index] });
    if (span) this.look(fitted(span, this.scene.length));
  }

  /** @param {number} x */
  timeAt(x) {
    return this.seen.from + (x / this.width) * (this.seen.to - this.seen.from);
  }

  /** @param {number} x @param {number} y on the canvas @returns {Slice | null} */
  sliceAt(x, y) {
    const down = y + this.scroller.scrollTop;
    const one = y < AXIS - 2 ? undefined : placedAt(this.layout, down);
    if (!one || one.lane.shape !== "slices") return null;
    const time = this.timeAt(x);
    const reach = (REACH * (this.seen.to - this.seen.from)) / this.width;
    const depths = one.isFolded ? [...one.lane.byDepth.keys()].reverse()
      : [Math.floor((down - one.y) / one.row)];
    for (const near of [0, reach]) {
      for (const depth of depths) {
        const index = sliceAt(one.lane, depth, time, near);
        if (index >= 0) return { lane: one.lane, index };
      }
    }
    return null;
  }

  /** @param {number} x @param {number} y @returns {string[]} what is there */
  wordsAt(x, y) {
    const slice = this.sliceAt(x, y);
    if (slice) return wordsOf(slice);
    const one = placedAt(this.layout, y + this.scroller.scrollTop);
    if (!one || one.lane.shape === "slices") return [];
    const piece = pieceAt(one.lane, this.timeAt(x));
    if (piece < 0 || one.lane.values[piece] < 0) return [];
    const value = one.lane.values[piece];
    const text = one.lane.shape === "busy" ? `busy ${human(value, "percent")}`
      : `${human(value, "bytes")} (${value.toLocaleString("en-US")} bytes)`;
    const at = `at ${human(one.lane.start[piece], "ns")}`;
    return [text, at, `${one.lane.group}, ${one.lane.title}`];
  }

  /** @param {string[]} words @param {Spot} spot */
  point(words, { x, y }) {
    this.label.hidden = words.length === 0;
    this.canvas.style.cursor = words.length ? "pointer" : "";
    if (!words.length) return;
    this.label.replaceChildren(...words.map((text) => element("div", {}, text.slice(0, 300))));
    const room = (this.label.parentElement?.clientWidth ?? 0) - this.label.offsetWidth;
    const left = this.canvas.offsetLeft + x + 14;
    const tall = this.label.offsetHeight;
    const top = this.scroller.offsetTop + y + (y > tall + 20 ? -tall - 10 : 18);
    this.label.style.left = `${Math.max(0, Math.min(left, room))}px`;
    this.label.style.top = `${top}px`;
  }

  /** @param {Slice | null} slice @param {boolean} [isNear] brought into sight */
  pick(slice, isNear = false) {
    this.picked = slice;
    if (slice && isNear) this.reveal(slice);
    this.ask();
    this.changed("picked");
  }

  /** @param {Slice} slice */
  reveal(slice) {
    const { lane, index } = slice;
    if (this.folded.has(laneId(lane)) && lane.depth[index] > 0) {
      this.folded.delete(laneId(lane));
      this.arrange();
    }
    const one = this.layout.placed.find((placed) => placed.lane === lane);
    if (one) {
      const y = one.y + lane.depth[index] * one.row;
      const { scrollTop, clientHeight } = this.scroller;
      const isSeen = y > scrollTop + AXIS && y < scrollTop + clientHeight - 20;
      if (!isSeen) this.scroller.scrollTop = y - clientHeight / 2;
    }
    const { from, to } = this.seen;
    const size = to - from;
    const [start, end] = [lane.start[index], lane.end[index]];
    const room = timeOf(slice) * 20;
    const isTiny = timeOf(slice) < size / this.width;
    if (isTiny) this.look({ from: start - room, to: end + room });
    else if (end < from || start > to) this.look({ from: start - size / 3, to: end + size / 3 });
  }

  /** @param {1 | -1} by */
  turn(by) {
    const next = this.picked ? neighbour(this.picked, by) : this.firstSeen();
    if (next) this.pick(next, true);
  }

  /** @returns {Slice | null} */
  firstSeen() {
    for (const { lane } of this.layout.placed) {
      const rows = lane.shape === "slices" ? lane.byDepth[0] : [];
      const index = rows.find((one) => lane.end[one] > this.seen.from);
      if (index !== undefined) return { lane, index };
    }
    return null;
  }

  /** @param {Span | null} range */
  choose(range) {
    const { length } = this.scene;
    this.range = range && { from: Math.max(range.from, 0), to: Math.min(range.to, length) };
    this.ask();
    this.changed("range");
  }

  /** @param {((name: string) => boolean) | null} isWanted names of slices, null for no search */
  search(isWanted) {
    this.found = isWanted && matchesOf(this.lanes, isWanted);
    this.ask();
    return this.found;
  }
}
