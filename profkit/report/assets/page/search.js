// One search over what the page holds: runs, analyses, and the names in their tables.

/** @typedef {import("./model.js").Report} Report */
/** @typedef {import("./model.js").Run} Run */
/** @typedef {{text: string, kind: string, anchor: string, rank: number, isName: boolean}} Hit */

const MOST_HITS = 40;

/**
 * How well a text answers a question; lower is better, -1 is not at all. Letters may be left out.
 * @param {string} text
 * @param {string} wanted in lower case
 */
export function match(text, wanted) {
  const lower = text.toLowerCase();
  const at = lower.indexOf(wanted);
  if (at >= 0) return at === 0 ? 0 : /\W/.test(lower[at - 1]) ? 1 : 2;
  let next = 0;
  let gaps = 0;
  for (const letter of wanted) {
    const found = lower.indexOf(letter, next);
    if (found < 0) return -1;
    gaps += found - next;
    next = found + 1;
  }
  return gaps > 3 * wanted.length ? -1 : 3 + gaps;
}

/**
 * What answers a question, the best first.
 * @param {string} question
 * @param {Report} report
 * @param {Run} run the run that is open
 * @returns {Hit[]}
 */
export function hitsOf(question, report, run) {
  const wanted = question.trim().toLowerCase();
  if (!wanted) return [];
  /** @type {Hit[]} */
  const hits = [];
  const offer = (/** @type {string} */ text, /** @type {string} */ kind,
    /** @type {string} */ anchor, isName = false) => {
    const rank = match(text, wanted);
    if (rank >= 0) hits.push({ text, kind, anchor, rank, isName });
  };
  for (const { label, anchor } of report.runs) offer(label, "run", anchor);
  for (const section of [...run.topics.flatMap((topic) => topic.sections),
    ...report.across.sections]) {
    offer(section.title, "analysis", section.anchor);
    const tables = section.anchor.startsWith("run") ? run.drawn.tables : report.across.drawn.tables;
    for (const index of section.tables) {
      const { rows, title } = tables[index];
      for (const row of rows) {
        for (const cell of row) {
          if (typeof cell === "string" && cell) offer(cell, `${section.title}, ${title}`,
            section.anchor, true);
        }
      }
    }
  }
  hits.sort((a, b) => a.rank - b.rank || a.text.length - b.text.length);
  const seen = new Set();
  return hits.filter(({ text, anchor }) => {
    const key = `${anchor}\n${text}`;
    return !seen.has(key) && seen.add(key);
  }).slice(0, MOST_HITS);
}
