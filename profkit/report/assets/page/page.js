// The page: what is drawn when it comes into view.

import { drawChart } from "./charts/chart.js";
import { startCopying } from "./copy.js";
import { human, raw } from "./format.js";
import { drawnOf } from "./model.js";
import { holdDestination, startNavigation } from "./navigation.js";
import { mountTable } from "./table.js";
import { startTheme } from "./theme.js";

const rowsPerPage = Number(document.body.dataset.rowsPerPage);
const maxBars = Number(document.body.dataset.maxBars);
/** @type {HTMLElement[]} */
const places = [...document.querySelectorAll("[data-source]")].filter(
  (place) => place instanceof HTMLElement);

/** @param {HTMLElement} place */
function draw(place) {
  const { source, chart, table, drawn } = place.dataset;
  if (drawn || source === undefined) return;
  const { tables, charts } = drawnOf(source);
  if (chart !== undefined) {
    const specification = charts[Number(chart)];
    drawChart(place, specification, tables[specification.table], maxBars);
  } else {
    mountTable(place, tables[Number(table)], rowsPerPage);
    place.dataset.drawn = "yes";
  }
}

// Draws everything now, folded parts too: for printing and for tests.
function drawAll() {
  for (const fold of document.querySelectorAll("details.holds-data")) {
    if (fold instanceof HTMLDetailsElement) fold.open = true;
  }
  places.forEach(draw);
}
Object.assign(window, { profkit: { drawAll, human } });

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting && entry.target instanceof HTMLElement) draw(entry.target);
  }
  // What was drawn above may be higher than its placeholder was.
  holdDestination();
}, { rootMargin: "400px 0px" });
places.forEach((place) => seen.observe(place));

for (const number of document.querySelectorAll("data.num")) {
  if (!(number instanceof HTMLDataElement)) continue;
  const value = number.value === "" ? null : Number(number.value);
  const unit = number.dataset.unit ?? "";
  number.textContent = human(value, unit);
  number.title = raw(value, unit);
}

startTheme(() => places.filter((place) => place.offsetParent).forEach(draw));
startNavigation();
startCopying();
