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
  const run = Math.trunc(Number(values.get("run") ?? 1)) || 1;
  return {
    view: path || "overview",
    run: Math.min(Math.max(run, 1), Math.max(runs, 1)) - 1,
    at: values.get("at") ?? "",
    state: Object.fromEntries([...values].filter(([key]) => key.includes("."))),
  };
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
