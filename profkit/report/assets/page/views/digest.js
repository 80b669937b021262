// What paper gets: one run on a few pages, whatever view is open.

import { GROUPS, groupsOf, rowsOf } from "../drawings/costs_groups.js";
import { byId, element } from "../elements.js";
import { human, shortened } from "../format.js";
import { command, tiles, verdict, withCode } from "./parts.js";
import { plainTable } from "./sections.js";

/** @typedef {import("../model.js").Report} Report */
/** @typedef {import("../model.js").Run} Run */

/** What keeps the digest to six pages. */
const MOST = { costs: 12, runs: 20, columns: 7, problems: 5, notes: 8, letters: 260, kernel: 48 };

/**
 * Fills the digest of a run; it is only seen on paper.
 * @param {Report} report
 * @param {Run} run
 */
export function fillDigest(report, run) {
  const footer = [run.name, ...report.machines.slice(0, 1).map(({ title }) => title),
    report.captured && `captured ${report.captured}`, `page made ${report.made}`,
    `profkit ${report.version}`].filter(Boolean);
  byId("digest").replaceChildren(element("h1", {}, report.title),
    element("p", { class: "facts" }, ...run.ran.map((text) => element("span", {}, text))),
    ...(run.verdict ? [verdict(run.verdict, run.drawn)] : []), ...step(), ...tiles(run.numbers),
    ...costs(run), ...runs(report), ...problems(report), ...findings(report), ...about(report),
    element("p", { class: "paper-footer" }, footer.join(" · ")));
}

/** The picture of the step, if the view that is open has it. */
function step() {
  const drawn = document.querySelector(".mini");
  return drawn ? [drawn.cloneNode(true)] : [];
}

/** @param {Run} run */
function costs({ drawn }) {
  const shown = drawn.drawings.find(({ kind }) => kind === "costs");
  if (!shown?.data) return [];
  const { first, ranks } = shown.data;
  const group = groupsOf(first).includes("kernel") ? GROUPS.each : GROUPS.operator;
  const names = group.columns.length;
  const rows = rowsOf(first, group);
  const line = (/** @type {string[]} */ cells, /** @type {import("../model.js").Row[]} */ of) => {
    const sum = (/** @type {number} */ column) => of.reduce((all, row) => (
      all + Number(row[column])), 0);
    return [...cells, ...new Array(names - cells.length).fill(""), human(sum(names), "ms"),
      human(sum(names + 1), "share")];
  };
  const made = rows.slice(0, MOST.costs).map((row) => line(row.slice(0, names)
    .map((name) => shortened(String(name), MOST.kernel)), [row]));
  const rest = rows.slice(MOST.costs);
  if (rest.length) made.push(line([`Other (${rest.length})`], rest));
  made.push(line(["All"], rows));
  const heads = [...group.columns, "Time per step", "Share of the step"];
  return [element("h2", {}, `${shown.title}, rank ${ranks[0]}`),
    plainTable(shown.title, heads, made)];
}

/** @param {Report} report */
function runs({ overview: { tables } }) {
  if (tables.length === 0) return [];
  const { columns, rows, title } = tables[0];
  const shown = columns.slice(1, 1 + MOST.columns);
  const made = rows.slice(0, MOST.runs).map((row) => shown.map(({ unit }, index) => (
    human(row[index + 1], unit))));
  return [element("h2", {}, title), plainTable(title, shown.map(({ label }) => label), made),
    ...left(rows.length - MOST.runs, "runs")];
}

/** @param {Report} report */
function problems({ problems: all }) {
  if (all.length === 0) return [];
  return [element("h2", {}, "Failures"), element("ul", {}, ...all.slice(0, MOST.problems)
    .map(({ stage, tool, status, run, reason }) => element("li", {},
      `${stage} ${tool} of ${run.text}: ${status}. ${reason.slice(0, MOST.letters)}`))),
  ...left(all.length - MOST.problems, "failures")];
}

/** @param {Report} report */
function findings({ findings: all, findings_on_top: most }) {
  if (all.length === 0) return [];
  const texts = all.slice(0, most).map(({ first: { message, advice } }) => (
    `${message.slice(0, MOST.letters)} ${advice.slice(0, MOST.letters)}`));
  return [element("h2", {}, "Findings"), element("ul", {}, ...texts.map((text) => (
    element("li", {}, ...withCode(text))))), ...left(all.length - most, "findings")];
}

/** @param {Report} report */
function about(report) {
  const texts = [...report.cuts, ...report.notes, ...report.differences];
  /** @type {HTMLElement[]} */
  const made = [element("h2", {}, "About this report"),
    ...report.machines.map(({ title }) => element("p", {}, title))];
  if (report.command) made.push(command(report.command, "Command that makes this report again"));
  made.push(element("ul", {}, ...texts.slice(0, MOST.notes).map((text) => (
    element("li", {}, text.slice(0, MOST.letters))))));
  return [...made, ...left(texts.length - MOST.notes, "notes")];
}

/** @param {number} count @param {string} what */
function left(count, what) {
  if (count <= 0) return [];
  return [element("p", { class: "note" }, `${count} more ${what} are in the page.`)];
}
