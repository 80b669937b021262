// From a chart's specification and its table to what is drawn, without a pixel of it.

import { NOT_KNOWN, exact, human, scaleFor, shortened } from "../format.js";
import { nameColumn, subjectColumn, subjectOf } from "../known.js";

/** @typedef {import("../model.js").Chart} Chart */
/** @typedef {import("../model.js").Table} Table */
/** @typedef {import("../model.js").Row} Row */
/** @typedef {import("../model.js").Value} Value */
/**
 * @typedef {object} Point
 * @property {number} at place along the axis of names or numbers
 * @property {number} low where it starts: the zero line, or the series below it
 * @property {number} high where it ends: its value, on top of what it is stacked on
 * @property {string[]} words what it is: place, then series or quantity with its value
 * @property {string} [name] of what it is about, in full
 */
/**
 * @typedef {object} Box
 * @property {number} at
 * @property {[number, number, number, number, number]} five whiskers, quartiles and median, upwards
 * @property {number[]} outliers
 * @property {string[]} words
 * @property {string} [note] what stands beside it
 */
/**
 * @typedef {object} Series
 * @property {string} name
 * @property {number} owner index of the series whose colour it has
 * @property {boolean} isLine joined by a line though the chart has points
 * @property {Point[]} points
 * @property {Box[]} boxes
 */
/**
 * @typedef {object} Figure
 * @property {string} kind
 * @property {boolean} horizontal
 * @property {number} band by how much a factor has to differ from 1 to matter
 * @property {number} slots bars side by side at one place
 * @property {string[] | null} names of the places, or null where numbers are the places
 * @property {number[] | null} marked numbers to write below the axis, or null for round ones
 * @property {string} acrossTitle
 * @property {string} upTitle
 * @property {{across: boolean, up: boolean}} log
 * @property {Series[]} series
 * @property {number} cut bars that found no room
 */

const NUMBERED = new Set(["line", "scatter"]);
const BARS = new Set(["bar", "stacked_bar", "forest", "waterfall"]);
/** Charts of which one row is one thing, with a start and an end. */
const RANGES = new Set(["forest", "waterfall"]);
/** What the bars of a waterfall are, in the order of their colours: not all of them are there. */
const DIRECTIONS = ["step time", "more", "less"];
const FEW = 12;
const LONGEST = 60;
// Names of ranks begin with their numbers, by which they have a place where they are many.
const RANK = /^rank(\d+)_dp\d+_tp\d+_pp\d+$/;

/**
 * @param {Chart} chart
 * @param {Table} table
 * @param {number} maxBars
 * @returns {Figure}
 */
export function figureOf(chart, table, maxBars) {
  const isBar = BARS.has(chart.kind);
  const axis = placesOf(chart, table, isBar, maxBars);
  const rows = table.rows.filter((row) => axis.place(row[chart.x]) !== undefined);
  const values = rows.flatMap((row) => chart.y.map((y) => row[y])).filter(isNumber);
  const unit = table.columns[chart.y[0]].unit;
  const scale = scaleFor(unit, values.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
  const groups = seriesOf(chart, table, rows);
  const isStacked = chart.kind === "stacked_bar";
  const series = groups.map((group) => made(chart, table, axis, scale.factor, group, groups));
  if (isStacked) stack(series);
  const label = chart.y.length === 1 ? table.columns[chart.y[0]].label : "";
  return {
    kind: chart.kind,
    horizontal: chart.horizontal,
    band: chart.band,
    slots: isStacked || chart.kind === "waterfall" ? 1 : slotsOf(series),
    names: axis.names,
    marked: axis.marked,
    acrossTitle: titled(table.columns[chart.x].label, axis.unit),
    upTitle: titled(label, scale.name),
    log: { across: !axis.names && chart.log.includes("x"), up: chart.log.includes("y") },
    series,
    cut: axis.cut,
  };
}

/**
 * What a menu of a chart begins with: the choice of one that offers the same, or the first.
 * @param {string[]} names
 * @param {{names: string[], chosen: number}[]} others menus of the same analysis
 */
export function firstChoice(names, others) {
  const offered = names.join("\n");
  return others.find((menu) => menu.names.join("\n") === offered)?.chosen ?? 0;
}

/**
 * Where no place has bars of two series, each has all of the room.
 * @param {Series[]} series
 */
function slotsOf(series) {
  const places = series.map((one) => new Set([...one.points, ...one.boxes].map(({ at }) => at)));
  const all = places.flatMap((mine) => [...mine]);
  return new Set(all).size === all.length ? 1 : series.length;
}

/** @param {Value} value @returns {value is number} */
function isNumber(value) {
  return typeof value === "number";
}

/** @param {string} label @param {string} unit */
function titled(label, unit) {
  return label && unit ? `${label} (${unit})` : label || unit;
}

/** @param {Value} value @returns {Value} */
function numberOf(value) {
  const name = typeof value === "string" ? RANK.exec(value) : null;
  return name ? Number(name[1]) : value;
}

/**
 * @typedef {object} Places
 * @property {(value: Value) => number | undefined} place
 * @property {string[] | null} names
 * @property {number[] | null} marked
 * @property {string} unit
 * @property {number} cut
 */

/**
 * Bars and boxes stand at the places of their names; lines and points at their numbers.
 * @param {Chart} chart
 * @param {Table} table
 * @param {boolean} isBar
 * @param {number} maxBars
 * @returns {Places}
 */
function placesOf(chart, table, isBar, maxBars) {
  const column = table.columns[chart.x];
  const given = table.rows.flatMap((row) => row[chart.x] ?? []);
  const distinct = [...new Set(given)];
  const numbers = given.map(numberOf).filter(isNumber);
  const areNumbers = given.length > 0 && numbers.length === given.length;
  if (areNumbers && (NUMBERED.has(chart.kind) || (isBar && distinct.length > maxBars))) {
    const most = numbers.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
    const { factor, name } = scaleFor(column.unit, most);
    const place = (/** @type {Value} */ value) => {
      const number = numberOf(value);
      return isNumber(number) ? number * factor : undefined;
    };
    const few = distinct.length <= FEW && name === "";
    const marked = few ? distinct.map((value) => /** @type {number} */ (place(value))) : null;
    return { place, names: null, marked, unit: name, cut: 0 };
  }
  if (areNumbers) distinct.sort((a, b) => Number(numberOf(a)) - Number(numberOf(b)));
  const kept = isBar ? distinct.slice(0, maxBars) : distinct;
  /** @type {Map<Value, number>} */
  const places = new Map(kept.map((value, index) => [value, index]));
  return {
    place: (value) => places.get(value),
    names: kept.map((value) => human(value, column.unit)),
    marked: null,
    unit: "",
    cut: distinct.length - kept.length,
  };
}

/** @typedef {{name: string, rows: Row[], y: number}} Group */

/**
 * @param {Chart} chart
 * @param {Table} table
 * @param {Row[]} rows
 * @returns {Group[]}
 */
function seriesOf(chart, table, rows) {
  const measures = RANGES.has(chart.kind) ? chart.y.slice(0, 1) : chart.y;
  if (chart.color < 0) {
    return measures.map((y) => ({ name: table.columns[y].label, rows, y }));
  }
  /** @type {Map<string, Row[]>} */
  const groups = new Map();
  for (const row of rows) {
    const name = seriesName(table.columns[chart.color], row[chart.color]);
    const group = groups.get(name);
    if (group) group.push(row);
    else groups.set(name, [row]);
  }
  return [...groups].flatMap(([name, mine]) => measures.map((y) => ({
    name: measures.length > 1 ? `${name}, ${table.columns[y].label}` : name, rows: mine, y,
  })));
}

/** @param {import("../model.js").Column} column @param {Value} value */
function seriesName(column, value) {
  if (typeof value === "number") return `${column.label} ${human(value, column.unit)}`;
  return value === null ? NOT_KNOWN : value || "none";
}

/**
 * @param {Chart} chart
 * @param {Table} table
 * @param {Places} axis
 * @param {number} factor
 * @param {Group} group
 * @param {Group[]} groups
 * @returns {Series}
 */
function made(chart, table, axis, factor, group, groups) {
  const word = (/** @type {Row} */ row) => wordsOf(chart, table, row, group, groups.length);
  const known = group.rows.filter((row) => isNumber(row[group.y]));
  const subject = chart.kind === "scatter" ? subjectColumn(table) : chart.x;
  const points = known.map((row) => {
    const high = Number(row[group.y]) * factor;
    const at = /** @type {number} */ (axis.place(row[chart.x]));
    if (chart.kind === "waterfall") {
      return { at, low: high, high: Number(row[chart.y[1]]) * factor, words: word(row),
        name: subjectOf(table, subject, row[subject]) };
    }
    return { at, low: chart.kind === "scatter" || chart.kind === "line" ? high : 0, high,
      words: word(row), name: subjectOf(table, subject, row[subject]) };
  });
  if (chart.kind === "line" && !axis.names) points.sort((a, b) => a.at - b.at);
  // "zero=none, line" has the colour of "zero=none", which it is about.
  const owner = chart.kind === "waterfall" && DIRECTIONS.includes(group.name)
    ? DIRECTIONS.indexOf(group.name)
    : groups.findIndex((one) => group.name === one.name || group.name.startsWith(`${one.name}, `));
  return {
    name: group.name,
    owner,
    isLine: chart.lines.includes(group.name),
    points: chart.kind === "box" || chart.kind === "forest" ? [] : points,
    boxes: chart.kind === "box" ? boxesOf(points, axis.names ?? [])
      : chart.kind === "forest" ? known.map((row, index) => intervalOf(chart, row, points[index]))
        : [],
  };
}

/**
 * A factor with its interval, and what it takes to tell it from 1.
 * @param {Chart} chart
 * @param {Row} row
 * @param {Point} point
 * @returns {Box}
 */
function intervalOf(chart, row, { at, high: factor, words }) {
  const [low, high] = chart.y.slice(1).map((y) => row[y]);
  const isKnown = isNumber(low) && isNumber(high);
  const five = isKnown ? [low, factor, factor, factor, high] : Array(5).fill(factor);
  const more = chart.needs < 0 ? null : row[chart.needs];
  const note = !isNumber(more) ? "" : more > 0 ? `needs about ${more} more repeats`
    : "no number of repeats would tell";
  const interval = isKnown ? `interval ${human(low, "ratio")} to ${human(high, "ratio")}`
    : "no interval: too few repeats, or they differ too much";
  return { at, five: /** @type {Box["five"]} */ (five), outliers: [], note,
    words: [...words, interval, ...(note ? [note] : [])] };
}

/**
 * @param {Chart} chart
 * @param {Table} table
 * @param {Row} row
 * @param {Group} group
 * @param {number} count
 */
function wordsOf(chart, table, row, group, count) {
  const at = table.columns[chart.x];
  const place = row[chart.x];
  const where = typeof place === "number" ? `${at.label} ${human(place, at.unit)}`
    : shortened(place ?? NOT_KNOWN, 2 * LONGEST);
  const what = count > 1 ? group.name : table.columns[group.y].label;
  // Of a bar of a waterfall it is what lies between its ends.
  const shown = chart.kind === "waterfall" ? Number(row[chart.y[1]]) - Number(row[group.y])
    : row[group.y];
  const value = exact(shown, table.columns[group.y].unit);
  const name = chart.kind === "scatter" ? row[nameColumn(table)] : null;
  const isNew = typeof name === "string" && name !== group.name;
  return [...(isNew ? [shortened(name, 2 * LONGEST)] : []), where,
    `${shortened(what, LONGEST)}: ${value}`];
}

/**
 * @param {Point[]} points
 * @param {string[]} names
 * @returns {Box[]}
 */
function boxesOf(points, names) {
  /** @type {Map<number, number[]>} */
  const byPlace = new Map();
  for (const point of points) {
    const values = byPlace.get(point.at);
    if (values) values.push(point.high);
    else byPlace.set(point.at, [point.high]);
  }
  return [...byPlace].map(([at, values]) => {
    values.sort((a, b) => a - b);
    const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(values, share));
    const reach = 1.5 * (high - low);
    const inside = values.filter((value) => value >= low - reach && value <= high + reach);
    const [least, most] = [inside[0], inside[inside.length - 1]];
    const text = (/** @type {number} */ value) => Number(value.toPrecision(4));
    return {
      at,
      five: [least, low, middle, high, most],
      outliers: values.filter((value) => value < least || value > most),
      words: [names[at] ?? "",
        `median ${text(middle)}, half of all from ${text(low)} to ${text(high)}`],
    };
  });
}

/**
 * @param {number[]} values ascending
 * @param {number} share
 */
export function quantile(values, share) {
  const place = (values.length - 1) * share;
  const below = Math.floor(place);
  const above = Math.min(below + 1, values.length - 1);
  return values[below] + (values[above] - values[below]) * (place - below);
}

/**
 * Puts each series on those before it, what is below zero downwards.
 * @param {Series[]} all
 */
function stack(all) {
  /** @type {Map<number, number>} */
  const up = new Map();
  /** @type {Map<number, number>} */
  const down = new Map();
  for (const point of all.flatMap((one) => one.points)) {
    const ends = point.high < 0 ? down : up;
    point.low = ends.get(point.at) ?? 0;
    point.high += point.low;
    ends.set(point.at, point.high);
  }
}
