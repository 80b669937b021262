// Tables: sorted, searched and paged over their data, so that 5,000 rows cost one page of DOM.

import { stateOf } from "./drawings/state.js";
import { action, element } from "./elements.js";
import { claimNow, rowsOf } from "./evidence.js";
import { NOT_KNOWN, human, raw, withoutFolders } from "./format.js";
import { subjectColumn, subjectOf, thingColumns } from "./known.js";
import { saveCsv } from "./save.js";

/** @typedef {import("./model.js").Table} Table */
/** @typedef {import("./model.js").Value} Value */

// Characters of a line of a cell.
const LINE = 58;
// Rows that one sees at a glance: no search for them. Columns that one does not choose from.
const FEW = 8;
const FEW_COLUMNS = 4;
// Rows of the longest page: more elements would make the browser wait.
const LONG_PAGE = 2000;
const TYPING_MS = 80;
const DIGITS = 15;
// Keys of rows and what was recorded of them as JSON, which CSV files and the search have.
const FOR_PROGRAMS = new Set(["ID", "Evidence"]);

/**
 * By what a value is sorted: numbers in a text by their size, and letters whatever their case.
 * A collator takes four times as long for a hundred thousand names.
 * @param {Value} value
 */
function keyOf(value) {
  return typeof value === "string"
    ? value.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0")) : value;
}

/**
 * What is not known goes last in both directions.
 * @param {Value} a
 * @param {Value} b
 * @param {number} direction
 */
function compared(a, b, direction) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return (Number(a > b) - Number(a < b)) * direction;
}

/** @param {Table} table @param {number} column */
export function isNumeric(table, column) {
  let known = 0;
  for (const row of table.rows) {
    if (typeof row[column] === "string") return false;
    if (row[column] !== null) known += 1;
  }
  return known > 0;
}

/**
 * Columns that are not shown at first: those without a value, and what programs read.
 * @param {Table} table
 * @returns {Set<number>}
 */
export function silentColumns({ columns, rows }) {
  return new Set(columns.flatMap(({ label }, index) => (
    index > 0 && (FOR_PROGRAMS.has(label) || rows.every((row) => row[index] === null
      || row[index] === "")) ? [index] : [])));
}

/**
 * Positions of the rows that have all of the words, in order of a column.
 * @param {Table} table
 * @param {string[]} words in lower case
 * @param {number} column -1 for the order of the table
 * @param {number} direction 1 upwards, -1 downwards
 */
export function found(table, words, column, direction) {
  let order = table.rows.map((_, index) => index);
  if (words.length) {
    const has = (/** @type {number} */ index) => {
      const text = table.rows[index].join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    order = order.filter(has);
  }
  if (column >= 0) {
    const isText = !isNumeric(table, column);
    const keys = table.rows.map((row) => keyOf(isText ? row[column]?.toString() ?? null
      : row[column]));
    order.sort((a, b) => compared(keys[a], keys[b], direction) || a - b);
  }
  return order;
}

/**
 * @param {HTMLElement} place
 * @param {Table} table
 * @param {number} pageSize
 */
export function mountTable(place, table, pageSize) {
  new TableView(place, table, pageSize).refresh();
}

class TableView {
  /** @param {HTMLElement} place @param {Table} table @param {number} pageSize */
  constructor(place, table, pageSize) {
    this.table = table;
    this.pageSize = pageSize;
    this.size = pageSize;
    this.page = 0;
    this.from = 0;
    this.column = -1;
    this.direction = 1;
    /** @type {string[]} */
    this.words = [];
    /** @type {number[]} */
    this.order = [];
    this.numeric = table.columns.map((_, index) => isNumeric(table, index));
    this.subject = subjectColumn(table);
    this.things = thingColumns(table).add(this.subject);
    /** Columns that the reader does not want to see. */
    this.hidden = silentColumns(table);
    this.best = new Set(table.best.map((marked) => marked.join()));
    const claim = claimNow();
    /** Rows that the highlighted claim rests on. */
    this.marked = claim ? rowsOf(table, claim) : new Set();
    this.body = element("tbody", this.subject < 0 ? {} : { class: "openable" });
    this.foot = element("tfoot");
    this.heads = table.columns.map((_, index) => this.head(index));
    this.status = element("span", { class: "count", role: "status" });
    this.back = action("‹", { class: "page", "aria-label": "Previous page" }, () => this.turn(-1));
    this.forth = action("›", { class: "page", "aria-label": "Next page" }, () => this.turn(1));
    this.more = table.rows.length > LONG_PAGE ? "Longer pages" : "Show all";
    this.whole = action(this.more, { class: "page",
      "aria-label": `${this.more}: ${table.title}` }, () => this.showMore());
    place.replaceChildren(this.tools(), this.grid());
    this.body.addEventListener("click", (event) => this.clicked(event));
  }

  /**
   * A long name is shown whole; anything else in a row opens what is known of it.
   * @param {Event} event
   */
  clicked({ target }) {
    if (!(target instanceof Element) || target.closest("button, a")) return;
    const clip = target.closest("span.clip");
    if (clip) unclip(clip);
    else if (getSelection()?.isCollapsed) {
      const row = this.order[this.from + [...this.body.children].findIndex((one) => (
        one.contains(target)))];
      open(subjectOf(this.table, this.subject, this.table.rows[row]?.[this.subject]));
    }
  }

  grid() {
    return element("div", { class: "scroller", tabindex: 0, role: "region",
      "aria-label": this.table.title },
    element("table", { class: this.numeric[0] ? "" : "named" },
      element("thead", {}, element("tr", {}, ...this.heads)), this.body, this.foot));
  }

  /** The columns, of which the reader hides what does not matter; the first stays. */
  chooser() {
    const boxes = this.table.columns.slice(1).map(({ label }, index) => {
      const box = element("input", { type: "checkbox" });
      box.checked = !this.hidden.has(index + 1);
      box.addEventListener("change", () => {
        if (box.checked) this.hidden.delete(index + 1);
        else this.hidden.add(index + 1);
        this.show();
      });
      return element("label", {}, box, ` ${label}`);
    });
    return element("details", { class: "choose-columns" },
      element("summary", {}, "Columns"), element("div", {}, ...boxes));
  }

  tools() {
    const { table } = this;
    const made = element("div", { class: "table-tools" });
    if (table.rows.length > FEW) made.append(this.search(), this.status);
    if (table.rows.length > this.pageSize) made.append(this.back, this.forth, this.whole);
    if (table.columns.length > FEW_COLUMNS) made.append(this.chooser());
    made.append(action("CSV", { class: "save", "aria-label": `Save ${table.title} as CSV` },
      () => saveCsv(table, table.title)));
    return made;
  }

  search() {
    const made = element("input", { type: "search", placeholder: "Search",
      "aria-label": `Search in ${this.table.title}`, autocomplete: "off", spellcheck: "false" });
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let waiting;
    made.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        this.words = made.value.toLowerCase().split(/\s+/).filter(Boolean);
        this.refresh();
      }, TYPING_MS);
    });
    return made;
  }

  /** @param {number} index */
  head(index) {
    const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
    const { label } = this.table.columns[index];
    const parts = this.numeric[index] ? [arrow, label] : [label, arrow];
    const button = element("button", { type: "button" }, ...parts);
    button.addEventListener("click", () => this.sortBy(index));
    const kind = this.numeric[index] ? "number" : "text";
    return element("th", { scope: "col", class: kind, "aria-sort": "none" }, button);
  }

  /**
   * Numbers start from the largest: that is what one looks for in a profile.
   * @param {number} column
   */
  sortBy(column) {
    const first = this.numeric[column] ? -1 : 1;
    this.direction = this.column === column ? -this.direction : first;
    this.column = column;
    this.heads.forEach((head, index) => {
      const sorted = this.direction === 1 ? "ascending" : "descending";
      head.setAttribute("aria-sort", index === column ? sorted : "none");
    });
    this.refresh();
  }

  refresh() {
    const order = found(this.table, this.words, this.column, this.direction);
    const isMarked = (/** @type {number} */ row) => Number(this.marked.has(row));
    this.order = this.column < 0 ? order.toSorted((a, b) => isMarked(b) - isMarked(a)) : order;
    this.page = 0;
    this.show();
  }

  /** @param {number} by */
  turn(by) {
    this.page += by;
    this.show();
  }

  showMore() {
    const isShort = this.size === this.pageSize;
    this.size = isShort ? LONG_PAGE : this.pageSize;
    this.whole.textContent = isShort ? "Shorter pages" : this.more;
    this.page = 0;
    this.show();
  }

  show() {
    const count = this.order.length;
    const from = this.page * this.size;
    const to = Math.min(count, from + this.size);
    this.from = from;
    this.body.replaceChildren(...this.order.slice(from, to).map((index) => this.row(index)));
    if (count === 0) {
      const text = this.words.length ? "No row has all of these words." : "No rows.";
      this.body.append(element("tr", {},
        element("td", { colspan: this.table.columns.length }, text)));
    }
    if (this.table.sums.length) this.sum(this.order.slice(from, to));
    for (const row of this.foot.parentElement?.querySelectorAll("tr") ?? []) {
      [...row.children].forEach((one, column) => one.toggleAttribute("hidden",
        this.hidden.has(column)));
    }
    this.back.disabled = from === 0;
    this.forth.disabled = to >= count;
    const total = this.table.rows.length;
    const range = count > to - from ? `${from + 1}–${to} of ` : "";
    const kept = count < total ? ` (of ${total.toLocaleString("en-US")})` : "";
    this.status.textContent = `${range}${count.toLocaleString("en-US")} rows${kept}`;
  }

  /**
   * What is not in sight, and all of it, so that the rows add up.
   * @param {number[]} inSight rows
   */
  sum(inSight) {
    const { rows, columns, sums, total, left_out: cut } = this.table;
    const wholes = new Map(sums);
    const seen = (/** @type {number} */ column) => inSight.reduce((sum, row) => (
      sum + Number(rows[row][column])), 0);
    const left = total + cut - inSight.length;
    const line = (/** @type {string} */ name, /** @type {(column: number) => number} */ value) => (
      element("tr", {}, ...columns.map(({ unit }, column) => {
        if (column === 0) return element("th", { scope: "row" }, name);
        if (!wholes.has(column)) return element("td");
        const shown = value(column);
        return element("td", { class: "number", title: raw(shown, unit) }, human(shown, unit));
      })));
    const whole = (/** @type {number} */ column) => wholes.get(column) ?? 0;
    this.foot.replaceChildren(
      ...(left ? [line(`Other (${left.toLocaleString("en-US")})`,
        (column) => whole(column) - seen(column))] : []), line("All", whole));
  }

  /** @param {number} index */
  row(index) {
    const made = element("tr", {}, ...this.table.rows[index].map((value, column) => (
      this.cell(index, column, value))));
    if (this.marked.size) made.className = this.marked.has(index) ? "marked" : "dimmed";
    return made;
  }

  /** @param {number} row @param {number} column @param {Value} value */
  cell(row, column, value) {
    const { unit } = this.table.columns[column];
    const made = element("td", { class: this.numeric[column] ? "number" : "text" });
    if (value === null) {
      const reason = this.table.reasons[`${row},${column}`];
      made.classList.add("unknown");
      made.textContent = reason ? NOT_KNOWN : "–";
      made.title = reason ?? NOT_KNOWN;
      made.setAttribute("aria-label", made.title);
      return made;
    }
    const text = human(value, unit);
    made.title = raw(value, unit);
    if (column === 0 && this.table.links[row]) {
      made.append(element("a", { href: this.table.links[row] }, text));
    } else if (this.things.has(column) && subjectOf(this.table, column, value) !== "") {
      const isText = typeof value === "string";
      made.append(action(withoutFolders(text, LINE), { class: isText ? "thing clip" : "thing" },
        () => open(subjectOf(this.table, column, value))));
    } else if (typeof value === "string") {
      made.append(element("span", { class: "clip" }, withoutFolders(text, LINE)));
    } else {
      made.textContent = text;
    }
    if (unit === "share" && typeof value === "number" && value >= 0 && value <= 1) {
      made.classList.add("share");
      made.style.setProperty("--part", `${value * 100}%`);
    }
    if (this.best.has(`${row},${column}`)) {
      made.classList.add("best");
      made.prepend(element("span", { class: "best-mark" }, "best"));
    }
    return made;
  }
}

/** Shows all that is known of a thing. @param {string} name empty for none */
function open(name) {
  if (name) stateOf("details").set({ of: name });
}

/** Long names are clipped to two lines; a click shows the whole. @param {Element} clip */
function unclip(clip) {
  const title = clip.closest("td")?.title;
  if (!title) return;
  clip.textContent = clip.classList.toggle("whole") ? title : withoutFolders(title, LINE);
}
