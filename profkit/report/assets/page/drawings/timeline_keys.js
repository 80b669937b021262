// Keys of the timeline, while the canvas has the focus.

import { around, inside } from "./timeline_find.js";

/** @typedef {import("./timeline_view.js").TimelineView} TimelineView */

export const KEYS = [
  ["W S", "zoom in and out"], ["A D", "move"], ["0", "everything"],
  ["F", "fit the chosen slice or range"], [", .", "the slice before and after"],
  ["arrows", "before, after, around and inside"], ["Escape", "forget what is chosen"],
  ["shift and drag", "choose a range"], ["wheel", "zoom once clicked; with Ctrl always"],
];

/**
 * @param {TimelineView} view
 * @param {() => void} forget
 */
export function listenToKeys(view, forget) {
  const step = (/** @type {typeof around} */ to) => {
    const next = view.picked ? to(view.picked) : view.firstSeen();
    if (next) view.pick(next, true);
  };
  /** @type {Record<string, () => void>} */
  const acts = {
    w: () => view.zoom(1 / 1.4), s: () => view.zoom(1.4), a: () => view.pan(-0.15),
    d: () => view.pan(0.15), 0: () => view.whole(), f: () => view.fit(),
    ",": () => view.turn(-1), ".": () => view.turn(1), arrowleft: () => view.turn(-1),
    arrowright: () => view.turn(1), arrowup: () => step(around), arrowdown: () => step(inside),
    "+": () => view.zoom(1 / 1.4), "-": () => view.zoom(1.4),
  };
  view.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    const isChosen = view.picked || view.range || view.found;
    const act = key === "escape" && isChosen ? forget : acts[key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
}
