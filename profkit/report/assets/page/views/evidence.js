// The way from a sentence to what it rests on, and back.

import { claimNow, keyOfFinding, placesOf } from "../evidence.js";
import { action, element } from "../elements.js";
import { filterIn, filtersOf, withFilter } from "../filters.js";
import { report, runAt } from "../model.js";
import { hashOf, routeOf, runOfAnchor, viewOfAnchor } from "../route.js";
import { stateNow } from "../drawings/state.js";

const KEY = "evidence";
const MOST_PLACES = 8;

/** The key of the claim whose evidence is highlighted, empty for none. */
export function claimKey() {
  return filterIn(stateNow(), KEY);
}

/** @param {string} key empty for no evidence */
export function turnToEvidence(key) {
  const route = routeOf(location.hash, report().runs.length);
  location.hash = hashOf({ ...route, at: "", state: withFilter(filtersOf(route.state), KEY, key) });
}

/**
 * What shows its evidence when it is clicked, and hides it at the second click.
 * @param {string} key
 * @param {import("../elements.js").Attributes} attributes
 * @param {string[]} texts
 */
export function claimButton(key, attributes, ...texts) {
  const isShown = claimKey() === key;
  const made = action("", { ...attributes, "aria-pressed": String(isShown), "data-claim": key },
    () => turnToEvidence(isShown ? "" : key));
  made.replaceChildren(...texts.map((text, at) => (at ? text : element("span", {}, text))));
  return made;
}

/** @param {import("../model.js").Finding} shown */
export function findingButton(shown) {
  return action("Show evidence", { class: "thing" }, () => {
    const anchor = shown.section.href.slice(1);
    const own = runOfAnchor(anchor);
    const run = own < 0 ? routeOf(location.hash, report().runs.length).run : own;
    const key = keyOfFinding(shown, report(), runAt(run));
    location.hash = hashOf({ view: viewOfAnchor(anchor, runAt(run).topics), run, at: anchor,
      state: withFilter(filtersOf(stateNow()), KEY, key) });
  });
}

/** What the bar says while evidence is highlighted. @returns {HTMLElement[]} */
export function evidenceBar() {
  const claim = claimNow();
  if (!claim) return [];
  return [element("span", { class: "evidence-bar" }, element("span", {}, "Evidence of "),
    element("b", { title: claim.text }, claim.text),
    action("Clear", { class: "page", "aria-keyshortcuts": "Escape" }, () => turnToEvidence("")))];
}

/**
 * Where the evidence is, as links that keep it highlighted.
 * @param {number} run
 * @returns {HTMLElement[]}
 */
export function evidencePlaces(run) {
  const claim = claimNow();
  if (!claim) return [];
  const { topics, drawn } = runAt(run);
  const state = filtersOf(stateNow());
  const to = (/** @type {string} */ view, /** @type {string} */ at, /** @type {string} */ text) => (
    element("li", {}, element("a", { href: hashOf({ view, run, at, state }) }, text)));
  const links = placesOf(claim, report(), runAt(run)).slice(0, MOST_PLACES).map(
    ({ section: { anchor, title }, rows }) => to(viewOfAnchor(anchor, topics), anchor,
      `${title}: ${rows} ${rows === 1 ? "row" : "rows"}`));
  if (!claim.topic && drawn.drawings.some(({ kind }) => kind === "timeline")) {
    links.unshift(to("timeline", "", "Timeline"));
  }
  const own = topics.find(({ name }) => name === claim.topic);
  if (own) links.unshift(to(own.name, "", own.title));
  if (!links.length) links.push(element("li", {}, "No table of this page names it."));
  return [element("ul", { class: "jump evidence-places",
    "aria-label": `Evidence of ${claim.text}` }, ...links)];
}
