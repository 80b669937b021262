// Where lanes stand: ranks below one another, folded lanes in one row.

/** @typedef {import("./timeline_data.js").Lane} Lane */
/**
 * @typedef {object} Placed
 * @property {Lane} lane
 * @property {number} y in pixels from the top of the sheet
 * @property {number} height
 * @property {number} row height of a row; 0 where all are in one
 * @property {boolean} isFolded
 */
/** @typedef {{title: string, y: number}} Heading */
/** @typedef {{placed: Placed[], headings: Heading[], height: number}} Layout */

export const AXIS = 22;
const ROW = 16;
const HEADING = 24;
const GAP = 5;
const HEIGHTS = { busy: 24, line: 38, slices: ROW };
const MANY = 10;

/** @param {Lane} lane @param {boolean} isCrowded many ranks are shown */
export function startsFolded(lane, isCrowded) {
  const isOfCpu = lane.kind === "cpu" || lane.kind === "python";
  return lane.rows > MANY || (lane.rows > 1 && isCrowded && isOfCpu);
}

/** @param {Lane} lane */
export function laneId(lane) {
  return `${lane.group} ${lane.title}`;
}

/**
 * @param {Lane[]} lanes
 * @param {Set<string>} folded ids of lanes
 * @returns {Layout}
 */
export function layoutOf(lanes, folded) {
  /** @type {Layout} */
  const made = { placed: [], headings: [], height: AXIS };
  let group = "";
  for (const lane of lanes) {
    if (lane.group !== group) {
      group = lane.group;
      made.headings.push({ title: group, y: made.height });
      made.height += HEADING;
    }
    const isFolded = lane.rows > 1 && folded.has(laneId(lane));
    const rows = isFolded ? 1 : lane.rows;
    const height = lane.shape === "slices" ? rows * ROW : HEIGHTS[lane.shape];
    made.placed.push({ lane, y: made.height, height, row: isFolded ? 0 : ROW, isFolded });
    made.height += height + GAP;
  }
  return made;
}

/** @param {Placed} one @param {number} depth where its slices of a depth begin */
export function rowTop(one, depth) {
  return one.y + depth * one.row;
}

/** @param {Placed} one @returns {number} height of its slices */
export function sliceHeight(one) {
  return one.lane.shape === "slices" ? ROW - 1 : one.height;
}

/** @param {Layout} layout @param {number} y @returns {Placed | undefined} */
export function placedAt({ placed }, y) {
  return placed.find((one) => y >= one.y && y < one.y + one.height);
}
