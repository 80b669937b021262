// A timeline on a canvas: its controls, the view, and what is known of what the reader chose.

import { action, element, menu, searchBox } from "../elements.js";
import { claimNow, isNamed } from "../evidence.js";
import { human } from "../format.js";
import { detailOf, report } from "../model.js";
import { save, saveCanvas, saveSvg } from "../save.js";
import { foldedTable } from "../table.js";
import { sceneOf, stacked, wholeOf } from "./timeline_data.js";
import { hasWords } from "./timeline_find.js";
import { KEYS, listenToKeys } from "./timeline_keys.js";
import { rangeTable, slicePanel, totalsTable } from "./timeline_panel.js";
import { archiveOf, openInPerfetto } from "./timeline_perfetto.js";
import { canvasOf, svgOf } from "./timeline_picture.js";
import { listen } from "./timeline_pointer.js";
import { TimelineView } from "./timeline_view.js";
import { spanOf } from "./timeline_window.js";

/** @typedef {import("../model.js").DrawingData} DrawingData */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./timeline_data.js").Scene} Scene */
/** @typedef {import("./timeline_find.js").Slice} Slice */

const RESTING_MS = 400;
const WHOLE = "whole";
const BOTH = "both";

/** @param {DrawingData} shown @param {State} state @returns {Node} */
export function drawTimeline(shown, state) {
  return new Timeline(shown, state).place;
}

/** @param {{rank: number, roles: string[]}} one */
function rankTitle({ rank, roles }) {
  return `rank ${rank}${roles.length ? ` (${roles.join(", ")})` : ""}`;
}

class Timeline {
  /** @param {DrawingData} shown @param {State} state */
  constructor(shown, state) {
    this.shown = shown;
    this.state = state;
    /** @type {Map<string, Promise<Scene>>} */
    this.scenes = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.resting = undefined;
    this.view = new TimelineView((what) => this.follow(what));
    this.panel = element("div", { class: "timeline-panel", "aria-live": "polite" });
    this.inRange = element("div", { class: "timeline-range" });
    this.left = element("p", { class: "note" });
    this.behind = foldedTable("Table of what is in sight", () => this.tableBehind());
    this.steps = menu({ "aria-label": "What is shown" }, this.choices(),
      (value) => this.turnTo(value));
    this.ranks = menu({ "aria-label": "Ranks" }, [["", "all ranks shown"],
      ...shown.data.ranks.map((/** @type {any} */ one) => [String(one.rank), rankTitle(one)])],
    (rank) => this.set({ rank }));
    this.search = searchBox("Search slices", "Search slices", (find) => this.set({ find }, false));
    this.count = element("span", { class: "timeline-count", role: "status" });
    const { view } = this;
    this.tools = this.controls();
    this.place = element("div", { class: "timeline" }, this.tools, view.minimap, view.scroller,
      view.label, this.keys(), ...this.clock(), this.left, this.panel, this.inRange,
      this.behind.made);
    listenToKeys(view, () => this.forget());
    listen(view.canvas, this.acts());
    this.listenToMinimap();
    new ResizeObserver(() => { if (view.width !== view.arranged) view.arrange(); })
      .observe(this.place);
    new MutationObserver(() => view.resize()).observe(document.documentElement,
      { attributes: true, attributeFilter: ["data-theme", "class"] });
    state.onChange(() => this.restore());
    this.restore();
  }

  /** @returns {[string, string][]} what there is to look at, by name */
  choices() {
    const { details } = this.shown;
    /** @type {[string, string][]} */
    const made = details.map(({ name }, i) => [String(i), name]);
    if (details.length > 1) made.push([BOTH, `${details[0].name} above ${details[1].name}`]);
    return [...made, [WHOLE, "the whole recording"]];
  }

  controls() {
    const { view, search } = this;
    this.ranks.hidden = this.ranks.options.length < 3;
    search.addEventListener("keydown", ({ key, shiftKey }) => {
      if (key === "Enter") this.turnFound(shiftKey ? -1 : 1);
    });
    const select = action("Choose a range", { "aria-pressed": "false" }, () => {
      view.isSelecting = !view.isSelecting;
      select.setAttribute("aria-pressed", String(view.isSelecting));
    });
    return element("div", { class: "timeline-tools" }, this.steps, this.ranks, search, this.count,
      element("span", { class: "timeline-buttons" },
        action("\u2212", { "aria-label": "Zoom out" }, () => view.zoom(1.6)),
        action("+", { "aria-label": "Zoom in" }, () => view.zoom(1 / 1.6)),
        action("Fit", { "aria-label": "Fit the chosen slice or range" }, () => view.fit()),
        action("All", { title: "Show everything" }, () => view.whole()), select,
        this.save("SVG", () => saveSvg(svgOf(view), "timeline")),
        this.save("PNG", () => saveCanvas(canvasOf(view), "timeline")),
        action("tar", { class: "save", "aria-label": "Save the timeline as tar for Perfetto" },
          () => save(archiveOf(view.scene, this.title()), "timeline.tar")),
        action("Open in Perfetto", { class: "save",
          title: "In a tab of ui.perfetto.dev, which sends nothing from this machine" },
        () => openInPerfetto(archiveOf(view.scene, this.title()), this.title()))));
  }

  title() {
    return `${report().title}, ${this.steps.selectedOptions[0].text}`;
  }

  /** @param {string} kind @param {() => void} act */
  save(kind, act) {
    return action(kind, { class: "save",
      "aria-label": `Save what is seen of the timeline as ${kind}` }, act);
  }

  keys() {
    return element("p", { class: "note timeline-keys", id: "timeline-keys" },
      ...KEYS.flatMap(([key, what], i) => [i ? ", " : "", element("kbd", {}, key), ` ${what}`]));
  }

  /** What the reader must know of the clocks. @returns {Node[]} */
  clock() {
    const { ranks, ranks_recorded: recorded } = this.shown.data;
    if (recorded === 1) return [];
    const known = ranks.filter((/** @type {any} */ one) => one.residual_ns >= 0);
    const most = Math.max(0, ...known.map((/** @type {any} */ one) => one.residual_ns));
    const sentences = [];
    if (ranks.length < recorded) {
      sentences.push(`${ranks.length} of ${recorded} ranks are shown, chosen by the time that they`,
        "work in a step.");
    }
    if (known.length) {
      sentences.push("Ranks are on one clock by the ends of their collectives, which then agree to",
        `${human(most, "ns")} (median of the worst rank, in the repeat that is shown).`);
    }
    const apart = ranks.filter((/** @type {any} */ one) => one.residual_ns < 0).map(rankTitle);
    if (apart.length) {
      sentences.push(`The clocks of ${apart.join(", ")} are not aligned:`,
        "no collective connects them.");
    }
    return [element("p", { class: "note" }, sentences.join(" "))];
  }

  tableBehind() {
    const { lanes, seen } = this.view;
    return totalsTable(lanes, seen, `From ${human(seen.from, "ns")} to ${human(seen.to, "ns")}`);
  }

  /** @param {Record<string, string>} values @param {boolean} [isStep] */
  set(values, isStep = true) {
    if (this.resting !== undefined) this.rest();
    this.state.set(values, isStep);
    this.restore();
  }

  /** @param {string} name of a choice */
  turnTo(name) {
    const show = name === this.choices()[0][0] ? "" : name;
    this.set({ show, from: "", to: "", pick: "", range: "" });
  }

  /** @param {string} name of a choice @returns {Promise<Scene>} */
  sceneCalled(name) {
    const made = this.scenes.get(name) ?? this.opened(name);
    this.scenes.set(name, made);
    return made;
  }

  /** @param {string} name of a choice @returns {Promise<Scene>} */
  async opened(name) {
    const { data, details } = this.shown;
    const groupOf = (/** @type {number} */ rank) => rankTitle(
      data.ranks.find((/** @type {any} */ one) => one.rank === rank) ?? { rank, roles: [] });
    if (name === WHOLE) return wholeOf(data, groupOf);
    if (name !== BOTH) return sceneOf(await detailOf(details[Number(name)].block), groupOf);
    const scenes = await Promise.all(["0", "1"].map((one) => this.sceneCalled(one)));
    return stacked([[details[0].name, scenes[0]], [details[1].name, scenes[1]]]);
  }

  /** Shows what the hash says. */
  async restore() {
    const { state, view } = this;
    const choices = this.choices().map(([name]) => name);
    const ofStep = this.shown.details.findIndex((one) => (
      one.name.split(" ")[1] === state.get("step")));
    const asked = state.get("show") || String(ofStep);
    const name = choices.includes(asked) ? asked : choices[0];
    this.place.setAttribute("aria-busy", "true");
    const scene = await this.sceneCalled(name);
    this.steps.value = name;
    const isThere = scene.lanes.some((lane) => String(lane.rank) === state.get("rank"));
    const rank = isThere ? state.get("rank") : "";
    this.ranks.value = rank;
    view.show(scene, (lane) => rank === "" || String(lane.rank) === rank);
    const shown = this.steps.selectedOptions[0]?.text;
    view.canvas.setAttribute("aria-label", `Timeline of ${shown}: ${view.lanes.length} tracks, `
      + human(scene.length, "ns"));
    view.look(spanOf(state.get("from"), state.get("to"), scene.length), true);
    const [from, to] = state.get("range").split("-").map(Number);
    view.range = to > from ? { from, to } : null;
    const [lane, index] = state.get("pick").split(".").map(Number);
    const isPicked = state.get("pick") !== "" && index < (scene.lanes[lane]?.start.length ?? 0);
    view.picked = isPicked ? { lane: scene.lanes[lane], index } : null;
    if (document.activeElement !== this.search) this.search.value = state.get("find");
    this.showFound(this.searched());
    this.showLeftOut(scene);
    this.showPicked();
    this.showRange();
    this.behind.refresh();
    this.place.removeAttribute("aria-busy");
  }

  /** Slices that the reader searches, or else those that the highlighted claim rests on. */
  searched() {
    const text = this.state.get("find");
    if (text) return this.view.search(hasWords(text));
    const claim = claimNow();
    const evidence = this.view.search(claim && ((name) => isNamed(claim, name)));
    return evidence?.slices.length ? evidence : this.view.search(null);
  }

  /** @param {Scene} scene */
  showLeftOut({ leftOut }) {
    const many = `${leftOut.slices.toLocaleString("en-US")} slices`;
    this.left.textContent = leftOut.slices
      ? `${leftOut.slices === 1 ? "1 slice" : many} found no room here: the shortest of the`
        + ` CPU threads, none longer than ${human(leftOut.longest_ns, "ns")}. profkit timeline`
        + " writes them all for Perfetto." : "";
    this.left.hidden = leftOut.slices === 0;
  }

  /** @param {import("./timeline_find.js").Matches | null} found */
  showFound(found) {
    const count = found?.slices.length.toLocaleString("en-US");
    this.count.textContent = found ? `${count} found, ${human(found.time, "ns")} in all` : "";
  }

  /** @param {1 | -1} by */
  turnFound(by) {
    const { found, picked } = this.view;
    if (!found?.slices.length) return;
    const isPicked = (/** @type {Slice} */ one) => (
      one.lane === picked?.lane && one.index === picked.index);
    const at = found.slices.findIndex(isPicked);
    const next = (at + by + found.slices.length) % found.slices.length;
    this.view.pick(found.slices[next], true);
  }

  showPicked() {
    const { picked } = this.view;
    this.panel.replaceChildren(...(picked ? [slicePanel(picked, this.view.linked(),
      this.view.scene.length, (slice) => this.view.pick(slice, true))] : []));
    if (picked?.lane.kind === "steps") this.panel.append(this.openStep(picked));
  }

  /** @param {Slice} slice a step of the whole recording */
  openStep({ lane, index }) {
    const step = lane.names[lane.name[index]].split(" (")[0];
    const at = this.shown.details.findIndex(({ name }) => name.split(" (")[0] === step);
    return at < 0 ? element("p", { class: "note" }, "This step is not in this page. ",
      element("code", {}, "profkit timeline RUN --steps"), " draws any step for Perfetto.")
      : action("Show this step in full", { class: "timeline-link" }, () => this.turnTo(String(at)));
  }

  showRange() {
    const { range, lanes } = this.view;
    this.inRange.replaceChildren(...(range ? [rangeTable(lanes, range,
      `What is in ${human(range.to - range.from, "ns")} from ${human(range.from, "ns")}`)] : []));
  }

  /** @param {"seen" | "picked" | "range"} what */
  follow(what) {
    const { view, state } = this;
    if (what === "picked") {
      this.showPicked();
      const { picked } = view;
      const lane = picked ? view.scene.lanes.indexOf(picked.lane) : -1;
      state.set({ pick: picked ? `${lane}.${picked.index}` : "" }, false);
    } else if (what === "range") {
      this.showRange();
      const { range } = view;
      state.set({ range: range ? `${Math.round(range.from)}-${Math.round(range.to)}` : "" });
    } else {
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.rest(), RESTING_MS);
    }
  }

  /** Keeps what is seen, once the reader has stopped moving. */
  rest() {
    const { seen, scene } = this.view;
    clearTimeout(this.resting);
    this.resting = undefined;
    if (!this.place.isConnected) return;
    const isAll = seen.from <= 0 && seen.to >= scene.length;
    this.state.set(isAll ? { from: "", to: "" }
      : { from: String(Math.round(seen.from)), to: String(Math.round(seen.to)) });
    this.behind.refresh();
  }

  forget() {
    this.search.value = "";
    this.set({ pick: "", range: "", find: "" });
  }

  /** @returns {import("./timeline_pointer.js").Acts} */
  acts() {
    const { view } = this;
    return {
      hover: (x, y) => view.point(view.wordsAt(x, y), { x, y }),
      leave: () => view.point([], { x: 0, y: 0 }),
      pick: (x, y) => view.pick(view.sliceAt(x, y)),
      fit: (x, y) => {
        if (view.sliceAt(x, y)) view.fit();
        else view.zoom(0.5, x);
      },
      drag: (dx, dy) => view.drag(dx, dy),
      zoom: (factor, x) => view.zoom(factor, x),
      select: (from, to, isDone) => {
        const range = { from: view.timeAt(from), to: view.timeAt(to) };
        if (isDone) view.choose(range);
        else view.range = range;
        view.ask();
      },
      isSelecting: () => view.isSelecting,
    };
  }

  listenToMinimap() {
    const { minimap } = this.view;
    const center = (/** @type {PointerEvent} */ event) => {
      const { seen, scene } = this.view;
      const box = minimap.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * scene.length;
      const half = (seen.to - seen.from) / 2;
      this.view.look({ from: at - half, to: at + half });
    };
    minimap.addEventListener("pointerdown", (event) => {
      minimap.setPointerCapture(event.pointerId);
      center(event);
    });
    minimap.addEventListener("pointermove", (event) => {
      if (event.buttons) center(event);
    });
  }
}
