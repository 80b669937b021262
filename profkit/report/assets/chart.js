// Charts are drawn when they come into view, and again when the theme or their width changes.

const CONFIG = {
  displaylogo: false, responsive: false, typesetMath: false, showTips: false, doubleClickDelay: 400,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d"],
};
const charts = new Map();

function look(place) {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    text: of("--text"), faint: of("--faint"), grid: of("--grid"), line: of("--line-strong"),
    raised: of("--raised"), muted: of("--series-muted"), font: of("--font"),
    colors: of("--series").split(/\s+/), width: place.clientWidth,
    coarse: matchMedia("(pointer: coarse)").matches,
  };
}

function drawChart(figure, chart, table, maxBars) {
  const place = figure.querySelector(".plot");
  if (!place.clientWidth) return;
  const all = table;
  table = { ...all, rows: chosen(figure, chart, all) };
  const cut = chart.kind in TREES
    ? drawTree(place, chart, table, look(place)) : plot(place, chart, table, maxBars);
  const notes = [chart.note];
  if (cut > 0) notes.push(`${cut.toLocaleString("en-US")} more in the table below.`);
  const told = figure.querySelector(".note");
  told.textContent = notes.filter(Boolean).join(" ");
  told.hidden = told.textContent === "";
  figure.dataset.drawn = "yes";
  if (!charts.has(figure)) {
    charts.set(figure, { redraw: () => drawChart(figure, chart, all, maxBars), width: 0 });
    resized.observe(place);
  }
  charts.get(figure).width = place.clientWidth;
}

// Returns the rows of the value that the reader chose; the charts of one analysis go together.
function chosen(figure, chart, table) {
  const values = chart.choose < 0 ? [] : [...new Set(table.rows.map((row) => row[chart.choose]))];
  if (values.length < 2) return table.rows;
  const select = figure.querySelector("select") ?? chooser(figure, chart, table, values);
  return table.rows.filter((row) => row[chart.choose] === values[select.selectedIndex]);
}

function chooser(figure, chart, table, values) {
  const column = table.columns[chart.choose];
  const select = document.createElement("select");
  select.setAttribute("aria-label", column.label);
  select.append(...values.map((value) => new Option(
    typeof value === "string" ? value : `${column.label} ${human(value, column.unit)}`)));
  const beside = figure.closest(".analysis").querySelectorAll("select");
  const known = [...beside].find((other) => other.value && values.length === other.length);
  if (known) select.value = known.value;
  select.addEventListener("change", () => {
    for (const other of figure.closest(".analysis").querySelectorAll(".chart select")) {
      if (![...other.options].some((each) => each.value === select.value)) continue;
      other.value = select.value;
      charts.get(other.closest("figure"))?.redraw();
    }
  });
  figure.querySelector("figcaption").append(select);
  return select;
}

// Returns how many bars found no room.
function plot(place, chart, table, maxBars) {
  const { traces, layout, cut, height } = figureOf(chart, table, look(place), maxBars);
  layout.height = height;
  layout.width = place.clientWidth;
  place.style.height = `${height}px`;
  Plotly.react(place, traces, layout, CONFIG);
  return cut;
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const known = charts.get(target.closest("figure"));
    if (known && target.clientWidth && target.clientWidth !== known.width) known.redraw();
  }
});

function redrawCharts() {
  for (const each of charts.values()) each.redraw();
}
