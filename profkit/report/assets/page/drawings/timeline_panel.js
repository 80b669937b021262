// Below the canvas: what is known of the chosen slice, and what is in a range.

import { action, element } from "../elements.js";
import { human } from "../format.js";
import { madeTable, report } from "../model.js";
import { placedTable } from "../table.js";
import { knownOf } from "./timeline_data.js";
import { stateOf } from "./state.js";
import { around, totalsOf } from "./timeline_find.js";

/** @typedef {import("./timeline_data.js").Lane} Lane */
/** @typedef {import("./timeline_find.js").Slice} Slice */
/** @typedef {import("./timeline_window.js").Span} Span */

/** What columns of what is known are called. @type {Record<string, [string, string]>} */
const LABELS = {
  kind: ["Kind", ""], line: ["Line", ""], module: ["Module", ""], phase: ["Phase", ""],
  input_shapes: ["Shapes of the inputs", ""], inputs: ["Other arguments", ""],
  operator: ["Operator", ""], grid: ["Grid", ""], block: ["Block", ""],
  registers: ["Registers per thread", ""], shared_memory_bytes: ["Shared memory", "bytes"],
  occupancy_percent: ["Estimated occupancy", "percent"], size_bytes: ["Size", "bytes"],
  copy_kind: ["Direction", ""], group: ["Group", ""], group_description: ["Group", ""],
  group_ranks: ["Ranks of the group", ""], dtype: ["Data type", ""],
  wait_ns: ["Waited for the last rank", "ns"], last: ["Came last", ""], cause: ["Cause", ""],
};
/** @type {Record<string, string>} */
const LINKED = { collectives: "The same call on other ranks", gpu: "Launched by" };
const MOST_LINKS = 8;
const MOST_AROUND = 12;

/** @param {Slice} slice */
export function nameOf({ lane, index }) {
  return lane.names[lane.name[index]] || "(no name)";
}

/** @param {Slice} slice @returns {number} in ns */
export function timeOf({ lane, index }) {
  return lane.end[index] - lane.start[index];
}

/** @param {Slice} slice @returns {string[]} exact values for a label */
export function wordsOf(slice) {
  const { lane, index } = slice;
  const exact = timeOf(slice).toLocaleString("en-US");
  const words = [nameOf(slice),
    `${human(timeOf(slice), "ns")} (${exact} ns), from ${human(lane.start[index], "ns")}`];
  const waited = knownOf(lane, index).find(([name]) => name === "wait_ns");
  if (waited) words.push(`of which ${human(waited[1], "ns")} waiting for the last rank`);
  return [...words, [lane.group, lane.title].filter(Boolean).join(", ")];
}

/**
 * @param {Slice} slice
 * @param {Slice[]} linked what belongs to it
 * @param {number} length of the scene
 * @param {(slice: Slice) => void} choose
 * @returns {Node}
 */
export function slicePanel(slice, linked, length, choose) {
  const { lane, index } = slice;
  const facts = [
    ["Time", human(timeOf(slice), "ns")],
    ["Share of what is shown", human(timeOf(slice) / length, "share")],
    ["Starts at", human(lane.start[index], "ns")],
    ["Where", [lane.group, lane.title].filter(Boolean).join(", ")],
    ...knownOf(lane, index).filter(([name]) => name !== "cause").map(([name, value]) => {
      const [label, unit] = LABELS[name] ?? [name, ""];
      return [label, name === "last" ? (value ? "yes" : "no") : human(value, unit)];
    }),
  ];
  const made = element("div", { class: "timeline-slice" }, element("h4", {}, nameOf(slice)),
    action("All that is known of it", { class: "timeline-link" },
      () => stateOf("details").set({ of: nameOf(slice) })),
    element("dl", { class: "items" }, ...facts.map(([label, value]) => (
      element("div", {}, element("dt", {}, label), element("dd", {}, value))))));
  const above = ancestors(slice);
  if (above.length) made.append(links("Inside", above, choose));
  const others = linked.filter((one) => one.lane !== lane || one.index !== index);
  const title = LINKED[lane.kind] ?? "Launched";
  if (others.length) made.append(links(title, others, choose, lane.start[index]));
  return made;
}

/** @param {Slice} slice */
function ancestors(slice) {
  /** @type {Slice[]} */
  const found = [];
  for (let one = around(slice); one && found.length < MOST_AROUND; one = around(one)) {
    found.push(one);
  }
  return found;
}

/**
 * @param {string} title
 * @param {Slice[]} slices
 * @param {(slice: Slice) => void} choose
 * @param {number} [origin] time that the distance is told from
 */
function links(title, slices, choose, origin) {
  const shown = slices.slice(0, MOST_LINKS);
  const made = element("p", { class: "timeline-links" }, element("b", {}, `${title}: `),
    ...shown.map((one) => {
      const where = origin === undefined ? ""
        : `, ${one.lane.group}, ${distance(one.lane.start[one.index] - origin)}`;
      return action(`${nameOf(one).slice(0, 80)} (${human(timeOf(one), "ns")}${where})`,
        { class: "timeline-link" }, () => choose(one));
    }));
  if (slices.length > shown.length) made.append(` and ${slices.length - shown.length} more`);
  return made;
}

/** @param {number} ns */
function distance(ns) {
  if (ns === 0) return "at the same time";
  return `${human(Math.abs(ns), "ns")} ${ns > 0 ? "later" : "earlier"}`;
}

/** @type {Record<string, string>} */
const KINDS = { causes: "Cause", phases: "Phase", cpu: "CPU", python: "Python", gpu: "GPU",
  collectives: "Collective", steps: "Step" };

/**
 * What is in a span.
 * @param {Lane[]} lanes
 * @param {Span} span
 * @param {string} title
 */
export function totalsTable(lanes, span, title) {
  const length = span.to - span.from;
  return madeTable(title,
    [{ label: "Name", unit: "" }, { label: "Track", unit: "" },
      { label: "Where", unit: "" }, { label: "Time", unit: "ns" },
      { label: "Time of its own", unit: "ns" }, { label: "Share of the range", unit: "share" },
      { label: "Slices", unit: "count" }],
    totalsOf(lanes, span).map(({ name, kind, group, time, self, count }) => (
      [name, KINDS[kind] ?? kind, group, time, self, time / length, count])));
}

/** @param {Lane[]} lanes @param {Span} span @param {string} title @returns {Node} */
export function rangeTable(lanes, span, title) {
  return element("div", { class: "table" }, element("h4", { class: "table-title" }, title),
    placedTable(totalsTable(lanes, span, title), report().rows_per_page));
}
