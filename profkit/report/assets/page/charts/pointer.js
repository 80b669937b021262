// What is under the pointer or chosen with the arrow keys, and a part of the axis to look closer at.

import { pointedLabel } from "../drawings/pointed.js";
import { element } from "../elements.js";

/** @typedef {import("./draw.js").Target} Target */

const NEAR = 28;
const DRAGGED = 6;

/**
 * The target at or nearest to a place, or undefined where none is near.
 * @param {Target[]} targets
 * @param {number} x
 * @param {number} y
 * @returns {Target | undefined}
 */
export function nearest(targets, x, y) {
  /** @type {Target | undefined} */
  let found;
  let least = NEAR ** 2;
  for (const target of targets) {
    const { box } = target;
    const inside = box && x >= box.x - 1 && x <= box.x + box.width + 1
      && y >= box.y - 1 && y <= box.y + box.height + 1;
    if (inside) return target;
    const away = (target.x - x) ** 2 + (target.y - y) ** 2;
    if (away < least) [found, least] = [target, away];
  }
  return found;
}

/**
 * Shows what is pointed at in a label beside it.
 * @param {HTMLElement} place positioned; holds the drawing
 * @param {SVGSVGElement} svg
 * @param {Target[]} targets
 * @param {(name: string) => void} choose what a click on a named target does
 */
export function pointOut(place, svg, targets, choose) {
  const label = pointedLabel();
  place.append(label);
  let current = -1;
  /** @param {Target | undefined} target */
  const show = (target) => {
    label.hidden = target === undefined;
    if (!target) return;
    label.replaceChildren(...target.words.map((text) => element("div", {}, text)));
    const left = Math.max(0, Math.min(target.x + 12, place.clientWidth - label.offsetWidth));
    const above = target.y - label.offsetHeight - 10;
    label.style.left = `${left}px`;
    label.style.top = `${above < 0 ? target.y + 14 : above}px`;
  };
  const under = (/** @type {MouseEvent} */ event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.clientWidth > 0 ? svg.viewBox.baseVal.width / box.width : 1;
    return nearest(targets, (event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  };
  const take = (/** @type {Target | undefined} */ target) => {
    if (target?.name) choose(target.name);
  };
  svg.addEventListener("pointermove", (event) => show(under(event)));
  svg.addEventListener("click", (event) => take(under(event)));
  svg.addEventListener("pointerleave", () => show(undefined));
  const inOrder = targets.toSorted((a, b) => a.x - b.x || a.y - b.y);
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Enter") take(inOrder[current]);
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by === undefined || inOrder.length === 0) return;
    event.preventDefault();
    current = (current + by + inOrder.length) % inOrder.length;
    show(inOrder[current]);
  });
  svg.addEventListener("blur", () => show(undefined));
}

/**
 * Lets the reader drag over a part of the axis.
 * @param {SVGSVGElement} svg
 * @param {{left: number, right: number, top: number, bottom: number}} frame
 * @param {(from: number, to: number) => void} choose with places in pixels
 */
export function letDrag(svg, frame, choose) {
  let start = -1;
  const shade = document.createElementNS(svg.namespaceURI, "rect");
  shade.setAttribute("class", "dragged");
  const at = (/** @type {PointerEvent} */ event) => Math.min(frame.right, Math.max(frame.left,
    event.clientX - svg.getBoundingClientRect().left));
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    start = at(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (start < 0) return;
    const now = at(event);
    const box = { x: Math.min(start, now), width: Math.abs(now - start), y: frame.top,
      height: frame.bottom - frame.top };
    for (const [name, value] of Object.entries(box)) shade.setAttribute(name, String(value));
    svg.append(shade);
  });
  svg.addEventListener("pointerup", (event) => {
    const [from, to] = [start, at(event)].sort((a, b) => a - b);
    const wasDragging = start >= 0;
    start = -1;
    shade.remove();
    if (wasDragging && to - from >= DRAGGED) choose(from, to);
  });
}
