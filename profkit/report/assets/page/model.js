// What the page embeds, as `profkit.report.view` writes it.

/** @typedef {string | number | null} Value a cell; null is not known */
/** @typedef {{label: string, unit: string}} Column */
/** @typedef {Value[]} Row */
/**
 * @typedef {object} Table
 * @property {string} title
 * @property {string} [name] part of the hash, where its order and columns are kept
 * @property {Column[]} columns
 * @property {Row[]} rows
 * @property {string} note
 * @property {number} total rows of the result; more than `rows` if some were cut
 * @property {string[]} links where the first cell of each row leads to; empty for nowhere
 * @property {[number, number][]} best cells to mark as the best of their column
 * @property {Record<string, string>} reasons why a cell is not known, by "row,column"
 * @property {[number, number][]} sums columns that add up, with what all rows have
 * @property {number} left_out rows that the analysis left out
 */
/**
 * @typedef {object} Chart a drawing of columns of a table; numbers are positions
 * @property {string} title
 * @property {string} kind
 * @property {number} table
 * @property {number} x
 * @property {number[]} y
 * @property {number} color column whose values are the series; -1 for one a column of `y`
 * @property {boolean} horizontal
 * @property {string[]} log axes with even steps for multiples
 * @property {string[]} lines series of a scatter that are drawn as lines
 * @property {number} choose column of which the reader chooses one value; -1 for all rows
 * @property {number} band by how much a factor has to differ from 1 to matter
 * @property {number} needs column with how many more repeats would decide; -1 for none
 * @property {string} note
 */
/**
 * @typedef {object} DrawingData what one of `drawings/` draws
 * @property {string} name part of the hash, where the state of the drawing is kept
 * @property {string} kind
 * @property {string} title
 * @property {Record<string, any>} data
 * @property {{name: string, block: string}[]} details
 * @property {string[]} cut details for which this page has no room
 */
/** @typedef {Omit<DrawingData, "data"> & {data: Record<string, any> | null}} Placed a drawing, without data if the page has no room for it */
/** @typedef {{tables: Table[], charts: Chart[], drawings: Placed[]}} Drawn */
/**
 * @typedef {object} KeyNumber
 * @property {string} title
 * @property {Value} value
 * @property {string} unit
 * @property {string} reason
 * @property {[number, number, number] | null} interval low, high and confidence
 */
/** @typedef {{label: string, value: Value, unit: string}} Item */
/** @typedef {{text: string, href: string}} Link */
/** @typedef {{what: string, reason: string}} Abstention */
/**
 * @typedef {object} Finding
 * @property {string} severity
 * @property {string} message
 * @property {KeyNumber} number
 * @property {Item[]} evidence
 * @property {string} advice
 * @property {Link} run
 * @property {Link} section
 */
/**
 * @typedef {object} Section one analysis
 * @property {string} anchor
 * @property {string} title
 * @property {string} lead
 * @property {string} details
 * @property {KeyNumber[]} numbers
 * @property {Finding[]} findings
 * @property {number[]} drawings
 * @property {number[]} charts
 * @property {number[]} tables
 * @property {Abstention[]} abstentions
 * @property {Link} file
 * @property {boolean} is_answer
 */
/** @typedef {{rank: string, repeat: number, links: Link[]}} RankFiles */
/** @typedef {{anchor: string, name: string, title: string, sections: Section[], opened: RankFiles[]}} Topic */
/** @typedef {{link: Link, size_bytes: number, opens_with: string}} OpenFile */
/**
 * @typedef {object} Attempt
 * @property {string} tool
 * @property {number} repeat
 * @property {string} status
 * @property {string} started
 * @property {number | null} elapsed_s
 * @property {number | null} exit_code
 * @property {string} reason
 * @property {Link} folder
 */
/**
 * @typedef {object} Verdict
 * @property {string} limiter
 * @property {string} headline
 * @property {string} confidence
 * @property {boolean} is_disturbed whether that goes before what it says
 * @property {string} step_ms
 * @property {string} of_step which step the causes are of
 * @property {string} about_step how it differs from the unprofiled ones
 * @property {StepPart[]} parts
 * @property {string[]} small parts too small to be drawn
 * @property {Action[]} actions
 * @property {string} nothing what is said where there is no action
 * @property {OtherVerdict[]} others
 * @property {string[]} failed
 * @property {string[]} passed
 */
/** @typedef {{title: string, topic: string, headline: string, advice: string, gain: string, confidence: string, source: string, names: string[], evidence: Item[]}} OtherVerdict */
/** @typedef {{title: string, cause: string, ms: string, share: number}} StepPart */
/** @typedef {{title: string, cause: string, cause_title: string, gain: string, advice: string, place: string, confidence: string, source: string, evidence: Item[]}} Action */
/**
 * @typedef {object} Run
 * @property {string} anchor
 * @property {string} name
 * @property {string} label
 * @property {string[]} ran what ran where
 * @property {string} command
 * @property {Item[]} statuses
 * @property {KeyNumber[]} numbers
 * @property {Topic[]} topics
 * @property {Section[]} silent
 * @property {Attempt[]} captures
 * @property {OpenFile[]} viewable
 * @property {{link: Link, files: OpenFile[], hidden: number}[]} folders
 * @property {string} configuration
 * @property {[string, Item[]][]} manifest
 * @property {{title: string, text: string}[]} listings
 * @property {Drawn} drawn
 * @property {Verdict | null} verdict
 */
/**
 * @typedef {object} Problem
 * @property {Link} run
 * @property {string} tool
 * @property {number} attempt
 * @property {string} status
 * @property {string} reason
 * @property {Link} folder
 * @property {string} stage
 * @property {number | null} repeat
 * @property {number | null} exit_code
 * @property {string} command
 * @property {string} log_tail
 */
/** @typedef {{tool: string, text: string, runs: {run: Link, files: string[]}[]}} Remark */
/**
 * @typedef {object} Report
 * @property {string} title
 * @property {string} made
 * @property {string} version
 * @property {{title: string, items: Item[]}[]} machines
 * @property {string} captured
 * @property {string} command
 * @property {string[]} notes
 * @property {string[]} differences of machines, versions and sources between captures
 * @property {Drawn} overview
 * @property {{anchor: string, sections: Section[], drawn: Drawn, silent: Section[]}} across
 * @property {{first: Finding, others: Finding[]}[]} findings
 * @property {number} findings_on_top
 * @property {Problem[]} problems
 * @property {Remark[]} remarks
 * @property {RunName[]} runs
 * @property {number} rows_per_page
 * @property {number} max_bars
 * @property {string[]} cuts what was left out to keep the page small
 * @property {number} opens index of the run that is shown first
 */
/** @typedef {{anchor: string, label: string}} RunName what is known of a run before it is opened */

/**
 * A table that the page makes itself.
 * @param {string} title
 * @param {Column[]} columns
 * @param {Row[]} rows
 * @param {number[]} [addUp] columns that add up
 * @returns {Table}
 */
export function madeTable(title, columns, rows, addUp = []) {
  return { title, columns, rows, note: "", total: rows.length, links: [], best: [], reasons: {},
    sums: sumsOf(rows, addUp), left_out: 0 };
}

/** @param {Row[]} rows @param {number[]} columns @returns {[number, number][]} */
export function sumsOf(rows, columns) {
  return columns.map((column) => [column, rows.reduce((sum, row) => sum + Number(row[column]), 0)]);
}

/** @type {Map<string, unknown>} */
const parsed = new Map();

/** @param {string} name */
function dataOf(name) {
  if (!parsed.has(name)) {
    const text = document.getElementById(`data-${name}`)?.textContent;
    if (!text) throw new Error(`this page holds no data of ${name}`);
    parsed.set(name, JSON.parse(text));
  }
  return parsed.get(name);
}

/** What the whole page shows. */
export function report() {
  return /** @type {Report} */ (dataOf("report"));
}

/**
 * One run, parsed when it is first shown.
 * @param {number} index from 0
 */
export function runAt(index) {
  return /** @type {Run} */ (dataOf(report().runs[index].anchor));
}

/** The detail that was unpacked last: the Overview and the Timeline begin with the same. */
let latest = { block: "", data: Promise.resolve() };

/**
 * The data of a detail of a drawing, of which one is kept: the reader looks at few at once.
 * @param {string} block id of the element that holds it
 * @returns {Promise<any>}
 */
export function detailOf(block) {
  if (latest.block !== block) latest = { block, data: unpacked(block) };
  return latest.data;
}

/** @param {string} block @returns {Promise<any>} */
async function unpacked(block) {
  const packed = document.getElementById(block)?.textContent;
  if (!packed) throw new Error(`this page holds no ${block}`);
  const text = atob(packed);
  // A loop takes a tenth of the time of Uint8Array.from for a step of a hundred thousand slices.
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}
