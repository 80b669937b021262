// One search over what the page holds and can do: runs, analyses, names in tables, frames, commands.

import { detailOf } from "./model.js";
import { FOR_PROGRAMS } from "./table_rows.js";

/** @typedef {import("./model.js").Report} Report */
/** @typedef {import("./model.js").Run} Run */
/** @typedef {{text: string, act: () => void}} Command what the page can do */
/**
 * @typedef {object} Hit
 * @property {string} text
 * @property {string} kind
 * @property {number} rank
 * @property {string} anchor where it leads to
 * @property {Record<string, string>} state what the address opens besides
 * @property {() => void} [act] what a command does, in place of leading anywhere
 */
/** @typedef {{names: string[], kind: string, anchor: string, name: string}} Frames of a flame graph, which is called `name` */

const MOST_HITS = 40;

/**
 * How well a text answers a question; lower is better, -1 is not at all. Letters may be left out,
 * and signs between them differ: `all-reduce` finds `allreduce`, `model.py:7` finds `model.py(7)`.
 * @param {string} text
 * @param {string} wanted in lower case
 */
export function match(text, wanted) {
  const lower = text.toLowerCase();
  const letters = wanted.replace(/[-_=\s:()]/g, "");
  const at = lower.indexOf(wanted);
  if (at === 0 || letters && lower.startsWith(letters)) return 0;
  if (at >= 0) return /\W/.test(lower[at - 1]) ? 1 : 2;
  let next = 0;
  let gaps = 0;
  for (const letter of letters) {
    const found = lower.indexOf(letter, next);
    if (found < 0) return -1;
    gaps += found - next;
    next = found + 1;
  }
  return !letters || gaps > 3 * letters.length ? -1 : 3 + gaps;
}

/**
 * The names of frames, of the first part of each flame graph.
 * @param {Run} run
 * @returns {Promise<Frames[]>}
 */
export async function framesOf({ topics, drawn }) {
  const all = topics.flatMap(({ sections }) => sections).flatMap((section) => section.drawings
    .map((at) => ({ section, drawing: drawn.drawings[at] })));
  return Promise.all(all.filter(({ drawing }) => drawing.kind === "flame" && drawing.details.length)
    .map(async ({ section: { anchor, title }, drawing }) => ({ anchor, name: drawing.name,
      kind: `${title}, ${drawing.title}`,
      names: (await detailOf(drawing.details[0].block)).names })));
}

/**
 * What answers a question, the best first; a question after `>` is answered by commands alone.
 * @param {string} question
 * @param {Report} report
 * @param {Run} run the run that is open
 * @param {Frames[]} frames of its flame graphs
 * @param {Command[]} commands
 * @returns {Hit[]}
 */
export function hitsOf(question, report, run, frames, commands) {
  const asked = question.trim().toLowerCase();
  const isCommand = asked.startsWith(">");
  const wanted = asked.replace(/^>\s*/, "");
  if (!wanted && !isCommand) return [];
  /** @type {Hit[]} */
  const hits = [];
  const offer = (/** @type {string} */ text, /** @type {string} */ kind,
    /** @type {string} */ anchor, /** @type {Record<string, string>} */ state = {}) => {
    const rank = match(text, wanted);
    if (rank >= 0) hits.push({ text, kind, anchor, rank, state });
  };
  for (const { text, act } of commands) {
    const rank = match(text, wanted);
    if (rank >= 0) hits.push({ text, kind: "command", anchor: "", rank, state: {}, act });
  }
  if (!isCommand) offerNames(report, run, frames, offer);
  hits.sort((a, b) => a.rank - b.rank || a.text.length - b.text.length);
  const seen = new Set();
  return hits.filter(({ text, anchor }) => {
    const key = `${anchor}\n${text}`;
    return !seen.has(key) && seen.add(key);
  }).slice(0, MOST_HITS);
}

/**
 * @param {Report} report
 * @param {Run} run
 * @param {Frames[]} frames
 * @param {(text: string, kind: string, anchor: string, state?: Record<string, string>) => void} offer
 */
function offerNames(report, run, frames, offer) {
  const { verdict } = run;
  const said = verdict ? [verdict.headline, ...verdict.actions.map(({ title }) => title),
    ...verdict.others.map(({ headline }) => headline)] : [];
  for (const text of said.filter(Boolean)) offer(text, "finding", run.anchor);
  for (const { label, anchor } of report.runs) offer(label, "run", anchor);
  for (const section of [...run.topics.flatMap((topic) => topic.sections),
    ...report.across.sections]) {
    offer(section.title, "analysis", section.anchor);
    for (const { message } of section.findings) offer(message, "finding", section.anchor);
    const tables = section.anchor.startsWith("run") ? run.drawn.tables : report.across.drawn.tables;
    for (const index of section.tables) {
      const { columns, rows, title } = tables[index];
      offer(title, section.title, section.anchor);
      for (const row of rows) {
        for (const [at, cell] of row.entries()) {
          if (typeof cell !== "string" || !cell || FOR_PROGRAMS.has(columns[at].label)) continue;
          offer(cell, `${section.title}, ${title}`, section.anchor, { "details.of": cell });
        }
      }
    }
  }
  for (const { names, kind, anchor, name } of frames) {
    for (const text of names) offer(text, kind, anchor, { [`${name}.find`]: text });
  }
}
