// The search, and the list of keys.

import { action, byId, element } from "./elements.js";
import { shortened } from "./format.js";
import { framesOf, hitsOf } from "./search.js";

/** @typedef {import("./model.js").Report} Report */
/** @typedef {import("./model.js").Run} Run */

const LONGEST = 90;
/** @type {[string, string][]} */
export const KEYS = [
  ["/", "search"], [">", "commands: views, filters, what can be saved"],
  ["1 to 9", "a view, by its place"], ["[ and ]", "the run before and after"],
  ["t", "light or dark"], ["?", "this list"], ["Enter on a name", "all that is known of it"],
  ["Esc", "close, or back to the whole"],
];

/** @param {string} id */
function dialog(id) {
  return /** @type {HTMLDialogElement} */ (byId(id));
}

/**
 * @param {() => {report: Report, run: Run}} shown what is open now
 * @param {(anchor: string, state: Record<string, string>) => string} address of a place
 * @param {() => import("./search.js").Command[]} commands
 */
export function startSearch(shown, address, commands) {
  const input = /** @type {HTMLInputElement} */ (byId("search-input"));
  const list = byId("search-hits");
  /** @type {WeakMap<Run, ReturnType<typeof framesOf>>} */
  const unpacked = new WeakMap();
  const refresh = async () => {
    const { report, run } = shown();
    const asked = input.value;
    const frames = unpacked.get(run) ?? framesOf(run);
    unpacked.set(run, frames);
    const hits = hitsOf(asked, report, run, await frames, commands());
    if (asked !== input.value) return;
    list.replaceChildren(...hits.map(({ text, kind, anchor, state, act }) => element("li", {},
      act ? action(text, { class: "hit thing" }, act)
        : element("a", { class: "hit", href: address(anchor, state), title: text },
          shortened(text, LONGEST)), " ", element("span", { class: "faint" }, kind))));
    if (input.value.trim() && hits.length === 0) {
      list.replaceChildren(element("li", {}, "Nothing here has this name."));
    }
  };
  input.addEventListener("input", refresh);
  input.addEventListener("keydown", async ({ key }) => {
    if (key !== "Enter" && key !== "ArrowDown") return;
    await refresh();
    const first = /** @type {HTMLElement | null} */ (list.querySelector(".hit"));
    if (key === "Enter") first?.click();
    else first?.focus();
  });
  // Before a command acts, which may open another dialog.
  list.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest(".hit")) dialog("search").close();
  }, { capture: true });
  byId("find").addEventListener("click", () => openSearch());
}

/** @param {string} [question] */
export function openSearch(question) {
  dialog("search").showModal();
  const input = /** @type {HTMLInputElement} */ (byId("search-input"));
  if (question === undefined) return input.select();
  input.value = question;
  input.dispatchEvent(new Event("input"));
}

export function openKeys() {
  byId("key-list").replaceChildren(...KEYS.flatMap(([key, what]) => [
    element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]));
  dialog("keys").showModal();
}
