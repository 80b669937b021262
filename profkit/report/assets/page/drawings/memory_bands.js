// Memory over time before any pixel of it: bands on one another, words of a place, tables.

import { exact, human } from "../format.js";
import { madeTable } from "../model.js";

/** @typedef {import("../model.js").Table} Table */
/** @typedef {{frames: string[], own: number[]}} Stack from the innermost frame; positions of the program's own */
/**
 * @typedef {object} Shortage a request that failed
 * @property {number} at
 * @property {number} asked_bytes
 * @property {number} free_bytes
 * @property {number} reserved_bytes
 * @property {number} allocated_bytes
 * @property {number} step
 * @property {string} line
 * @property {Stack} stack
 */
/**
 * @typedef {object} Track one device
 * @property {number[]} event entries of the history, one for each instant
 * @property {number[]} time_ns since the first, empty where it was not recorded
 * @property {number[]} reserved_bytes empty where it was not recorded
 * @property {string[]} origins
 * @property {number[]} origin of each band, from the lowest
 * @property {number[]} stack of each band, -1 for those that are summed
 * @property {number[][]} live_bytes of each band at each instant
 * @property {string[]} lines of each stack
 * @property {Stack[]} stacks
 * @property {number} peak
 * @property {{step: number[], at: number[]}} steps
 * @property {Shortage[]} out_of_memory
 * @property {number} closed_form_bytes -1 where it is not known
 * @property {string} fits_with
 */
/**
 * @typedef {object} Single allocations of one device, as columns
 * @property {number} total
 * @property {number[]} size_bytes
 * @property {number[]} start_event
 * @property {number[]} end_event
 * @property {number[]} start_ns
 * @property {number[]} end_ns
 * @property {number[]} step
 * @property {number[]} line
 * @property {string[]} lines
 * @property {number[]} origin
 * @property {string[]} origins
 */
/** @typedef {{of: "time" | "entries", at: number[]}} Axis */

/**
 * @param {Track} track
 * @param {string} chosen "time", or anything else for the entries of the history
 * @returns {Axis}
 */
export function axisOf(track, chosen) {
  const isTime = track.time_ns.length > 0 && chosen === "time";
  return isTime ? { of: "time", at: track.time_ns } : { of: "entries", at: track.event };
}

/**
 * The upper ends of the bands at each instant.
 * @param {Track} track
 * @returns {number[][]}
 */
export function tops(track) {
  /** @type {number[]} */
  let below = track.event.map(() => 0);
  return track.live_bytes.map((live) => {
    below = below.map((sum, at) => sum + live[at]);
    return below;
  });
}

/** @param {Track} track @param {number} at */
export function allocatedAt(track, at) {
  return track.live_bytes.reduce((sum, live) => sum + live[at], 0);
}

/**
 * The band at a height, or -1 above all of them.
 * @param {number[][]} upper as `tops` gives
 * @param {number} at
 * @param {number} bytes
 */
export function bandAt(upper, at, bytes) {
  return upper.findIndex((band) => bytes >= 0 && bytes < band[at]);
}

/** @param {Track} track @param {number} band */
export function bandName(track, band) {
  const stack = track.stack[band];
  const origin = track.origins[track.origin[band]];
  return stack < 0 ? `${origin}, other stacks` : track.lines[stack] || `${origin}, no stack`;
}

/** The instant nearest to a place on the axis. @param {number[]} places @param {number} value */
export function instantAt(places, value) {
  const after = places.findIndex((place) => place >= value);
  if (after < 0) return places.length - 1;
  if (after === 0) return 0;
  return value - places[after - 1] < places[after] - value ? after - 1 : after;
}

/** The step that an instant lies in, "" before the first. @param {Track} track @param {number} at */
export function stepAt({ steps }, at) {
  const before = steps.at.findLastIndex((begin) => begin <= at);
  return before < 0 ? "" : `step ${steps.step[before]}`;
}

/**
 * @param {Track} track
 * @param {Axis} axis
 * @param {number} at
 * @param {number} band -1 for none
 */
export function wordsOf(track, axis, at, band) {
  const where = axis.of === "time" ? human(axis.at[at], "ns") : `entry ${axis.at[at]}`;
  const step = stepAt(track, at);
  const allocated = allocatedAt(track, at);
  const words = [step ? `${where}, ${step}` : where, `Allocated: ${exact(allocated, "bytes")}`];
  const reserved = track.reserved_bytes[at];
  if (reserved) {
    words[1] += ` of ${human(reserved, "bytes")} reserved, `
      + `${human(Math.max(reserved - allocated, 0), "bytes")} unused`;
  }
  if (band >= 0) {
    const live = track.live_bytes[band][at];
    words.push(`${exact(live, "bytes")} by ${track.origins[track.origin[band]]}: `
      + bandName(track, band));
  }
  return words;
}

/** @param {Shortage} shortage @param {string} fitsWith */
export function shortageWords(shortage, fitsWith) {
  const { asked_bytes: asked, free_bytes: free, step } = shortage;
  const unused = Math.max(shortage.reserved_bytes - shortage.allocated_bytes, 0);
  const parts = [`Out of memory${step >= 0 ? ` in step ${step}` : ""}: `
    + `${asked ? human(asked, "bytes") : "an unknown size"} asked`];
  if (free >= 0) parts.push(`${human(free, "bytes")} free on the GPU`);
  if (free >= 0 && free < asked) parts.push(`${human(asked - free, "bytes")} missing`);
  parts.push(`${human(shortage.allocated_bytes, "bytes")} allocated`,
    `${human(unused, "bytes")} reserved but unused`);
  return `${parts.join(", ")}.${fitsWith ? ` It fits with ${fitsWith}.` : ""}`;
}

/**
 * The bands as a table: by instant, the sum of each origin.
 * @param {Track} track
 * @param {Axis} axis
 * @param {string} title
 * @returns {Table}
 */
export function tableOf(track, axis, title) {
  const sums = track.origins.map((_, origin) => track.event.map((__, at) => (
    track.live_bytes.reduce((sum, live, band) => (
      track.origin[band] === origin ? sum + live[at] : sum), 0))));
  const hasReserved = track.reserved_bytes.length > 0;
  return madeTable(title,
    [axis.of === "time" ? { label: "Time", unit: "ns" } : { label: "Entry", unit: "" },
      { label: "Allocated", unit: "bytes" },
      ...(hasReserved ? [{ label: "Reserved", unit: "bytes" }] : []),
      ...track.origins.map((name) => ({ label: name, unit: "bytes" }))],
    track.event.map((_, at) => [axis.at[at], allocatedAt(track, at),
      ...(hasReserved ? [track.reserved_bytes[at]] : []), ...sums.map((sum) => sum[at])]));
}

/**
 * Single allocations, of one place of the drawing or all of them.
 * @param {Single} single
 * @param {{event: number, line: string, origin: string} | null} place
 * @param {string} title
 * @returns {Table}
 */
export function allocationsOf(single, place, title) {
  const kept = single.size_bytes.map((_, row) => row).filter((row) => {
    if (!place) return true;
    const isLive = single.start_event[row] <= place.event
      && (single.end_event[row] < 0 || single.end_event[row] > place.event);
    return isLive && single.origins[single.origin[row]] === place.origin
      && (!place.line || single.lines[single.line[row]] === place.line);
  });
  const known = (/** @type {number} */ value) => (value < 0 ? null : value);
  const lived = (/** @type {number} */ row) => (
    single.start_ns[row] < 0 || single.end_ns[row] < 0 ? null
      : single.end_ns[row] - single.start_ns[row]);
  return madeTable(title,
    [{ label: "Size", unit: "bytes" }, { label: "Allocated at", unit: "ns" },
      { label: "Freed at", unit: "ns" }, { label: "Lived", unit: "ns" },
      { label: "Step", unit: "" }, { label: "Origin", unit: "" }, { label: "Line", unit: "" }],
    kept.map((row) => [single.size_bytes[row], known(single.start_ns[row]),
      known(single.end_ns[row]), lived(row), known(single.step[row]),
      single.origins[single.origin[row]], single.lines[single.line[row]]]));
}
