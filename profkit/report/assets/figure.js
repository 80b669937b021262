// From a chart's specification and its table to what Plotly draws.

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "cross"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const NUMBERED = new Set(["line", "area", "scatter"]);
// Names of ranks begin with their numbers, by which they have a place where they are many.
const RANK = /^rank(\d+)_dp\d+_tp\d+_pp\d+$/;
// The axis names its unit already: no "100µ" of a MiB.
const LOG = { type: "log", exponentformat: "none" };
const MUTED = /^(idle|unknown|not known)\b/i;

// Plotly reads a part of HTML in every text: a name must stay a name.
function inert(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function wrapped(text, width) {
  const parts = String(text).slice(0, 480).match(new RegExp(`.{1,${width}}`, "gsu")) ?? [""];
  return parts.map(inert).join("<br>");
}

function figureOf(chart, table, look, maxBars) {
  const isBar = chart.kind === "bar" || chart.kind === "stacked_bar";
  const axis = xAxis(chart, table, isBar, maxBars);
  const rows = table.rows.filter((row) => axis.place(row[chart.x]) !== undefined);
  const values = rows.flatMap((row) => chart.y.map((y) => row[y])).filter((v) => v !== null);
  const unit = table.columns[chart.y[0]].unit;
  const scale = scaleFor(unit, values.reduce((most, v) => Math.max(most, Math.abs(v)), 0));
  const series = seriesOf(chart, table, rows);
  const traces = series.map((each, index) =>
    trace(chart, table, axis, scale, each, paint(each.name, ownerOf(each.name, series), look), index,
      series.length));
  const layout = layoutOf(chart, table, axis, scale, look, traces.length, values);
  return { traces, layout, cut: axis.cut, height: heightOf(chart, axis, series.length) };
}

// "zero=none, line" has the colour of "zero=none", which it is about.
function ownerOf(name, series) {
  return series.findIndex((each) => name === each.name || name.startsWith(`${each.name}, `));
}

function paint(name, index, look) {
  return MUTED.test(name) ? look.muted : look.colors[index % look.colors.length];
}

function numberOf(value) {
  const name = typeof value === "string" ? RANK.exec(value) : null;
  return name ? Number(name[1]) : value;
}

// Bars and boxes stand at the places of their names; lines and points at their numbers.
function xAxis(chart, table, isBar, maxBars) {
  const column = table.columns[chart.x];
  const given = table.rows.map((row) => row[chart.x]).filter((value) => value !== null);
  const distinct = [...new Set(given)];
  const numbers = given.length > 0 && given.every((value) => typeof numberOf(value) === "number");
  const few = distinct.length <= maxBars;
  if (numbers && (NUMBERED.has(chart.kind) || (isBar && !few))) {
    const scale = scaleFor(column.unit, given.reduce((m, v) => Math.max(m, Math.abs(numberOf(v))), 0));
    const place = (value) => (value === null ? undefined : numberOf(value) * scale.factor);
    return { place, names: null, name: scale.name, distinct, cut: 0, factor: scale.factor };
  }
  if (numbers) distinct.sort((a, b) => numberOf(a) - numberOf(b));
  const kept = isBar ? distinct.slice(0, maxBars) : distinct;
  const places = new Map(kept.map((value, index) => [value, index]));
  return { place: (value) => places.get(value), names: kept, name: "", distinct,
    cut: distinct.length - kept.length };
}

function seriesOf(chart, table, rows) {
  if (chart.color < 0) {
    return chart.y.map((y) => ({ name: table.columns[y].label, rows, y }));
  }
  const groups = new Map();
  for (const row of rows) {
    const name = seriesName(table.columns[chart.color], row[chart.color]);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return [...groups].flatMap(([name, mine]) => chart.y.map((y) => ({
    name: chart.y.length > 1 ? `${name}, ${table.columns[y].label}` : name, rows: mine, y,
  })));
}

function seriesName(column, value) {
  if (typeof value === "number") return `${column.label} ${human(value, column.unit)}`;
  return value === null ? NOT_KNOWN : String(value);
}

function trace(chart, table, axis, scale, series, color, index, count) {
  let rows = series.rows;
  if (NUMBERED.has(chart.kind) && chart.kind !== "scatter" && !axis.names) rows = rows.toSorted((a, b) => numberOf(a[chart.x]) - numberOf(b[chart.x]));
  const places = rows.map((row) => axis.place(row[chart.x]));
  const heights = rows.map((row) => (row[series.y] === null ? null : row[series.y] * scale.factor));
  const made = {
    name: inert(shortened(series.name, 36)),
    x: chart.horizontal ? heights : places,
    y: chart.horizontal ? places : heights,
    hoverinfo: "text",
    hovertext: rows.map((row) => hover(chart, table, row, series, count)),
  };
  Object.assign(made, KINDS[chart.kind](chart, color, index, rows.length));
  if (chart.lines.includes(series.name)) {
    Object.assign(made, { mode: "lines", line: { color, width: 2, dash: DASHES[index % DASHES.length] } });
  }
  return made;
}

const KINDS = {
  bar: (chart, color) => bar(chart, color),
  stacked_bar: (chart, color) => bar(chart, color),
  line: (chart, color, index, length) => ({
    type: "scatter", mode: length > 80 ? "lines" : "lines+markers", connectgaps: false,
    line: { color, width: 2, dash: DASHES[index % DASHES.length] },
    marker: { color, size: 7, symbol: SYMBOLS[index % SYMBOLS.length] },
  }),
  area: (chart, color) => ({
    type: "scatter", mode: "lines", stackgroup: "all", stackgaps: "interpolate",
    line: { color, width: 0.5 }, fillcolor: color,
  }),
  scatter: (chart, color, index) => ({
    type: "scatter", mode: "markers",
    marker: { color, size: 7, opacity: 0.75, symbol: SYMBOLS[index % SYMBOLS.length] },
  }),
  box: (chart, color) => ({
    type: "box", orientation: chart.horizontal ? "h" : "v", boxpoints: "outliers",
    line: { color, width: 1.5 }, marker: { color, size: 4 },
    hoverinfo: chart.horizontal ? "x" : "y", hovertext: undefined,
  }),
};

function bar(chart, color) {
  return { type: "bar", orientation: chart.horizontal ? "h" : "v",
    marker: { color, line: { width: 0 } } };
}

function hover(chart, table, row, series, count) {
  const at = table.columns[chart.x];
  const value = human(row[series.y], table.columns[series.y].unit);
  const where = typeof row[chart.x] === "number"
    ? inert(`${at.label} ${human(row[chart.x], at.unit)}`) : wrapped(row[chart.x] ?? NOT_KNOWN, 60);
  const what = count > 1 ? series.name : table.columns[series.y].label;
  return `${where}<br>${wrapped(what, 60)}: <b>${inert(value)}</b>`;
}

function layoutOf(chart, table, axis, scale, look, count, values) {
  const across = namedAxis(chart, table, axis, look);
  const up = {
    title: { text: axisTitle(valueLabel(chart, table), scale.name), standoff: 8 },
    gridcolor: look.grid, zerolinecolor: look.line, automargin: true, tickfont: { size: 12 },
    hoverformat: ".4~g", nticks: 6,
    rangemode: chart.kind !== "scatter" && values.every((v) => v >= 0) ? "tozero" : "normal",
  };
  if (chart.log.includes("y")) Object.assign(up, LOG, { rangemode: "normal" });
  return {
    xaxis: chart.horizontal ? up : across,
    yaxis: chart.horizontal ? { ...across, autorange: "reversed" } : up,
    barmode: chart.kind === "stacked_bar" ? "stack" : "group",
    boxmode: "group", bargap: axis.names?.length <= 3 && !chart.horizontal ? 0.6 : 0.28, bargroupgap: 0.06,
    showlegend: count > 1,
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom",
      font: { size: 12 }, bgcolor: "rgba(0,0,0,0)", traceorder: "normal" },
    margin: { l: chart.horizontal ? 8 : leaning(across.ticktext ?? []), r: 16, t: 8, b: 8 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: look.font, size: 12, color: look.text },
    hoverlabel: { bgcolor: look.raised, bordercolor: look.line, align: "left",
      font: { family: look.font, size: 12, color: look.text }, namelength: 0 },
    hovermode: "closest", dragmode: look.coarse ? false : "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: look.faint, activecolor: look.text },
  };
}

// Room for the first of names that lean: Plotly leaves none.
function leaning(names) {
  return 8 + 5 * Math.max(0, ...names.map((each) => each.length));
}

function valueLabel(chart, table) {
  return chart.y.length === 1 ? table.columns[chart.y[0]].label : "";
}

function axisTitle(label, unit) {
  return inert(label && unit ? `${label} (${unit})` : label || unit);
}

function namedAxis(chart, table, axis, look) {
  const made = {
    title: { text: axisTitle(table.columns[chart.x].label, axis.name), standoff: 8 },
    gridcolor: look.grid, zeroline: false, automargin: true, tickfont: { size: 12 },
  };
  if (axis.names) {
    const room = chart.horizontal ? Math.max(12, Math.floor(look.width * 0.36 / 6.6)) : 20;
    const long = axis.names.some((each) => typeof each === "string");
    made.tickvals = axis.names.map((_, index) => index);
    made.ticktext = axis.names.map((each) =>
      inert(shortened(human(each, table.columns[chart.x].unit), room)));
    made.range = [-0.5, axis.names.length - 0.5];
    made.showgrid = false;
    // Backwards: the last of names that lean forward stands out of the drawing.
    made.autotickangles = [0, -30, -90];
    if (chart.horizontal) made.range.reverse();
    if (chart.horizontal && long) made.title.text = "";
  } else if (axis.distinct.length <= 12 && axis.name === "") {
    const known = axis.distinct.filter((value) => value !== null);
    made.tickvals = known.map((value) => numberOf(value) * axis.factor);
    made.ticktext = known.map((value) => (
      typeof value === "string" ? inert(value) : inert(human(value * axis.factor, "id"))));
  }
  if (!axis.names && chart.log.includes("x")) Object.assign(made, LOG);
  return made;
}

function heightOf(chart, axis, series) {
  if (!chart.horizontal || !axis.names) return 320;
  const thick = chart.kind === "bar" ? Math.max(26, 14 * series) : 28;
  return Math.max(180, 96 + axis.names.length * thick);
}
