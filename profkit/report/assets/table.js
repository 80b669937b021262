// Tables: sorted, searched and paged over their data, so that 5,000 rows cost one page of DOM.

// Characters of a line of a cell.
const LINE = 58;
const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// What is not known goes last in both directions.
function compared(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b
    : collator.compare(String(a), String(b));
  return order * direction;
}

function isNumeric(table, column) {
  let known = 0;
  for (const row of table.rows) {
    if (typeof row[column] === "string") return false;
    if (row[column] !== null) known += 1;
  }
  return known > 0;
}

function mountTable(place, table, pageSize) {
  const numeric = table.columns.map((_, index) => isNumeric(table, index));
  const searchable = table.rows.length > 8;
  const best = new Set(table.best.map((cell) => cell.join()));
  const state = { order: table.rows.map((_, i) => i), column: -1, direction: 1, page: 0, words: [] };
  let texts = null;
  let size = pageSize;

  const body = element("tbody");
  const heads = table.columns.map(head);
  const grid = element("table", { class: numeric[0] ? "" : "named" }, element("thead", {}, element("tr", {}, ...heads)), body);
  const scroller = element("div", { class: "scroller", tabindex: "0", role: "region",
    "aria-label": table.title }, grid);
  const status = element("span", { class: "count", role: "status" });
  const search = element("input", { type: "search", placeholder: "Search",
    "aria-label": `Search in ${table.title}`, autocomplete: "off", spellcheck: "false" });
  const back = pager("‹", "Previous page", () => turn(-1));
  const forth = pager("›", "Next page", () => turn(1));
  const all = pager("Show all", `Show all rows of ${table.title}`, showAll);
  const tools = element("div", { class: "table-tools" });
  if (searchable) tools.append(search);
  tools.append(status);
  if (table.rows.length > pageSize) tools.append(back, forth, all);
  if (searchable) place.replaceChildren(tools, scroller);
  else place.replaceChildren(scroller);

  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      refresh();
    }, 80);
  });

  function head(column, index) {
    const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
    const parts = numeric[index] ? [arrow, column.label] : [column.label, arrow];
    const button = element("button", { type: "button" }, ...parts);
    button.addEventListener("click", () => sortBy(index));
    const kind = numeric[index] ? "number" : "text";
    return element("th", { scope: "col", class: kind, "aria-sort": "none" }, button);
  }

  function pager(text, label, act) {
    const button = element("button", { type: "button", class: "page", "aria-label": label }, text);
    button.addEventListener("click", act);
    return button;
  }

  // Numbers start from the largest: that is what one looks for in a profile.
  function sortBy(column) {
    const first = numeric[column] ? -1 : 1;
    state.direction = state.column === column ? -state.direction : first;
    state.column = column;
    heads.forEach((each, index) => {
      const sorted = state.direction === 1 ? "ascending" : "descending";
      each.setAttribute("aria-sort", index === column ? sorted : "none");
    });
    refresh();
  }

  function refresh() {
    let order = table.rows.map((_, index) => index);
    if (state.words.length) {
      texts ??= table.rows.map((row) => row.join("\n").toLowerCase());
      order = order.filter((index) => state.words.every((word) => texts[index].includes(word)));
    }
    if (state.column >= 0) {
      const { column, direction } = state;
      order.sort((a, b) =>
        compared(table.rows[a][column], table.rows[b][column], direction) || a - b);
    }
    state.order = order;
    state.page = 0;
    show();
  }

  function turn(by) {
    state.page += by;
    show();
  }

  function showAll() {
    size = size === pageSize ? Infinity : pageSize;
    all.textContent = size === pageSize ? "Show all" : "Show pages";
    state.page = 0;
    show();
  }

  function show() {
    const found = state.order.length;
    const from = size === Infinity ? 0 : state.page * size;
    const to = Math.min(found, from + size);
    body.replaceChildren(...state.order.slice(from, to).map(drawn));
    if (found === 0) {
      const text = state.words.length ? "No row has all of these words." : "No rows.";
      body.append(element("tr", {}, element("td", { colspan: table.columns.length }, text)));
    }
    back.disabled = from === 0;
    forth.disabled = to >= found;
    const total = table.rows.length.toLocaleString("en-US");
    const range = found > to - from ? `${from + 1}–${to} of ` : "";
    const kept = found < table.rows.length ? ` (of ${total})` : "";
    status.textContent = `${range}${found.toLocaleString("en-US")} rows${kept}`;
  }

  function drawn(index) {
    return element("tr", {}, ...table.rows[index].map((value, column) => cell(index, column, value)));
  }

  function cell(row, column, value) {
    const unit = table.columns[column].unit;
    const made = element("td", { class: numeric[column] ? "number" : "text" });
    if (value === null) {
      made.classList.add("unknown");
      made.textContent = table.reasons[`${row},${column}`] ? NOT_KNOWN : "–";
      made.title = table.reasons[`${row},${column}`] ?? NOT_KNOWN;
      made.setAttribute("aria-label", made.title);
      return made;
    }
    const text = human(value, unit);
    made.title = typeof value === "number" ? raw(value, unit) : value;
    if (column === 0 && table.links[row]) {
      made.append(element("a", { href: table.links[row] }, text));
    } else if (typeof value === "string") {
      made.append(element("span", { class: "clip" }, withoutFolders(text, LINE)));
    } else {
      made.textContent = text;
    }
    if (unit === "share" && value >= 0 && value <= 1) {
      made.classList.add("share");
      made.style.setProperty("--part", `${value * 100}%`);
    }
    if (best.has(`${row},${column}`)) {
      made.classList.add("best");
      made.prepend(element("span", { class: "best-mark" }, "best"));
    }
    return made;
  }

  // Long names are clipped to two lines; a click shows the whole.
  body.addEventListener("click", (event) => {
    const clip = event.target.closest(".clip");
    if (!clip) return;
    const { title } = clip.closest("td");
    clip.textContent = clip.classList.toggle("whole") ? title : withoutFolders(title, LINE);
  });
  refresh();
}
