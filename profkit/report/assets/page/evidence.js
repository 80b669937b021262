// What a sentence rests on: the rows, slices and cells that a verdict or a finding is about.

/** @typedef {import("./model.js").Report} Report */
/** @typedef {import("./model.js").Run} Run */
/** @typedef {import("./model.js").Section} Section */
/** @typedef {import("./model.js").Table} Table */
/** @typedef {import("./model.js").Finding} Finding */
/** @typedef {import("./model.js").Item} Item */
/** @typedef {import("./model.js").Value} Value */
/**
 * @typedef {object} Claim
 * @property {string} text what is claimed
 * @property {string} cause path of the cause, such as `gpu_idle.python`; empty for none
 * @property {Set<string>} names of causes, kernels, operators and lines
 * @property {Item[]} facts such as a rank and a step
 * @property {Set<string>} scope titles of the tables in which rows of such a rank are evidence
 * @property {string} [topic] name of the view that has its evidence
 */
/** @typedef {{section: Section, rows: number}} Place */

/** @type {Claim | null} */
let shown = null;

/** The claim whose evidence is highlighted. */
export function claimNow() {
  return shown;
}

/** @param {Claim | null} claim */
export function highlight(claim) {
  shown = claim;
}

/**
 * The claim of a key of the address: `part~0`, `action~1`, `other~0`, or an anchor and the finding's place.
 * @param {string} key
 * @param {Report} report
 * @param {Run} run
 * @returns {Claim | null}
 */
export function claimOf(key, report, run) {
  const [where, at] = key.split("~");
  const part = where === "part" && run.verdict?.parts[Number(at)];
  if (part) {
    return { text: part.title, cause: part.cause, names: new Set([part.title]), facts: [],
      scope: new Set() };
  }
  const action = where === "action" && run.verdict?.actions[Number(at)];
  if (action) {
    const { title, cause, cause_title: causeTitle, place, evidence: facts } = action;
    const names = [title, causeTitle, place].filter(Boolean);
    const compared = run.topics.filter(({ name }) => name === "ranks");
    return { text: title, cause, names: new Set(names), facts,
      scope: titlesOf(compared.flatMap(({ sections }) => sections), report, run) };
  }
  const other = where === "other" && run.verdict?.others[Number(at)];
  if (other) {
    return { text: other.headline, cause: "", names: new Set(other.names), facts: other.evidence,
      scope: new Set(), topic: other.topic };
  }
  const section = sectionsOf(report, run).find(({ anchor }) => anchor === where);
  const finding = section?.findings[Number(at)];
  return section && finding ? ofFinding(finding, titlesOf([section], report, run)) : null;
}

/** @param {Section} section @param {Report} report @param {Run} run */
function tablesOf({ anchor, tables }, report, run) {
  const { drawn } = anchor.startsWith("run") ? run : report.across;
  return tables.map((at) => drawn.tables[at]);
}

/** @param {Section[]} sections @param {Report} report @param {Run} run */
function titlesOf(sections, report, run) {
  return new Set(sections.flatMap((one) => tablesOf(one, report, run)).map(({ title }) => title));
}

/** @param {Report} report @param {Run} run */
function sectionsOf(report, run) {
  return [...run.topics.flatMap(({ sections }) => sections), ...report.across.sections];
}

/**
 * The place of a finding among those of its section.
 * @param {Finding} finding
 * @param {Report} report
 * @param {Run} run its run
 * @returns {string} key of its claim
 */
export function keyOfFinding({ section, message }, report, run) {
  const anchor = section.href.slice(1);
  const findings = sectionsOf(report, run).find((one) => one.anchor === anchor)?.findings ?? [];
  return `${anchor}~${findings.findIndex((one) => one.message === message)}`;
}

/** @param {Finding} finding @param {Set<string>} scope @returns {Claim} */
function ofFinding({ message, advice, evidence }, scope) {
  const quoted = [message, advice].flatMap((text) => text.split("\x60").filter((_, at) => at % 2));
  const named = evidence.flatMap(({ value }) => (typeof value === "string" ? [value] : []));
  return { text: message, cause: "", names: new Set([...named, ...quoted]), facts: evidence,
    scope };
}

/**
 * Whether a name is the claim's own; causes of the timeline also say what they belong to, such as
 * `HtoD (Exposed copies)`.
 * @param {Claim} claim
 * @param {string} name
 */
export function isNamed({ names, cause }, name) {
  if (names.has(name)) return true;
  if (!cause) return false;
  return name === cause || name.startsWith(`${cause}.`)
    || name.split(/[():]/).some((part) => names.has(part.trim()));
}

/**
 * The rows that a claim rests on: those that name it, or else those of its rank, step and so on.
 * @param {Table} table
 * @param {Claim} claim
 * @returns {Set<number>} their positions
 */
export function rowsOf({ title, columns, rows }, claim) {
  const where = (/** @type {(row: Value[]) => boolean} */ holds) => new Set(
    rows.flatMap((row, index) => (holds(row) ? [index] : [])));
  const named = where((row) => row.some((cell) => (
    typeof cell === "string" && isNamed(claim, cell))));
  if (named.size || !claim.scope.has(title)) return named;
  const asked = claim.facts.flatMap(({ label, value }) => {
    const column = columns.findIndex((one) => isSame(one.label, label));
    return column < 0 || typeof value !== "number" ? [] : [{ column, value }];
  });
  const isWhere = asked.some(({ column }) => columns[column].unit === "id");
  return isWhere ? where((row) => asked.filter(({ column }) => columns[column].unit === "id")
    .every(({ column, value }) => row[column] === value)) : new Set();
}

/**
 * Whether a column tells what a fact is about: a late rank is a rank.
 * @param {string} column
 * @param {string} fact
 */
function isSame(column, fact) {
  const [one, other] = [column, fact].map((label) => label.toLowerCase());
  return one === other || other.endsWith(` ${one}`);
}

/** The rank that a claim is about, -1 for none. @param {Claim} claim */
export function rankOf({ facts }) {
  const fact = facts.find(({ label, value }) => typeof value === "number" && isSame("rank", label));
  return Number(fact?.value ?? -1);
}

/**
 * The analyses whose tables have rows of a claim.
 * @param {Claim} claim
 * @param {Report} report
 * @param {Run} run
 * @returns {Place[]}
 */
export function placesOf(claim, report, run) {
  return sectionsOf(report, run).flatMap((section) => {
    const count = tablesOf(section, report, run)
      .reduce((sum, table) => sum + rowsOf(table, claim).size, 0);
    return count ? [{ section, rows: count }] : [];
  });
}
