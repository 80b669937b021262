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
  const cut = chart.kind in TREES
    ? drawTree(place, chart, table, look(place)) : plot(place, chart, table, maxBars);
  const notes = [chart.note];
  if (cut > 0) notes.push(`${cut.toLocaleString("en-US")} more in the table below.`);
  const told = figure.querySelector(".note");
  told.textContent = notes.filter(Boolean).join(" ");
  told.hidden = told.textContent === "";
  figure.dataset.drawn = "yes";
  if (!charts.has(figure)) {
    charts.set(figure, { redraw: () => drawChart(figure, chart, table, maxBars), width: 0 });
    resized.observe(place);
  }
  charts.get(figure).width = place.clientWidth;
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
