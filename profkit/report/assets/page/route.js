// Where the reader is, as the hash says it: the view, the run, and the place in it.

/**
 * @typedef {object} Route
 * @property {string} view
 * @property {number} run index of the run, from 0
 * @property {string} at anchor of the place, empty for the top
 * @property {Record<string, string>} state of drawings, such as `timeline.step`
 */

/**
 * @param {string} hash such as `#/memory?run=2&at=run-2-4`; run counts from 1
 * @param {number} runs how many there are
 * @returns {Route}
 */
export function routeOf(hash, runs) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const values = new URLSearchParams(query);
  return {
    view: path || "overview",
    run: positionOf(values.get("run"), 1, runs),
    at: values.get("at") ?? "",
    state: Object.fromEntries([...values].filter(([key]) => key.includes("."))),
  };
}

/**
 * The position of what has a number in a hash, whatever stands there: of the first, 0.
 * @param {string | null | undefined} text its number, from 1
 * @param {number} otherwise the number where there is none
 * @param {number} count
 */
export function positionOf(text, otherwise, count) {
  const asked = Math.trunc(Number(text || otherwise)) || otherwise;
  return Math.min(Math.max(asked, 1), Math.max(count, 1)) - 1;
}

/**
 * A part of a hash, as it stands there if it is no encoded text.
 * @param {string} text
 */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * @param {Omit<Route, "state"> & {state?: Record<string, string>}} route
 * @returns {string} its hash
 */
export function hashOf({ view, run, at, state = {} }) {
  const values = new URLSearchParams();
  if (run > 0) values.set("run", String(run + 1));
  if (at) values.set("at", at);
  for (const [key, value] of Object.entries(state)) if (value) values.set(key, value);
  const query = values.toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

/**
 * The run that an anchor of the report's data belongs to, or -1.
 * @param {string} anchor such as `run-2-4`
 */
export function runOfAnchor(anchor) {
  const found = /^run-(\d+)(-|$)/.exec(anchor);
  return found ? Number(found[1]) - 1 : -1;
}

/**
 * The view that shows an anchor.
 * @param {string} anchor
 * @param {{name: string, anchor: string, sections: {anchor: string}[]}[]} topics of its run
 */
export function viewOfAnchor(anchor, topics) {
  if (anchor.startsWith("across")) return "compare";
  if (anchor.endsWith("-how")) return "data";
  const topic = topics.find((one) => (
    one.anchor === anchor || one.sections.some((section) => section.anchor === anchor)));
  return topic?.name ?? (runOfAnchor(anchor) >= 0 && anchor.split("-").length > 2 ? "data"
    : "overview");
}
