// Drawings of an analysis, each by the module that knows its kind.

import { drawLater } from "../drawing.js";
import { kinds } from "../drawings/kinds.js";
import { stateOf } from "../drawings/state.js";
import { element } from "../elements.js";

/** @param {import("../model.js").Placed} shown @param {string} heading of what it stands below */
export function drawing(shown, heading) {
  const made = element("figure", { class: "drawing", id: `drawing-${shown.name}` },
    element("figcaption", shown.title === heading ? { class: "off" } : {}, shown.title));
  const draw = kinds[shown.kind];
  const { data } = shown;
  if (!data) {
    made.append(element("p", { class: "note cut" },
      "This page has no room for this drawing. The result file has it."));
    return made;
  }
  const place = element("div", { class: "drawing-place" });
  // With another filter it has the room that it has now.
  const before = document.getElementById(made.id)?.clientHeight;
  if (before) place.style.minHeight = `${before}px`;
  made.append(place);
  drawLater(place, () => place.replaceWith(draw ? draw({ ...shown, data }, stateOf(shown.name))
    : element("p", { class: "note" }, `This page cannot draw a ${shown.kind}.`)));
  if (shown.cut.length) {
    made.append(element("p", { class: "note cut" },
      `This page has no room for: ${shown.cut.join(", ")}. The result file has all.`));
  }
  return made;
}
