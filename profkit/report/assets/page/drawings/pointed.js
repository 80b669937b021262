// Drawings that readers go through with the pointer or the keys, and what is said beside the place.

import { element } from "../elements.js";

/**
 * Puts a drawing in the place of the one before, from which it takes the focus.
 * @param {HTMLElement} place
 * @param {SVGSVGElement} svg
 * @param {HTMLElement} label what is pointed at, in words
 * @param {string} title what it shows, and what the keys do
 */
export function putDrawing(place, svg, label, title) {
  const had = place.contains(document.activeElement);
  for (const [name, value] of [["role", "img"], ["tabindex", "0"], ["aria-label", title]]) {
    svg.setAttribute(name, value);
  }
  place.replaceChildren(svg, label);
  label.hidden = true;
  if (had) svg.focus({ preventScroll: true });
}

/**
 * @template Spot
 * @param {SVGSVGElement} svg
 * @param {(x: number, y: number) => Spot | null} under what is at a place of the drawing
 * @param {(spot: Spot | null) => void} point
 * @param {(spot: Spot | null) => void} pick
 * @param {(event: KeyboardEvent) => void} press
 */
export function follow(svg, under, point, pick, press) {
  const spot = (/** @type {MouseEvent} */ { clientX, clientY }) => {
    const { left, top } = svg.getBoundingClientRect();
    return under(clientX - left, clientY - top);
  };
  svg.addEventListener("pointermove", (event) => point(spot(event)));
  svg.addEventListener("click", (event) => pick(spot(event)));
  for (const kind of ["pointerleave", "blur"]) svg.addEventListener(kind, () => point(null));
  svg.addEventListener("keydown", press);
}

/** A label that follows what is pointed at. */
export function pointedLabel() {
  return element("div", { class: "pointed", role: "status", hidden: "" });
}
