// The typical step of the rank that decides, in a few lines: a picture that leads to the timeline.

import { element, shape } from "../elements.js";
import { claimNow, isNamed } from "../evidence.js";
import { human } from "../format.js";
import { detailOf } from "../model.js";
import { lanesOf, runsOf } from "./mini_runs.js";
import { whenSized } from "./sized.js";
import { paletteOf, tintsOf } from "./timeline_colours.js";
import { sceneOf } from "./timeline_data.js";

/** @typedef {import("../model.js").DrawingData} DrawingData */
/** @typedef {import("./timeline_data.js").Lane} Lane */

const ROW = 17;
const NAMES = 118;
const MOST_LANES = 5;
const SHOWN = new Set(["phases", "causes", "cpu", "gpu"]);
/** Pixels of a piece, and of a name's letter. */
const PIECE = 2;
const LETTER = 6.6;

/**
 * @param {DrawingData} shown the timeline
 * @param {number} decisive rank that the verdict is about
 * @param {string} href of the timeline
 * @returns {HTMLElement}
 */
export function miniTimeline(shown, decisive, href) {
  const place = element("div", { class: "mini-plot" });
  const title = element("b", {}, "A typical step");
  const made = element("section", { class: "mini" },
    element("p", {}, title, " ", element("a", { href }, "Timeline")), place);
  detailOf(shown.details[0].block).then((data) => {
    /** @type {{rank: number, kind: string}[]} */
    const tracks = data.tracks;
    const rank = tracks.some((track) => track.rank === decisive) ? decisive
      : shown.data.ranks[0].rank;
    const own = tracks.filter((track) => track.rank === rank && SHOWN.has(track.kind));
    const scene = sceneOf({ ...data, tracks: own }, String);
    const lanes = lanesOf(scene.lanes, rank, MOST_LANES);
    const name = shown.details[0].name;
    title.textContent = `${name[0].toUpperCase()}${name.slice(1)}, rank ${rank}, `
      + `${human(scene.length, "ns")} as traced`;
    whenSized(place, () => place.replaceChildren(
      picture(lanes, scene.length, place, title.textContent ?? "")));
  });
  return made;
}

/** @param {Lane[]} lanes @param {number} length @param {Element} place @param {string} name */
function picture(lanes, length, place, name) {
  const width = place.clientWidth;
  const pieces = Math.max(Math.floor((width - NAMES) / PIECE), 1);
  const palette = paletteOf(place);
  const height = lanes.length * ROW;
  const made = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${name}: ${lanes.map((lane) => lane.title).join(", ")}` });
  const claim = claimNow();
  const isWhole = !claim || !lanes.some(({ names }) => names.some((one) => isNamed(claim, one)));
  lanes.forEach((lane, row) => {
    const tints = tintsOf(lane);
    const label = shape("text", { x: 0, y: row * ROW + 12, class: "mini-name" },
      lane.title.replace(": main thread", ""));
    made.append(label, ...runsOf(lane, length, pieces).flatMap(({ from, to, name: code }) => {
      const [x, wide] = [NAMES + from * PIECE, (to - from) * PIECE];
      const text = lane.names[code];
      const bar = shape("rect", { x, y: row * ROW + 1, width: wide, height: ROW - 3,
        fill: isWhole || isNamed(claim, text) ? palette.fills[tints[code]] : palette.band },
      shape("title", {}, text));
      const fits = text.length * LETTER < wide - 6;
      return fits ? [bar, shape("text", { x: x + 3, y: row * ROW + 12, class: "mini-text" }, text)]
        : [bar];
    }));
  });
  return made;
}
