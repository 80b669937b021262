// One analysis: what it found, its numbers, charts and tables. These are drawn when they are seen.

import { drawLater } from "../drawing.js";
import { stateNow } from "../drawings/state.js";
import { element } from "../elements.js";
import { chosenWords, filtered } from "../filters.js";
import { drawing } from "./drawings.js";
import { anchor, drawer, explain, finding, notKnown, tiles } from "./parts.js";

/** @typedef {import("../model.js").Section} Section */
/** @typedef {import("../model.js").Drawn} Drawn */
/** @typedef {import("../model.js").Chart} Chart */
/** @typedef {import("../model.js").Table} Table */

// Numbers with their unit, dates and times.
const UNBROKEN = /^[-−]?\d.{0,20}$/;

/**
 * @param {Section} shown
 * @param {Drawn} drawn
 */
export function section(shown, drawn) {
  const made = element("section", { class: "analysis", id: shown.anchor },
    element("h3", {}, shown.title));
  if (shown.lead) made.append(element("p", { class: "lead" }, shown.lead));
  if (shown.details) made.append(explain("How to read it", element("p", {}, shown.details)));
  made.append(...notKnown(shown.abstentions));
  if (shown.numbers.length) {
    const chosen = chosenWords(stateNow());
    if (chosen) {
      made.append(element("p", { class: "note" }, `Of the whole run, not of ${chosen} alone:`));
    }
    made.append(...tiles(shown.numbers));
  }
  made.append(...shown.findings.map((one) => finding(one, [], [])));
  made.append(...shown.drawings.map((i) => drawing(drawn.drawings[i], shown.title)));
  const all = shown.charts.map((i) => drawn.charts[i]);
  const [first, ...more] = shown.tables.map((i) => drawn.tables[i]);
  const pieces = [...(all.length ? [charts(all, drawn)] : []),
    ...(first ? [tables([first], "h4")] : [])];
  // Bars of long names say less than the rows that they are of, and take more room.
  made.append(...(all.some(({ horizontal }) => horizontal) ? pieces.reverse() : pieces));
  if (more.length === 1) made.append(tables(more, "h4"));
  if (more.length > 1) {
    const titles = more.map(({ title }) => title).join(", ");
    made.append(drawer(`${more.length} more tables: ${titles}`, tables(more, "h4")));
  }
  made.append(element("p", { class: "source" }, anchor(shown.file)));
  return made;
}

/** @param {Chart[]} all @param {Drawn} drawn */
export function charts(all, drawn) {
  return element("div", { class: "charts" }, ...all.map((chart) => {
    const made = element("figure", { class: `chart${chart.horizontal ? " wide" : ""}` },
      element("figcaption", {}, chart.title), element("div", { class: "plot" }),
      element("p", { class: "note", hidden: "" }));
    const table = drawn.tables[chart.table];
    const own = filtered(table, stateNow());
    // A chart without rows is none: it keeps those of all.
    drawLater(made, { chart, table: own.rows.length ? own : table });
    return made;
  }));
}

/** @param {Table[]} all @param {"h3" | "h4"} heading */
export function tables(all, heading) {
  return element("div", { class: "tables" }, ...all.map((table) => titled(table, heading)));
}

/** @param {Table} whole @param {"h3" | "h4"} heading */
function titled(whole, heading) {
  const table = filtered(whole, stateNow());
  const made = element("div", { class: "table" },
    element(heading, { class: "table-title" }, table.title));
  if (table.note) made.append(element("p", { class: "note" }, table.note));
  if (table.rows.length < table.total) {
    const [shown, all] = [table.rows.length, table.total].map((n) => n.toLocaleString("en-US"));
    made.append(element("p", { class: "note cut" },
      `The first ${shown} of ${all} rows travel in this page; the result file has them all.`));
  }
  const place = element("div", { class: "table-place",
    style: `--rows: ${Math.min(table.rows.length, 10)}` });
  drawLater(place, { table });
  made.append(place);
  return made;
}

/**
 * Analyses that only say what is not known, out of the way of the others.
 * @param {Section[]} sections
 */
export function silent(sections) {
  const count = sections.length === 1 ? "1 analysis has" : `${sections.length} analyses have`;
  return drawer(`${count} nothing to tell here`, element("ul", { class: "remarks" },
    ...sections.map((shown) => {
      const made = element("li", { id: shown.anchor }, element("b", {}, shown.title));
      for (const { what, reason } of shown.abstentions) {
        made.append(element("br"), `Not known: ${what}, because ${reason}`);
      }
      made.append(" ", element("span", { class: "source" }, anchor(shown.file)));
      return made;
    })));
}

/**
 * Links to the parts of a view, where they are many.
 * @param {string} title of the view
 * @param {{anchor: string, title: string}[]} parts
 * @returns {HTMLElement[]}
 */
export function contents(title, parts) {
  return parts.length > 2 ? [element("ul", { class: "jump", "aria-label": `Parts of ${title}` },
    ...parts.map((one) => element("li", {},
      element("a", { href: `#${one.anchor}` }, one.title))))] : [];
}

/**
 * The analyses of one subject, and what each rank left to open.
 * @param {import("../model.js").Topic} topic
 * @param {Drawn} drawn
 */
export function topicView(topic, drawn) {
  const made = element("section", { class: "topic", id: topic.anchor });
  made.append(...contents(topic.title, topic.sections),
    ...topic.sections.map((one) => section(one, drawn)));
  if (topic.opened.length) {
    const head = ["Rank", "Repeat", "Open beside this page"];
    made.append(plainTable(`${topic.title}: what to open of each rank`, head,
      topic.opened.map(({ rank, repeat, links }) => [rank, String(repeat),
        element("span", {}, ...links.flatMap((link, index) => (
          index ? [" · ", anchor(link)] : [anchor(link)])))])));
  }
  return made;
}

/**
 * A short table without controls.
 * @param {string} label
 * @param {string[]} heads
 * @param {(Node | string)[][]} rows
 */
export function plainTable(label, heads, rows) {
  return element("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": label },
    element("table", { class: "plain" },
      element("thead", {}, element("tr", {},
        ...heads.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {},
        ...row.map((cell) => element("td",
          UNBROKEN.test(textOf(cell)) ? { class: "unbroken" } : {}, cell)))))));
}

/** @param {Node | string} cell */
function textOf(cell) {
  return typeof cell === "string" ? cell : cell.textContent ?? "";
}
