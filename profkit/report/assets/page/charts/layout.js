// Room for titles, names and the legend around the drawing, and the axes in it.

import { shortened } from "../format.js";
import { domainOf, multiples, scaleOf, ticks } from "./scale.js";

/** @typedef {import("./figure.js").Figure} Figure */
/** @typedef {import("./scale.js").Scale} Scale */
/**
 * @typedef {object} Look what the theme and the width of the place give
 * @property {string} text
 * @property {string} faint
 * @property {string} grid
 * @property {string} line
 * @property {string} raised
 * @property {string} muted
 * @property {string} font
 * @property {string[]} colors
 * @property {number} width
 */
/** @typedef {{at: number, text: string}} Mark a place on an axis, in pixels */
/** @typedef {{x: number, y: number, text: string, series: number}} Entry of the legend */
/**
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {{left: number, right: number, top: number, bottom: number}} frame of the drawing
 * @property {Scale} across place along the axis of names or numbers, in pixels
 * @property {Scale} up place of a value, in pixels
 * @property {number} band room of one name, in pixels
 * @property {Mark[]} acrossMarks
 * @property {Mark[]} upMarks
 * @property {boolean} leaning names below the drawing lean, as they have no room side by side
 * @property {Entry[]} legend
 */

/** Width of a letter in the widest of the fonts that the page may find. */
export const LETTER = 7;
const LINE = 17;
const TITLE = 20;
const HEIGHT = 320;
const LEAN = Math.PI / 5;
const MOST_LETTERS = 20;
const LONGEST_ENTRY = 36;
const PLAIN = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

/**
 * @param {Figure} figure
 * @param {Look} look
 * @param {[number, number] | null} window part of the axis of numbers, or null for all of it
 * @returns {Layout}
 */
export function layoutOf(figure, look, window) {
  const { width } = look;
  const legend = legendOf(figure, width);
  const top = 10 + (legend.length ? legend[legend.length - 1].y + 8 : 0);
  const upDomain = domainOf(heightsOf(figure), figure.log.up, figure.kind !== "scatter");
  if (figure.horizontal && figure.names) return sideways(figure, width, legend, top, upDomain);
  const bottomTitle = figure.acrossTitle ? TITLE : 4;
  const upTexts = numbersOn(upDomain, figure.log.up, 6).map(plain);
  const left = 12 + (figure.upTitle ? TITLE : 0) + LETTER * longest(upTexts);
  const names = figure.names?.map((name) => shortened(name, MOST_LETTERS)) ?? null;
  const band = names ? (width - left - 16) / Math.max(1, names.length) : 0;
  const leaning = names !== null && longest(names) * LETTER + 8 > band;
  const room = leaning ? Math.sin(LEAN) * LETTER * longest(names ?? []) + 16 : LINE;
  const lean = leaning && names ? names.map((name, index) => (
    Math.cos(LEAN) * LETTER * name.length - band * (index + 0.5))) : [0];
  const frame = {
    left: Math.max(left, ...lean.map((over) => over + 4)), right: width - 16,
    top, bottom: HEIGHT - bottomTitle - room,
  };
  const domain = window ?? acrossDomain(figure);
  const across = scaleOf(domain, [frame.left, frame.right], figure.log.across);
  const up = scaleOf(upDomain, [frame.bottom, frame.top], figure.log.up);
  const inner = frame.right - frame.left;
  return {
    width, height: HEIGHT, frame, across, up, leaning, legend,
    band: names ? inner / Math.max(1, names.length) : closest(figure, across),
    acrossMarks: names
      ? names.map((text, index) => ({ at: across(index), text }))
      : acrossNumbers(figure, domain, inner).map((value) => ({
        at: across(value), text: figure.marked ? String(value) : plain(value),
      })),
    upMarks: upMarks(upDomain, figure.log.up, 6, up),
  };
}

/**
 * Names at the left, bars to the right.
 * @param {Figure} figure
 * @param {number} width
 * @param {Entry[]} legend
 * @param {number} top
 * @param {[number, number]} upDomain
 * @returns {Layout}
 */
function sideways(figure, width, legend, top, upDomain) {
  const letters = Math.max(12, Math.floor((width * 0.36) / LETTER));
  const names = (figure.names ?? []).map((name) => shortened(name, letters));
  const band = Math.max(26, (figure.kind === "forest" ? 18 : 14) * figure.slots);
  const notes = figure.series.flatMap(({ boxes }) => boxes.map(({ note = "" }) => note));
  const frame = {
    left: 14 + LETTER * longest(names), right: width - 18 - LETTER * longest(notes),
    top, bottom: top + band * Math.max(1, names.length),
  };
  const across = scaleOf([-0.5, names.length - 0.5], [frame.top, frame.bottom], false);
  const up = scaleOf(upDomain, [frame.left, frame.right], figure.log.up);
  const count = Math.max(2, Math.floor((frame.right - frame.left) / 70));
  return {
    width, height: frame.bottom + LINE + (figure.upTitle ? TITLE : 4), frame, across, up, band,
    leaning: false, legend,
    acrossMarks: names.map((text, index) => ({ at: across(index), text })),
    upMarks: upMarks(upDomain, figure.log.up, count, up),
  };
}

/**
 * Room of the longest text in letters, of which some are wider than most.
 * @param {string[]} texts
 */
function longest(texts) {
  return texts.reduce((most, text) => (
    Math.max(most, text.length + 0.3 * (text.match(/[A-Zmw%@]/g)?.length ?? 0))), 0);
}

/** @param {Figure} figure */
function heightsOf(figure) {
  const band = figure.kind === "forest" ? [1 / (1 + figure.band), 1 + figure.band] : [];
  return figure.series.flatMap((series) => [
    ...band,
    ...series.points.flatMap((point) => [point.low, point.high]),
    ...series.boxes.flatMap((box) => [box.five[0], box.five[4], ...box.outliers]),
  ]).filter((value) => !figure.log.up || value > 0);
}

/** @param {Figure} figure @returns {[number, number]} */
export function acrossDomain(figure) {
  if (figure.names) return [-0.5, Math.max(1, figure.names.length) - 0.5];
  const places = figure.series.flatMap((series) => series.points.map((point) => point.at));
  if (figure.kind !== "line" || figure.log.across) {
    return domainOf(places, figure.log.across, false);
  }
  const low = places.reduce((least, at) => Math.min(least, at), Infinity);
  const high = places.reduce((most, at) => Math.max(most, at), -Infinity);
  return low < high ? [low, high] : domainOf(places, false, false);
}

/**
 * Room of one bar where many stand at their numbers.
 * @param {Figure} figure
 * @param {Scale} across
 */
function closest(figure, across) {
  const places = [...new Set(figure.series.flatMap((series) => series.points.map((p) => p.at)))];
  places.sort((a, b) => a - b);
  const gaps = places.slice(1).map((at, index) => across(at) - across(places[index]));
  return gaps.reduce((least, gap) => Math.min(least, gap), 40);
}

/** @param {[number, number]} domain @param {boolean} isLog @param {number} count */
function numbersOn(domain, isLog, count) {
  return isLog ? multiples(...domain) : ticks(...domain, count);
}

/** @param {[number, number]} domain @param {boolean} isLog @param {number} count @param {Scale} up */
function upMarks(domain, isLog, count, up) {
  return numbersOn(domain, isLog, count).map((value) => ({ at: up(value), text: plain(value) }));
}

/**
 * A number on an axis: no decimals that its neighbours do not need.
 * @param {number} value
 */
function plain(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential().replace("e+", "e");
  return PLAIN.format(value);
}

/** @param {Figure} figure @param {[number, number]} domain @param {number} inner */
function acrossNumbers(figure, domain, inner) {
  const count = Math.max(2, Math.floor(inner / 80));
  const all = figure.marked && figure.marked.length <= count ? figure.marked
    : numbersOn(domain, figure.log.across, count);
  return all.filter((value) => value >= domain[0] && value <= domain[1]);
}

/**
 * Names of the series in rows above the drawing.
 * @param {Figure} figure
 * @param {number} width
 * @returns {Entry[]}
 */
function legendOf(figure, width) {
  if (figure.series.length < 2) return [];
  let [x, y] = [4, 12];
  return figure.series.map((series, index) => {
    const text = shortened(series.name, LONGEST_ENTRY);
    const room = 30 + LETTER * text.length;
    if (x > 4 && x + room > width) [x, y] = [4, y + LINE];
    const entry = { x, y, text, series: index };
    x += room;
    return entry;
  });
}
