// Charts, tables and drawings are drawn when they come into view.

import { drawChart } from "./charts/chart.js";
import { report } from "./model.js";
import { mountTable } from "./table.js";

/** @typedef {import("./model.js").Table} Table */
/** @typedef {{chart?: import("./model.js").Chart, table: Table} | (() => void)} Content */

const UNSEEN_MS = 100;

/** @type {Map<Element, Content>} */
const waiting = new Map();

/**
 * @param {HTMLElement} place a figure, or the place of a table or drawing
 * @param {Content} content
 */
export function drawLater(place, content) {
  waiting.set(place, content);
  place.dataset.waits = "";
  seen.observe(place);
}

/** @param {Element} place */
function draw(place) {
  const content = waiting.get(place);
  if (!content || !(place instanceof HTMLElement)) return;
  const { rows_per_page: pageSize, max_bars: maxBars } = report();
  if (content instanceof Function) content();
  else if (!content.chart) {
    mountTable(place, content.table, pageSize);
    place.dataset.drawn = "yes";
  } else if (!drawChart(place, content.chart, content.table, maxBars)) {
    return;
  }
  waiting.delete(place);
  delete place.dataset.waits;
  seen.unobserve(place);
}

/** Draws all of the view now, folded parts too: for paper and for tests. */
export function drawAll() {
  // Drawings have folds of their own.
  for (const [place, content] of waiting) if (content instanceof Function) draw(place);
  for (const fold of document.querySelectorAll("main details")) {
    if (fold instanceof HTMLDetailsElement && fold.querySelector("[data-waits]")) fold.open = true;
  }
  [...waiting.keys()].forEach(draw);
}

/** Forgets what a view that is left had not drawn. */
export function forget() {
  for (const place of waiting.keys()) seen.unobserve(place);
  waiting.clear();
}

/** @type {() => void} */
let afterwards = () => {};

/** @param {() => void} act what follows each time something was drawn */
export function afterDrawing(act) {
  afterwards = act;
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target, boundingClientRect: { top } } of entries) {
    // One at a time, so that the page answers between them; what is in sight comes first.
    if (isIntersecting) {
      setTimeout(() => {
        draw(target);
        afterwards();
      }, top < innerHeight ? 0 : UNSEEN_MS);
    }
  }
}, { rootMargin: "400px 0px" });
