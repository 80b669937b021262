// All that the tables of a run know of one thing: a kernel, an operator, a module, a line.

import { FILTERS, filtered, numberOf } from "./filters.js";
import { human } from "./format.js";

/** @typedef {import("./model.js").Report} Report */
/** @typedef {import("./model.js").Run} Run */
/** @typedef {import("./model.js").Section} Section */
/** @typedef {import("./model.js").Table} Table */
/** @typedef {import("./model.js").Row} Row */
/** @typedef {import("./model.js").Finding} Finding */
/**
 * @typedef {object} Place rows of one table about the thing
 * @property {Section} section
 * @property {Table} table
 * @property {Row[]} rows
 * @property {boolean} isSubject whether the rows are named after it, or only name it
 */
/** @typedef {{label: string, names: string[]}} Related names in its rows that other rows have */
/** @typedef {{places: Place[], related: Related[], findings: Finding[]}} Known */

const SHORTEST = 4;
/** Columns whose texts are things that can be looked up, as the report labels them. */
const THINGS = new Set(["Operator", "Kernel", "Module", "Line", "Place", "Name", "Function",
  "Library", "Class", "File", "Launched by", "Before", "After", "Host", "Stack"]);
/** Keys of rows, that no reader looks up. */
const KEYS = new Set(["ID"]);

/** @param {Report} report @param {Run} run @returns {[Section, Table][]} */
function tablesOf(report, run) {
  const own = run.topics.flatMap((topic) => topic.sections)
    .flatMap((section) => section.tables.map((i) => [section, run.drawn.tables[i]]));
  const across = report.across.sections
    .flatMap((section) => section.tables.map((i) => [section, report.across.drawn.tables[i]]));
  return /** @type {[Section, Table][]} */ ([...own, ...across]);
}

/**
 * The column that names the rows: the first of things, or else the first with text.
 * @param {Table} table
 * @returns {number} -1 if there is none
 */
export function nameColumn(table) {
  const known = nameColumns.get(table) ?? firstName(table);
  nameColumns.set(table, known);
  return known;
}

/** @type {WeakMap<Table, number>} */
const nameColumns = new WeakMap();

/** @param {Table} table */
function firstName(table) {
  const texts = table.columns.flatMap((_, column) => (
    !KEYS.has(table.columns[column].label)
      && table.rows.some((row) => typeof row[column] === "string") ? [column] : []));
  return texts.find((column) => THINGS.has(table.columns[column].label)) ?? texts[0] ?? -1;
}

/**
 * The columns whose texts can be looked up.
 * @param {Table} table
 * @returns {Set<number>}
 */
export function thingColumns(table) {
  const things = [...table.columns.keys()].filter((column) => (
    THINGS.has(table.columns[column].label)));
  return new Set([nameColumn(table), ...things]);
}

/**
 * The column that says what rows are about: their name, or else their rank, step or repeat.
 * @param {Table} table
 * @returns {number} -1 if there is none
 */
export function subjectColumn(table) {
  const named = nameColumn(table);
  return named >= 0 ? named : table.columns.findIndex(({ label }) => (
    FILTERS.some(([one]) => one === label)));
}

/**
 * What a cell of such a column is called, such as `aten::mm` or `rank 7`; empty for nothing.
 * @param {Table} table
 * @param {number} column
 * @param {import("./model.js").Value} cell
 */
export function subjectOf(table, column, cell) {
  if (typeof cell !== "number") return cell ?? "";
  const { label } = table.columns[column];
  return FILTERS.some(([one]) => one === label) ? `${label.toLowerCase()} ${cell}` : "";
}

/**
 * The column that says what one row is about: where the columns of things have nothing, its text.
 * @param {Table} table
 * @param {Row} row
 * @param {Set<number>} things columns of things, the one that names most rows first
 * @returns {number} -1 if there is none
 */
export function subjectColumnOf(table, row, things) {
  const texts = table.columns.flatMap(({ label }, column) => (
    KEYS.has(label) || typeof row[column] !== "string" ? [] : [column]));
  return [...things, ...texts].find((column) => (
    column >= 0 && subjectOf(table, column, row[column]) !== "")) ?? -1;
}

/**
 * The rows of a table about a thing, and whether they are named after it.
 * @param {Table} table
 * @param {string} name
 * @returns {{rows: Row[], isSubject: boolean}}
 */
function rowsAbout(table, name) {
  const [, key, number] = /(?:^| )(\w+) (\d+)$/.exec(name) ?? [];
  const label = FILTERS.find(([, one]) => one === key)?.[0];
  const numbered = label ? table.columns.findIndex((one) => one.label === label) : -1;
  if (numbered >= 0) {
    return { rows: table.rows.filter((row) => numberOf(row[numbered]) === number),
      isSubject: subjectColumn(table) === numbered };
  }
  const column = nameColumn(table);
  const named = table.rows.filter((row) => row[column] === name);
  return named.length ? { rows: named, isSubject: true }
    : { rows: table.rows.filter((row) => row.includes(name)), isSubject: false };
}

/** @type {WeakMap<Run, Set<import("./model.js").Value>>} */
const namesOfRuns = new WeakMap();

/**
 * What names rows in any table.
 * @param {Report} report
 * @param {Run} run
 */
function namesOf(report, run) {
  const names = namesOfRuns.get(run) ?? new Set();
  if (names.size) return names;
  for (const [, table] of tablesOf(report, run)) {
    const column = nameColumn(table);
    for (const row of table.rows) names.add(row[column]);
  }
  // The name of what has none leads nowhere.
  names.delete("");
  namesOfRuns.set(run, names);
  return names;
}

/**
 * What is known of a thing; what is named after it comes first.
 * @param {string} name
 * @param {Report} report
 * @param {Run} run
 * @param {Record<string, string>} [state] rank, step and repeat that the reader chose
 * @returns {Known}
 */
export function knownOf(name, report, run, state = {}) {
  /** @type {Place[]} */
  const places = [];
  const isNumber = FILTERS.some(([, key]) => new RegExp(`(^| )${key} \\d+$`).test(name));
  for (const [section, whole] of tablesOf(report, run)) {
    const table = isNumber ? whole : filtered(whole, state);
    const about = rowsAbout(table, name);
    if (about.rows.length) places.push({ section, table, ...about });
  }
  places.sort((a, b) => Number(b.isSubject) - Number(a.isSubject));
  return { places, related: relatedTo(name, places, namesOf(report, run)),
    findings: findingsOn(name, run) };
}

/**
 * @param {string} name
 * @param {Place[]} places
 * @param {Set<import("./model.js").Value>} names
 */
function relatedTo(name, places, names) {
  /** @type {Map<string, Set<string>>} */
  const found = new Map();
  for (const { table, rows } of places) {
    for (const row of rows) {
      row.forEach((cell, column) => {
        const { label } = table.columns[column];
        if (typeof cell !== "string" || cell === name || !THINGS.has(label)
          || !names.has(cell)) return;
        found.set(label, (found.get(label) ?? new Set()).add(cell));
      });
    }
  }
  return [...found].map(([label, alike]) => ({ label, names: [...alike] }));
}

/** @param {string} name @param {Run} run */
function findingsOn(name, run) {
  if (name.length < SHORTEST) return [];
  return run.topics.flatMap((topic) => topic.sections).flatMap((section) => section.findings)
    .filter(({ message, advice, evidence }) => message.includes(name) || advice.includes(name)
      || evidence.some(({ value }) => value === name));
}

/**
 * The row of a thing in the same table of another run.
 * @param {string} name
 * @param {Place} place
 * @param {Run} run
 * @returns {{table: Table, row: Row} | null}
 */
export function sameIn(name, { section, table }, run) {
  for (const topic of run.topics) {
    const other = topic.sections.find(({ title }) => title === section.title);
    for (const index of other?.tables ?? []) {
      const candidate = run.drawn.tables[index];
      if (candidate.title !== table.title) continue;
      const { rows: [row], isSubject } = rowsAbout(candidate, name);
      if (row && isSubject) return { table: candidate, row };
    }
  }
  return null;
}

/**
 * The cells of a row that are known, with what they are called; without the name itself.
 * @param {Table} table
 * @param {Row} row
 * @param {string} name
 * @param {typeof human} [text] of a value
 * @returns {[string, string][]}
 */
export function factsOf(table, row, name, text = human) {
  return row.flatMap((cell, column) => {
    const { label, unit } = table.columns[column];
    if (cell === null || cell === "" || cell === name) return [];
    return [/** @type {[string, string]} */ ([label, text(cell, unit)])];
  });
}

/** @param {string} text */
function plain(text) {
  return text.replace(/\s+/g, " ").replace(/[\\\x60*_[\]<>|]/g, "\\$&");
}

/**
 * What one pastes into an issue: each table with its rows about the thing.
 * @param {string} name
 * @param {Known} known
 * @param {string} where title of the report and label of the run
 */
export function markdownOf(name, { places, findings }, where) {
  const lines = [`**${plain(name)}** (${plain(where)})`];
  for (const { section, table, rows } of places) {
    lines.push("", `${plain(section.title)}, ${plain(table.title)}:`, "");
    for (const row of rows.slice(0, MOST_ROWS)) {
      const facts = factsOf(table, row, name).map(([label, text]) => `${label} ${text}`);
      lines.push(`- ${plain(facts.join(", "))}`);
    }
    if (rows.length > MOST_ROWS) lines.push(`- and ${rows.length - MOST_ROWS} more rows`);
  }
  for (const { message } of findings) lines.push("", `> ${plain(message)}`);
  return `${lines.join("\n")}\n`;
}

/**
 * Rows of a table as Markdown.
 * @param {Table} table
 * @param {number[]} rows
 * @param {Set<number>} hidden columns
 */
export function rowsInMarkdown({ title, columns, rows: all }, rows, hidden) {
  const line = (/** @type {string[]} */ cells) => (
    `| ${cells.filter((_, column) => !hidden.has(column)).join(" | ")} |`);
  return [`**${plain(title)}**`, "", line(columns.map(({ label }) => plain(label))),
    line(columns.map(() => "---")), ...rows.map((row) => line(all[row].map((cell, column) => (
      plain(human(cell, columns[column].unit)))))), ""].join("\n");
}

/** Rows of one table that are shown of a thing. */
export const MOST_ROWS = 3;
