// The timeline as it is seen, with the names of its tracks, as a picture to save.

import { shape } from "../elements.js";

/** @typedef {import("./timeline_view.js").TimelineView} TimelineView */
/** @typedef {import("./timeline_paint.js").Pen} Pen */

const SHARP = 2;

/** @param {number} value */
function short(value) {
  return Math.round(value * 10) / 10;
}

/** Writes what a timeline draws as SVG, as far as a timeline draws. */
export class SvgPen {
  /** @param {SVGElement} into */
  constructor(into) {
    this.into = into;
    this.path = "";
    this.clips = 0;
    this.left = 0;
    this.fillStyle = "";
    this.strokeStyle = "";
    this.font = "";
    this.textBaseline = "";
    this.lineWidth = 1;
    this.globalAlpha = 1;
    /** @type {[SVGElement, number][]} */
    this.kept = [];
  }

  /** @param {keyof SVGElementTagNameMap} tag @param {Record<string, string | number>} look @param {...string} text */
  add(tag, look, ...text) {
    const opacity = this.globalAlpha;
    this.into.append(shape(tag, opacity < 1 ? { ...look, opacity } : look, ...text));
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  place(x, y, width, height) {
    return { x: short(x + this.left), y: short(y), width: short(width), height: short(height) };
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) {
    this.add("rect", { ...this.place(x, y, width, height), fill: this.fillStyle });
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  strokeRect(x, y, width, height) {
    this.add("rect", { ...this.place(x, y, width, height), fill: "none",
      stroke: this.strokeStyle, "stroke-width": this.lineWidth });
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    this.add("text", { x: short(x + this.left), y: short(y), fill: this.fillStyle,
      style: `font: ${this.font}`, "dominant-baseline": "central" }, text);
  }

  beginPath() {
    this.path = "";
  }

  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.path += `M${short(x + this.left)} ${short(y)}`;
  }

  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.path += `L${short(x + this.left)} ${short(y)}`;
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) {
    this.moveTo(x, y);
    this.path += `h${short(width)}v${short(height)}H${short(x + this.left)}Z`;
  }

  stroke() {
    this.add("path", { d: this.path, fill: "none", stroke: this.strokeStyle,
      "stroke-width": this.lineWidth });
  }

  save() {
    this.kept.push([this.into, this.globalAlpha]);
  }

  clip() {
    this.clips += 1;
    const id = `timeline-clip-${this.clips}`;
    const group = shape("g", { "clip-path": `url(#${id})` });
    this.into.append(shape("clipPath", { id }, shape("path", { d: this.path })), group);
    this.into = group;
  }

  restore() {
    [this.into, this.globalAlpha] = this.kept.pop() ?? [this.into, this.globalAlpha];
  }

  /** @param {number} x */
  translate(x) {
    this.left += x;
  }
}

/** @param {TimelineView} view */
function sizeOf({ canvas, labels }) {
  const seen = canvas.getBoundingClientRect();
  const { left } = labels.getBoundingClientRect();
  return { left, top: seen.top, beside: seen.left - left, width: seen.right - left,
    height: seen.height };
}

/** @param {TimelineView} view @param {Pen} pen */
function draw(view, pen) {
  const { left, top, beside, width, height } = sizeOf(view);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--raised");
  pen.fillRect(0, 0, width, height);
  pen.textBaseline = "middle";
  for (const label of view.labels.children) {
    const box = label.getBoundingClientRect();
    if (box.bottom < top || box.top > top + height) continue;
    const { color, fontSize, fontFamily } = getComputedStyle(label);
    [pen.fillStyle, pen.font] = [color, `${fontSize} ${fontFamily}`];
    pen.fillText(label.textContent ?? "", box.left - left + 4, box.top - top + 10);
  }
  pen.translate(beside, 0);
  view.paint(pen);
}

/** @param {TimelineView} view */
export function svgOf(view) {
  const { width, height } = sizeOf(view);
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  draw(view, new SvgPen(svg));
  return svg;
}

/** @param {TimelineView} view */
export function canvasOf(view) {
  const { width, height } = sizeOf(view);
  const made = document.createElement("canvas");
  [made.width, made.height] = [width * SHARP, height * SHARP].map(Math.round);
  const pen = made.getContext("2d");
  if (!pen) throw new Error("this browser has no canvas to draw on");
  pen.scale(SHARP, SHARP);
  draw(view, pen);
  return made;
}
