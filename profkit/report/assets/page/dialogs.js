// The search, and the list of keys.

import { byId, element } from "./elements.js";
import { shortened } from "./format.js";
import { hitsOf } from "./search.js";

/** @typedef {import("./model.js").Report} Report */
/** @typedef {import("./model.js").Run} Run */

const LONGEST = 90;
/** @type {[string, string][]} */
export const KEYS = [
  ["/", "search"], ["1 to 9", "a view, by its place"], ["[ and ]", "the run before and after"],
  ["t", "light or dark"], ["?", "this list"], ["Enter on a name", "all that is known of it"],
  ["Esc", "close, or back to the whole"],
];

/** @param {string} id */
function dialog(id) {
  return /** @type {HTMLDialogElement} */ (byId(id));
}

/**
 * @param {() => {report: Report, run: Run}} shown what is open now
 * @param {(anchor: string, name: string) => string} address of a place, with the details of a name
 */
export function startSearch(shown, address) {
  const input = /** @type {HTMLInputElement} */ (byId("search-input"));
  const list = byId("search-hits");
  const refresh = () => {
    const { report, run } = shown();
    const hits = hitsOf(input.value, report, run);
    list.replaceChildren(...hits.map(({ text, kind, anchor, isName }) => element("li", {},
      element("a", { href: address(anchor, isName ? text : ""), title: text },
        shortened(text, LONGEST)), " ",
      element("span", { class: "faint" }, kind))));
    if (input.value.trim() && hits.length === 0) {
      list.replaceChildren(element("li", {}, "Nothing here has this name."));
    }
  };
  input.addEventListener("input", refresh);
  input.addEventListener("keydown", (event) => {
    const first = list.querySelector("a");
    if (event.key === "Enter" && first) first.click();
    if (event.key === "ArrowDown" && first) first.focus();
  });
  list.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("a")) dialog("search").close();
  });
  byId("find").addEventListener("click", openSearch);
}

export function openSearch() {
  dialog("search").showModal();
  const input = /** @type {HTMLInputElement} */ (byId("search-input"));
  input.select();
}

export function openKeys() {
  byId("key-list").replaceChildren(...KEYS.flatMap(([key, what]) => [
    element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]));
  dialog("keys").showModal();
}
