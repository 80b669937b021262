// The drawer at the side: all that is known of the thing that the reader chose.

import { copyOf } from "../copy.js";
import { stateNow, stateOf } from "../drawings/state.js";
import { action, byId, element } from "../elements.js";
import { chosenWords } from "../filters.js";
import { exact, withoutFolders } from "../format.js";
import { MOST_ROWS, factsOf, knownOf, markdownOf, sameIn } from "../known.js";
import { runAt } from "../model.js";
import { hashOf, viewOfAnchor } from "../route.js";
import { finding } from "./parts.js";
import { plainTable } from "./sections.js";

/** @typedef {import("../model.js").Report} Report */
/** @typedef {import("../known.js").Place} Place */
/** @typedef {import("../known.js").Known} Known */

const LINE = 70;
const MOST_PLACES = 12;
const MOST_NAMES = 4;
/** Numbers of other runs that stand beside one another. */
const MOST_COLUMNS = 4;
/** More runs than these are read when asked for. */
const FEW_RUNS = 8;

/** Whatever opened the drawer has the focus again when it closes. @type {Element | null} */
let opener = null;
let shown = "";

/** @param {string} name */
export function openDetails(name) {
  stateOf("details").set({ of: name });
}

export function closeDetails() {
  stateOf("details").set({ of: "" });
}

/**
 * Shows or hides the drawer, as the address says.
 * @param {string} name empty for none
 * @param {Report} report
 * @param {number} run
 */
export function showDetails(name, report, run) {
  const key = name && `${run} ${name} ${chosenWords(stateNow())}`;
  if (key === shown) return;
  const isOpening = !shown;
  shown = key;
  const drawer = byId("details");
  drawer.hidden = !name;
  if (!name) {
    drawer.replaceChildren();
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    return;
  }
  if (isOpening) opener = document.activeElement;
  const known = knownOf(name, report, runAt(run), stateNow());
  const heading = element("h2", { tabindex: -1, title: name }, name);
  drawer.replaceChildren(head(heading, name, known, report, run),
    ...found(name, known, report, run));
  drawer.scrollTop = 0;
  heading.focus();
}

/**
 * @param {HTMLElement} heading
 * @param {string} name
 * @param {Known} known
 * @param {Report} report
 * @param {number} run
 */
function head(heading, name, known, report, run) {
  const where = report.runs.length > 1 ? `${report.title}, ${report.runs[run].label}`
    : report.title;
  return element("header", {}, heading, element("p", { class: "details-tools" },
    copying("Copy link", () => location.href),
    copying("Copy as Markdown", () => markdownOf(name, known, where)),
    action("Close", { "aria-keyshortcuts": "Escape" }, closeDetails)));
}

/** @param {string} label @param {() => string} text */
function copying(label, text) {
  /** @type {HTMLButtonElement} */
  const button = action(label, {}, () => copyOf(text(), button));
  return button;
}

/**
 * @param {string} name
 * @param {Known} known
 * @param {Report} report
 * @param {number} run
 * @returns {Node[]}
 */
function found(name, known, report, run) {
  /** @type {Node[]} */
  const made = known.findings.map((one) => finding(one, [], []));
  if (known.related.length) {
    made.push(element("dl", { class: "items related" }, ...known.related.map(related)));
  }
  const { topics } = runAt(run);
  for (const place of known.places.slice(0, MOST_PLACES)) {
    const { anchor } = place.section;
    const href = hashOf({ view: viewOfAnchor(anchor, topics), run, at: anchor,
      state: { "details.of": name } });
    made.push(section(name, place, href));
  }
  if (known.places.length === 0) made.push(element("p", {}, "No table of this run names it."));
  if (known.places.length > MOST_PLACES) {
    made.push(element("p", { class: "note" },
      `${known.places.length - MOST_PLACES} more tables name it.`));
  }
  const own = known.places.find(({ isSubject, section: { anchor } }) => (
    isSubject && !anchor.startsWith("across")));
  if (report.runs.length > 1 && own) made.push(otherRuns(name, own, report));
  return made;
}

/** @param {import("../known.js").Related} shown */
function related({ label, names }) {
  const more = names.length - MOST_NAMES;
  return element("div", {}, element("dt", {}, label),
    ...names.slice(0, MOST_NAMES).map((name) => element("dd", {},
      action(withoutFolders(name, LINE), { class: "thing", title: name },
        () => openDetails(name)))),
    ...(more > 0 ? [element("dd", { class: "faint" }, `and ${more} more`)] : []));
}

/** @param {string} name @param {Place} place @param {string} href */
function section(name, { section: { title }, table, rows }, href) {
  const made = element("section", {}, element("h3", {}, element("a", { href }, title),
    ` ${table.title}`));
  for (const row of rows.slice(0, MOST_ROWS)) {
    made.append(element("dl", { class: "items" }, ...factsOf(table, row, name, exact)
      .map(([label, text]) => element("div", {}, element("dt", {}, label),
        element("dd", { title: text }, withoutFolders(text, LINE))))));
  }
  if (rows.length > MOST_ROWS) {
    made.append(element("p", { class: "note" }, `${rows.length - MOST_ROWS} more rows`));
  }
  return made;
}

/** @param {string} name @param {Place} place @param {Report} report */
function otherRuns(name, place, report) {
  const made = element("section", {}, element("h3", {}, "In each run"));
  const fill = () => made.append(comparison(name, place, report));
  if (report.runs.length <= FEW_RUNS) fill();
  else {
    const button = action(`Look in all ${report.runs.length} runs`, {}, () => {
      button.remove();
      fill();
    });
    made.append(button);
  }
  return made;
}

/** @param {string} name @param {Place} place @param {Report} report */
function comparison(name, place, report) {
  const labels = place.table.columns.flatMap(({ label }, column) => (
    typeof place.rows[0][column] === "number" ? [label] : [])).slice(0, MOST_COLUMNS);
  const rows = report.runs.map(({ anchor, label }, index) => {
    const same = sameIn(name, place, runAt(index));
    const facts = new Map(same ? factsOf(same.table, same.row, name) : []);
    return [element("a", { href: `#${anchor}` }, label),
      ...labels.map((one) => facts.get(one) ?? "–")];
  });
  return plainTable(`${name} in each run`, ["Run", ...labels], rows);
}
