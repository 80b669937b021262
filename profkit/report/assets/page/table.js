// Tables: sorted, searched and paged over their data; of all rows only those in sight are elements.

import { copyOf } from "./copy.js";
import { stateOf } from "./drawings/state.js";
import { action, element, searchBox, write } from "./elements.js";
import { claimNow, rowsOf } from "./evidence.js";
import { NOT_KNOWN, human, raw, withoutFolders } from "./format.js";
import {
  rowsInMarkdown, subjectColumn, subjectColumnOf, subjectOf, thingColumns,
} from "./known.js";
import { positionOf } from "./route.js";
import { saveCsv, slug } from "./save.js";
import {
  found, isNumeric, keysOf, silentColumns, textsOf, windowOf,
} from "./table_rows.js";

/** @typedef {import("./model.js").Table} Table */
/** @typedef {import("./model.js").Value} Value */

// Characters of a line of a cell.
const LINE = 58;
// Rows that one sees at a glance: no search for them. Columns that one does not choose from.
const FEW = 8;
const FEW_COLUMNS = 4;
const FOLDED_ROWS = 12;
// Rows that are all drawn: of more, those that the scrolled part shows.
const MOST_DRAWN = 100;
const ROW_HEIGHT = 33;

/**
 * @param {HTMLElement} place
 * @param {Table} table
 * @param {number} pageSize
 */
export function mountTable(place, table, pageSize) {
  new TableView(place, table, pageSize);
}

/**
 * The place of a table, which is in it.
 * @param {Table} table
 * @param {number} pageSize
 */
export function placedTable(table, pageSize) {
  const place = element("div", { class: "table-place" });
  mountTable(place, table, pageSize);
  return place;
}

/**
 * A table behind a fold, made anew whenever it is opened, or refreshed while it is open.
 * @param {string} title
 * @param {() => Table | Promise<Table>} table
 */
export function foldedTable(title, table) {
  const place = element("div", { class: "table-place" });
  const made = element("details", { class: "explain" }, element("summary", {}, title), place);
  const refresh = async () => {
    if (made.open) mountTable(place, await table(), FOLDED_ROWS);
  };
  made.addEventListener("toggle", refresh);
  return { made, refresh };
}

class TableView {
  /** @param {HTMLElement} place @param {Table} table @param {number} pageSize */
  constructor(place, table, pageSize) {
    this.table = table;
    this.pageSize = pageSize;
    this.state = stateOf(table.name?.replaceAll(".", "") || slug(table.title));
    /** @type {number[]} */
    this.order = [];
    /** Of what the state said when it was shown. @type {string | undefined} */
    this.shown = undefined;
    /** Rows that are drawn, by their element. @type {Map<HTMLTableRowElement, number>} */
    this.drawn = new Map();
    this.column = -1;
    this.direction = 1;
    this.page = 0;
    this.isWhole = false;
    this.isAsked = false;
    /** Columns that are not shown. */
    this.hidden = silentColumns(table);
    this.numeric = table.columns.map((_, index) => isNumeric(table, index));
    this.subject = subjectColumn(table);
    this.things = thingColumns(table).add(this.subject);
    this.best = new Set(table.best.map((marked) => marked.join()));
    const claim = claimNow();
    /** Rows that the highlighted claim rests on. */
    this.marked = claim ? rowsOf(table, claim) : new Set();
    this.body = element("tbody", this.subject < 0 ? {} : { class: "openable" });
    this.foot = element("tfoot");
    /** Above and below the rows that are drawn. */
    this.rooms = [0, 1].map(() => element("tr", { "aria-hidden": "true" }));
    this.heads = table.columns.map((_, index) => this.head(index));
    this.status = element("span", { class: "count", role: "status" });
    this.back = action("‹", { class: "page", "aria-label": "Previous page" }, () => this.turn(-1));
    this.forth = action("›", { class: "page", "aria-label": "Next page" }, () => this.turn(1));
    this.more = action("", { class: "page" }, () => this.set(
      { rows: this.isWhole ? "" : "all", page: "" }));
    this.search = searchBox(`Search in ${table.title}`, "Search",
      (find) => this.set({ find, page: "" }, false));
    this.search.addEventListener("focus", () => textsOf(table));
    this.grid = element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)),
      this.body, this.foot);
    this.scroller = element("div", { class: "scroller", tabindex: 0, role: "region",
      "aria-label": table.title }, this.grid);
    this.boxes = table.columns.map(() => this.box());
    place.replaceChildren(this.tools(), this.scroller);
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.scroller.addEventListener("scroll", () => this.ask(), { passive: true });
    this.state.onChange(() => this.restore(), this.body);
    this.restore();
  }

  /**
   * A long name is shown whole; anything else in a row opens what is known of it.
   * @param {Event} event
   */
  clicked({ target }) {
    if (!(target instanceof Element) || target.closest("a")) return;
    const at = /** @type {HTMLTableRowElement} */ (target.closest("tr"));
    const row = this.table.rows[this.drawn.get(at) ?? -1];
    const [clip, thing] = [target.closest("span.clip"), target.closest("button")?.closest("td")];
    if (clip) unclip(clip);
    else if (row && (thing || getSelection()?.isCollapsed)) {
      const column = thing?.cellIndex ?? subjectColumnOf(this.table, row, this.things);
      const name = subjectOf(this.table, column, row[column]);
      if (name) stateOf("details").set({ of: name });
    }
  }

  /** Hides a column, or shows it. */
  box() {
    const made = element("input", { type: "checkbox" });
    made.addEventListener("change", () => {
      const hidden = this.boxes.flatMap(({ checked }, at) => (checked ? [] : [at + 1]));
      this.set({ hide: hidden.join("-") || "0" });
    });
    return made;
  }

  tools() {
    const { table: { title, rows, columns } } = this;
    const made = element("div", { class: "table-tools" });
    if (rows.length > FEW) made.append(this.search, this.status);
    if (rows.length > this.pageSize) made.append(this.back, this.forth, this.more);
    if (columns.length > FEW_COLUMNS) {
      // The first stays.
      made.append(element("details", { class: "choose-columns" },
        element("summary", {}, "Columns"), element("div", {}, ...this.boxes.slice(1).map(
          (box, index) => element("label", {}, box, ` ${columns[index + 1].label}`)))));
    }
    /** @type {HTMLButtonElement} */
    const copy = action("Markdown", { class: "save", "aria-label": `Copy ${title} as Markdown` },
      () => copyOf(rowsInMarkdown(this.table, [...this.drawn.values()], this.hidden), copy));
    made.append(action("CSV", { class: "save", "aria-label": `Save ${title} as CSV` },
      () => saveCsv(this.table, title)), copy);
    return made;
  }

  /** @param {number} index */
  head(index) {
    const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
    const { label } = this.table.columns[index];
    const parts = this.numeric[index] ? [arrow, label] : [label, arrow];
    const button = element("button", { type: "button" }, ...parts);
    button.addEventListener("click", () => this.sortBy(index));
    // Of a hundred thousand names this takes as long as sorting them.
    for (const before of ["pointerenter", "focus"]) {
      button.addEventListener(before, () => keysOf(this.table, index));
    }
    const kind = this.numeric[index] ? "number" : "text";
    return element("th", { scope: "col", class: kind }, button);
  }

  /**
   * Numbers start from the largest: that is what one looks for in a profile.
   * @param {number} column
   */
  sortBy(column) {
    const first = this.numeric[column] ? -1 : 1;
    const direction = this.column === column ? -this.direction : first;
    this.set({ sort: String(direction * (column + 1)), page: "" });
  }

  /** @param {number} by */
  turn(by) {
    this.set({ page: String(this.page + by + 1) }, false);
  }

  /** @param {Record<string, string>} values @param {boolean} [isStep] */
  set(values, isStep = true) {
    this.state.set(values, isStep);
    this.restore();
  }

  /** Shows what the hash says. */
  restore() {
    const { table, state } = this;
    const find = state.get("find");
    const [sort, hide, rows, page] = ["sort", "hide", "rows", "page"].map((key) => state.get(key));
    const said = [find, sort, hide, rows, page].join("\n");
    if (said === this.shown) return;
    this.shown = said;
    this.column = table.columns[Math.abs(Number(sort)) - 1] ? Math.abs(Number(sort)) - 1 : -1;
    this.direction = Math.sign(Number(sort));
    this.hidden = hide ? new Set(hide.split("-").map((at) => Number(at) - 1).filter(Boolean))
      : silentColumns(table);
    if (document.activeElement !== this.search) this.search.value = find;
    this.boxes.forEach((box, index) => { box.checked = !this.hidden.has(index); });
    this.heads.forEach((head, index) => {
      const sorted = this.direction === 1 ? "ascending" : "descending";
      head.setAttribute("aria-sort", index === this.column ? sorted : "none");
      head.hidden = this.hidden.has(index);
    });
    const order = found(table, find.toLowerCase().split(/\s+/).filter(Boolean), this.column,
      this.direction);
    const isMarked = (/** @type {number} */ row) => Number(this.marked.has(row));
    this.order = this.column < 0 ? order.toSorted((a, b) => isMarked(b) - isMarked(a)) : order;
    this.isWhole = rows === "all";
    this.page = positionOf(page, 1, Math.ceil(order.length / this.pageSize));
    this.show();
  }

  show() {
    const count = this.order.length;
    const { isWhole, page, pageSize, scroller } = this;
    const isScrolled = isWhole && count > MOST_DRAWN;
    const [from, to] = isWhole ? [0, count]
      : [page * pageSize, Math.min(count, (page + 1) * pageSize)];
    scroller.classList.toggle("scrolled", isScrolled);
    this.grid.setAttribute("aria-rowcount", String(isScrolled ? count + 1 : to - from + 1));
    this.drawn.clear();
    this.size([]);
    if (isScrolled) {
      scroller.scrollTop = 0;
      this.showWindow();
      this.size([this.grid, ...this.heads].map((one) => `${one.offsetWidth}px`));
    } else this.fill(from, to, 0);
    if (count === 0) {
      this.body.append(element("tr", {}, element("td", { colspan: this.table.columns.length },
        this.table.rows.length ? "No row has all of these words." : "No rows.")));
    }
    if (this.table.sums.length) this.sum(this.order.slice(from, to));
    this.back.disabled = isWhole || from === 0;
    this.forth.disabled = to >= count;
    this.more.textContent = isWhole ? "Show pages" : "Show all";
    this.more.ariaLabel = `${this.more.textContent}: ${this.table.title}`;
    const [total, rows] = [this.table.rows.length, count === 1 ? "row" : "rows"];
    const range = count > to - from ? `${from + 1}–${to} of ` : "";
    const kept = count < total ? ` (of ${total.toLocaleString("en-US")})` : "";
    this.status.textContent = `${range}${count.toLocaleString("en-US")} ${rows}${kept}`;
  }

  /**
   * Puts rows in their place, and room for those that are not drawn. What comes in sight takes the
   * elements of what goes out of it, and those that stay are not touched: laying out is what costs.
   * @param {number} from
   * @param {number} to
   * @param {number} height of a row that is not drawn
   */
  fill(from, to, height) {
    const wanted = this.order.slice(from, to);
    const known = new Map([...this.drawn].map(([row, index]) => [index, row]));
    const staying = new Set(wanted);
    const free = [...this.drawn].flatMap(([row, index]) => (staying.has(index) ? [] : [row]));
    if (free.length < known.size) free.forEach((row) => row.remove());
    const rows = wanted.map((index, at) => {
      const made = known.get(index) ?? this.row(index, free.shift());
      made.setAttribute("aria-rowindex", String(from + at + 2));
      return made;
    });
    this.drawn = new Map(rows.map((row, at) => [row, wanted[at]]));
    const room = (/** @type {number} */ at, /** @type {number} */ count) => {
      this.rooms[at].style.height = `${count * height}px`;
      return count * height ? [this.rooms[at]] : [];
    };
    let next = this.body.firstChild;
    for (const row of [...room(0, from), ...rows, ...room(1, this.order.length - to)]) {
      if (row === next) next = row.nextSibling;
      else this.body.insertBefore(row, next);
    }
    while (next) {
      const left = next;
      next = left.nextSibling;
      left.remove();
    }
  }

  /**
   * Keeps columns as wide as they are: looking for their widths in each frame makes it late.
   * @param {string[]} widths of the table and its columns, empty for those of the rows
   */
  size([whole = "", ...widths]) {
    this.grid.style.tableLayout = whole && "fixed";
    this.grid.style.width = whole;
    this.heads.forEach((head, index) => { head.style.width = widths[index] ?? ""; });
  }

  showWindow() {
    const { scrollTop, clientHeight } = this.scroller;
    this.fill(...windowOf(scrollTop, clientHeight || innerHeight, ROW_HEIGHT, this.order.length),
      ROW_HEIGHT);
  }

  /** Asks for the rows that are in sight once the frame is drawn. */
  ask() {
    if (this.isAsked || !this.scroller.classList.contains("scrolled")) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.showWindow();
    });
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
    for (const { cells } of this.foot.rows) {
      [...cells].forEach((cell, column) => { cell.hidden = this.hidden.has(column); });
    }
  }

  /** @param {number} index @param {HTMLTableRowElement} [made] of another row */
  row(index, made = element("tr", {}, ...this.heads.map(() => element("td")))) {
    const row = this.table.rows[index];
    const subject = subjectColumnOf(this.table, row, this.things);
    row.forEach((value, column) => {
      this.cell(made.cells[column], index, column, value, column === subject);
    });
    if (this.marked.size) made.className = this.marked.has(index) ? "marked" : "dimmed";
    return made;
  }

  /**
   * @param {HTMLTableCellElement} made
   * @param {number} row
   * @param {number} column
   * @param {Value} value
   * @param {boolean} isSubject of its row
   */
  cell(made, row, column, value, isSubject) {
    const { unit } = this.table.columns[column];
    const reason = this.table.reasons[`${row},${column}`];
    const isText = typeof value === "string";
    const isThing = isSubject || (this.things.has(column) && subjectOf(this.table, column, value));
    const link = column === 0 && this.table.links[row];
    made.className = this.numeric[column] ? "number" : "text";
    made.hidden = this.hidden.has(column);
    made.removeAttribute("aria-label");
    if (value === null) {
      made.classList.add("unknown");
      made.textContent = reason ? NOT_KNOWN : "–";
      made.title = reason ?? NOT_KNOWN;
      made.ariaLabel = made.title;
      return;
    }
    const text = human(value, unit);
    made.title = raw(value, unit);
    if (link) write(made, "a", text).setAttribute("href", link);
    else if (isThing) {
      write(made, "button", withoutFolders(text, LINE)).className = isText ? "thing clip" : "thing";
    } else if (isText) write(made, "span", withoutFolders(text, LINE)).className = "clip";
    else write(made, "", text);
    if (unit === "share" && typeof value === "number" && value >= 0 && value <= 1) {
      made.classList.add("share");
      made.style.setProperty("--part", `${value * 100}%`);
    }
    if (this.best.has(`${row},${column}`)) {
      made.classList.add("best");
      made.prepend(element("span", { class: "best-mark" }, "best"));
    }
  }
}

/** Long names are clipped to two lines; a click shows the whole. @param {Element} clip */
function unclip(clip) {
  const title = clip.closest("td")?.title;
  if (!title) return;
  clip.textContent = clip.classList.toggle("whole") ? title : withoutFolders(title, LINE);
}
