// The whole scene in a strip, with the part that is seen; dragging moves it.

import { tintsOf } from "./timeline_colours.js";

/** @typedef {import("./timeline_colours.js").Palette} Palette */
/** @typedef {import("./timeline_data.js").Scene} Scene */
/** @typedef {import("./timeline_window.js").Span} Span */

const ROW = 5;
const MOST = 8;
const KINDS = ["causes", "gpu", "steps"];

/**
 * The lanes that say most in little room: causes, or what the GPU did, of each rank.
 * @param {Scene} scene
 */
export function shownLanes(scene) {
  const wanted = scene.lanes.filter(({ kind }) => KINDS.includes(kind));
  const chosen = wanted.length > MOST ? wanted.filter(({ kind }) => kind === "causes") : wanted;
  return (chosen.length ? chosen : scene.lanes).slice(0, MOST);
}

/** @param {Scene} scene */
export function minimapHeight(scene) {
  return shownLanes(scene).length * (ROW + 1) + 6;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 * @param {number} width
 * @param {Palette} palette
 */
export function paintMinimap(pen, scene, width, palette) {
  pen.fillStyle = palette.ground;
  pen.fillRect(0, 0, width, minimapHeight(scene));
  shownLanes(scene).forEach((lane, place) => {
    const tints = tintsOf(lane);
    const y = 3 + place * (ROW + 1);
    let drawn = -1;
    for (const index of lane.byDepth[0]) {
      const x = (lane.start[index] / scene.length) * width;
      const right = (lane.end[index] / scene.length) * width;
      if (right < drawn + 0.5) continue;
      drawn = Math.max(right, x + 0.7);
      const share = lane.shape === "busy" ? lane.values[index] / 100 : 1;
      pen.globalAlpha = Math.max(share, 0);
      pen.fillStyle = palette.inks[lane.shape === "busy" ? 0 : tints[lane.name[index]]];
      pen.fillRect(x, y, drawn - x, ROW);
    }
    pen.globalAlpha = 1;
  });
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 * @param {Span} seen
 * @param {number} width
 * @param {Palette} palette
 */
export function frameSeen(pen, scene, seen, width, palette) {
  const height = minimapHeight(scene);
  const [left, right] = [seen.from, seen.to].map((time) => (time / scene.length) * width);
  pen.fillStyle = palette.ground;
  pen.globalAlpha = 0.65;
  pen.fillRect(0, 0, left, height);
  pen.fillRect(right, 0, width - right, height);
  pen.globalAlpha = 1;
  pen.strokeStyle = palette.accent;
  pen.lineWidth = 2;
  pen.strokeRect(left + 1, 1, Math.max(right - left - 2, 3), height - 2);
}
