// The page: one view of one run at a time, as the hash says.

import { copyOf, startCopying } from "./copy.js";
import { openKeys, openSearch, startSearch } from "./dialogs.js";
import { afterDrawing, drawAll, forget } from "./drawing.js";
import { forgetStates, keepStateIn, stateChanged } from "./drawings/state.js";
import { action, byId, element, menu } from "./elements.js";
import { claimOf, highlight } from "./evidence.js";
import { choicesOf, filterIn, filtersOf, withFilter } from "./filters.js";
import { human } from "./format.js";
import { report, runAt } from "./model.js";
import { decoded, hashOf, routeOf, runOfAnchor, viewOfAnchor } from "./route.js";
import { startTheme, turnTheme } from "./theme.js";
import { compare } from "./views/compare.js";
import { data } from "./views/data.js";
import { closeDetails, showDetails } from "./views/details.js";
import { fillDigest } from "./views/digest.js";
import { claimKey, evidenceBar, turnToEvidence } from "./views/evidence.js";
import { overview } from "./views/overview.js";
import { topicView } from "./views/sections.js";

/** @typedef {import("./route.js").Route} Route */

const page = report();
const main = byId("view");
/** Whether there is anything about several runs. */
const isCompared = page.runs.length > 1 || page.across.sections.length > 0;
/** @type {Route} */
let current = { view: "", run: -1, at: "", state: {} };
/** Where a link led to, until the reader moves on. @type {Element | null} */
let destination = null;

/**
 * The views of a run, with their titles.
 * @param {number} run
 * @returns {[string, string][]}
 */
function viewsOf(run) {
  /** @type {[string, string][]} */
  const views = [["overview", "Overview"]];
  views.push(...runAt(run).topics.map(({ name, title }) => (
    /** @type {[string, string]} */ ([name, title]))));
  if (isCompared) views.push(["compare", "Compare"]);
  views.push(["data", "Data"]);
  return views;
}

/** @param {Route} route @returns {Node[]} */
function contentOf({ view, run }) {
  const shown = runAt(run);
  if (view === "compare") return compare(page);
  if (view === "data") return data(shown, isCompared ? [] : page.across.silent);
  const topic = shown.topics.find(({ name }) => name === view);
  if (!topic) return overview(page, shown);
  return [element("h2", {}, topic.title), topicView(topic, shown.drawn)];
}

/** @param {string} hash @returns {Route} */
function understood(hash) {
  const asked = hash.length < 2 ? hashOf({ view: "", run: page.opens, at: "" }) : hash;
  if (asked.startsWith("#/")) return routeOf(asked, page.runs.length);
  const at = decoded(hash.slice(1));
  const run = runOfAnchor(at) >= 0 ? Math.min(runOfAnchor(at), page.runs.length - 1)
    : Math.max(current.run, 0);
  return { view: viewOfAnchor(at, runAt(run).topics), run, at,
    state: filtersOf(current.state) };
}

function follow() {
  const asked = understood(location.hash);
  const views = viewsOf(asked.run);
  if (!views.some(([name]) => name === asked.view)) asked.view = "overview";
  if (location.hash !== hashOf(asked)) history.replaceState(null, "", hashOf(asked));
  const isOther = asked.view !== current.view || asked.run !== current.run
    || JSON.stringify(filtersOf(asked.state)) !== JSON.stringify(filtersOf(current.state));
  const isMoved = isOther || asked.at !== current.at;
  if (isOther) {
    forget();
    forgetStates();
    const isHere = asked.view === current.view && asked.run === current.run;
    const chosen = main.querySelector("[data-claim]:focus")?.getAttribute("data-claim");
    current = asked;
    highlight(claimOf(claimKey(), page, runAt(asked.run)));
    main.replaceChildren(...contentOf(asked));
    const again = [...main.querySelectorAll("[data-claim]")].find((one) => (
      one.getAttribute("data-claim") === chosen));
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
    const places = isHere && claimKey() ? main.querySelector(".evidence-places") : null;
    places?.scrollIntoView({ block: "center" });
    showTabs(views);
    showFilters();
    byId("runs-menu").querySelectorAll("option")[asked.run].selected = true;
    document.title = `${views.find(([name]) => name === asked.view)?.[1]} – ${page.title}`;
    if (!asked.at && !isHere) scrollTo(0, 0);
  }
  current = asked;
  stateChanged();
  details();
  if (isMoved) reach(asked.at);
}

/** @param {string} at */
function reach(at) {
  destination = at ? document.getElementById(at) : null;
  for (let part = destination; part; part = part.parentElement) {
    if (part instanceof HTMLDetailsElement) part.open = true;
  }
  destination?.scrollIntoView();
}

/** @param {[string, string][]} views */
function showTabs(views) {
  byId("tabs").replaceChildren(...views.map(([view, title]) => {
    const link = element("a", { href: addressOf(view, current.run) }, title);
    if (view === current.view) link.setAttribute("aria-current", "page");
    return element("li", {}, link);
  }));
}

/** @param {string} view @param {number} run @returns {string} with the filters that hold here */
function addressOf(view, run) {
  return hashOf({ view, run, at: "", state: filtersOf(current.state) });
}

function showFilters() {
  byId("filters").replaceChildren(...evidenceBar(), ...choicesOf(runAt(current.run).drawn).map(
    ([label, key, values]) => {
      const made = menu({}, [["", "all"], ...values.map((value) => (
        /** @type {[string, string]} */ ([value, value])))], (value) => filterBy(key, value));
      made.value = filterIn(current.state, key);
      return element("label", { class: "field" }, label, made);
    }));
}

/** @param {number} run */
function turnTo(run) {
  if (run < 0 || run >= page.runs.length) return;
  location.hash = addressOf(current.view, run);
}

/** @param {Record<string, string>} state @param {boolean} isStep */
function keep(state, isStep) {
  current = { ...current, state };
  if (isStep && location.hash !== hashOf(current)) history.pushState(null, "", hashOf(current));
  else history.replaceState(null, "", hashOf(current));
  details();
}

function details() {
  showDetails(current.state["details.of"] ?? "", page, current.run);
}

function clear() {
  if (current.state["details.of"]) closeDetails();
  else if (claimKey()) turnToEvidence("");
  else {
    keep(filtersOf(current.state), true);
    stateChanged();
  }
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const { target, key } = event;
  // The keys of the page are not those of a dialog in front of it, which Escape closes.
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector(":modal")) return;
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return;
  // A key that comes soon is heard before the event of the hash that another has just set.
  if (location.hash !== hashOf(current)) follow();
  const views = viewsOf(current.run);
  /** @type {Record<string, () => void>} */
  const acts = { "/": () => openSearch(), ">": () => openSearch(">"), "?": openKeys,
    t: turnTheme, "[": () => turnTo(current.run - 1), "]": () => turnTo(current.run + 1) };
  const chosen = Object.keys(current.state).length;
  if (claimKey() || chosen > Object.keys(filtersOf(current.state)).length) acts.Escape = clear;
  const view = views[Number(key) - 1];
  const act = view
    ? () => { location.hash = addressOf(view[0], current.run); } : acts[key];
  if (!act) return;
  event.preventDefault();
  act();
}

/** What the search offers to do here. @returns {import("./search.js").Command[]} */
function commands() {
  const views = viewsOf(current.run).map(([view, title]) => ({ text: `Go to ${title}`,
    act: () => { location.hash = addressOf(view, current.run); } }));
  const chosen = choicesOf(runAt(current.run).drawn).flatMap(([label, key, values]) => (
    ["", ...values].map((value) => ({
      text: value ? `Only ${label.toLowerCase()} ${value}` : `All ${label.toLowerCase()}s`,
      act: () => filterBy(key, value) }))));
  const saves = [...main.querySelectorAll("button.save")].flatMap((button) => (
    button instanceof HTMLElement && button.checkVisibility()
      ? [{ text: button.ariaLabel ?? "", act: () => button.click() }] : []));
  return [...views, ...chosen, { text: "Dark or light theme", act: turnTheme },
    { text: "Copy the link to what is shown", act: () => copyOf(location.href, byId("find")) },
    { text: "List the keys", act: openKeys }, ...saves];
}

/** @param {string} key @param {string} value empty for all */
function filterBy(key, value) {
  const state = withFilter(filtersOf(current.state), key, value);
  location.hash = hashOf({ view: current.view, run: current.run, at: "", state });
}

function startRuns() {
  const runs = /** @type {HTMLSelectElement} */ (byId("runs-menu"));
  runs.append(...page.runs.map(({ label }) => new Option(label)));
  runs.addEventListener("change", () => turnTo(runs.selectedIndex));
  byId("runs-field").hidden = page.runs.length === 1;
}

for (const kind of ["wheel", "touchstart", "keydown", "pointerdown"]) {
  addEventListener(kind, () => { destination = null; }, { passive: true, capture: true });
}
// What was drawn above may be higher than its place was.
afterDrawing(() => destination?.scrollIntoView());
addEventListener("hashchange", follow);
addEventListener("keydown", pressed);
byId("bar-end").prepend(action("?", { "aria-label": "Keys", id: "help" }, openKeys));
startRuns();
keepStateIn({ read: () => current.state, write: keep });
startTheme(() => fillDigest(page, runAt(current.run)));
startSearch(() => ({ report: page, run: runAt(current.run) }), (anchor, state) => {
  if (Object.keys(state).length === 0) return `#${anchor}`;
  const view = viewOfAnchor(anchor, runAt(current.run).topics);
  return hashOf({ view, run: current.run, at: anchor,
    state: { ...filtersOf(current.state), ...state } });
}, commands);
startCopying();
Object.assign(window, { profkit: { drawAll, human } });
follow();
