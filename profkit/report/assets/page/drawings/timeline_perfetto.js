// What a timeline shows, for Perfetto: a tar with a trace of each rank and the manifest by which
// Perfetto puts them on one clock, and the way to a tab that opens it.

import { knownOf } from "./timeline_data.js";

/** @typedef {import("./timeline_data.js").Lane} Lane */
/** @typedef {import("./timeline_data.js").Scene} Scene */

const BLOCK = 512;
const PERFETTO = "https://ui.perfetto.dev";
/** Ranks are open at once. */
const COMMANDS = [{ id: "dev.perfetto.ExpandTracksByRegex", args: ["rank "] }];
const ASKING_MS = 50;

/**
 * The events of a lane, as Chrome's format has them, in µs.
 * @param {Lane} lane
 * @param {number} tid
 */
function eventsOf(lane, tid) {
  const { kind, title, rank, group, shape, start, end, names, name, values } = lane;
  const where = { pid: rank + 1, tid };
  const titled = (/** @type {string} */ what, /** @type {string} */ text) => (
    { ph: "M", name: what, ...where, args: { name: text } });
  const made = Array.from(start, (from, i) => (shape === "slices"
    ? { ph: "X", cat: kind, name: names[name[i]] || "(no name)", ...where, ts: from / 1000,
      dur: (end[i] - from) / 1000, args: Object.fromEntries(knownOf(lane, i)) }
    : { ph: "C", name: title, ...where, ts: from / 1000,
      args: { [shape === "line" ? "bytes" : "percent"]: values[i] } }));
  return [titled("process_name", group), titled("thread_name", title), ...made];
}

/** @param {string} name @param {unknown} content @returns {Uint8Array<ArrayBuffer>[]} of a tar */
function member(name, content) {
  const encoder = new TextEncoder();
  const text = encoder.encode(JSON.stringify(content));
  const head = new Uint8Array(BLOCK);
  const put = (/** @type {number} */ at, /** @type {string} */ value) => {
    head.set(encoder.encode(value), at);
  };
  const octal = (/** @type {number} */ value, /** @type {number} */ digits) => (
    value.toString(8).padStart(digits, "0"));
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(text.length, 11));
  put(136, octal(0, 11));
  // The sum counts its own place as eight spaces.
  put(148, "        0");
  put(257, "ustar");
  put(263, "00");
  put(148, `${octal(head.reduce((sum, byte) => sum + byte), 6)}\x00`);
  return [head, text, new Uint8Array(-text.length & (BLOCK - 1))];
}

/** @param {Scene} scene @param {string} title what is shown @returns {Blob} a tar */
export function archiveOf({ lanes }, title) {
  const groups = [...new Set(lanes.map(({ group }) => group))];
  // Times of all ranks are on one clock already.
  const clocks = { sync_to: { file: "rank0.json" }, offset_ns: 0 };
  const files = groups.map((name, i) => ({ path: `rank${i}.json`, machine: { name },
    ...(i ? { clocks } : {}) }));
  const manifest = { version: 1, files, attributes: { "profkit.run": title } };
  const traces = groups.flatMap((group, i) => member(files[i].path, { displayTimeUnit: "ms",
    traceEvents: lanes.flatMap((lane, tid) => (lane.group === group ? eventsOf(lane, tid + 1)
      : [])) }));
  return new Blob([...member("perfetto_manifest.json", { perfetto_manifest: manifest }), ...traces,
    new Uint8Array(2 * BLOCK)], { type: "application/x-tar" });
}

/**
 * Hands an archive to a tab of Perfetto, which sends it nowhere.
 * https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui
 * @param {Blob} archive
 * @param {string} title
 */
export async function openInPerfetto(archive, title) {
  const commands = encodeURIComponent(JSON.stringify(COMMANDS));
  const tab = open(`${PERFETTO}/#!/?startupCommands=${commands}`);
  if (!tab) return;
  const asking = setInterval(() => tab.postMessage("PING", PERFETTO), ASKING_MS);
  const buffer = await archive.arrayBuffer();
  addEventListener("message", function answered({ origin, source, data }) {
    if (origin !== PERFETTO || source !== tab || data !== "PONG") return;
    clearInterval(asking);
    removeEventListener("message", answered);
    tab.postMessage({ perfetto: { buffer, title, fileName: "timeline.tar" } }, PERFETTO);
  });
}
