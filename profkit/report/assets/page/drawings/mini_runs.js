// A step in a few lines: what has most of the time in each piece of it.

/** @typedef {import("./timeline_data.js").Lane} Lane */
/** @typedef {{from: number, to: number, name: number}} Run pieces with one name in front */

/**
 * Runs of pieces in which the same name has most time; pieces in which nothing runs are left out.
 * @param {Lane} lane of slices; of nested ones the outermost count
 * @param {number} length of the step in ns
 * @param {number} pieces
 * @returns {Run[]}
 */
export function runsOf(lane, length, pieces) {
  const most = new Float64Array(pieces);
  const names = new Int32Array(pieces).fill(-1);
  const size = length / pieces;
  for (const index of outermost(lane)) {
    const [start, end] = [Math.max(lane.start[index], 0), Math.min(lane.end[index], length)];
    for (let piece = Math.floor(start / size); piece < pieces && piece * size < end; piece += 1) {
      const time = Math.min(end, (piece + 1) * size) - Math.max(start, piece * size);
      if (time > most[piece]) {
        most[piece] = time;
        names[piece] = lane.name[index];
      }
    }
  }
  /** @type {Run[]} */
  const runs = [];
  names.forEach((name, piece) => {
    const last = runs.at(-1);
    if (last && last.to === piece && last.name === name) last.to = piece + 1;
    else if (name >= 0) runs.push({ from: piece, to: piece + 1, name });
  });
  return runs;
}

/**
 * The slices that no other one is around. Marks of steps are around everything and tell nothing;
 * what overlaps a mark, as the end of the optimizer's step in which the next step begins, is drawn
 * above it.
 * @param {Lane} lane
 * @returns {number[]}
 */
function outermost({ start, end, depth, name, names }) {
  const inOrder = Array.from(start, (_, index) => index)
    .filter((index) => !/^(ProfilerStep|step)#/.test(names[name[index]]))
    .sort((one, other) => start[one] - start[other] || depth[one] - depth[other]);
  let until = -Infinity;
  return inOrder.filter((index) => {
    const isInside = end[index] <= until;
    until = Math.max(until, end[index]);
    return !isInside;
  });
}

/**
 * The lanes that tell a step of a rank: phases, causes, its first thread, and each stream.
 * @param {Lane[]} lanes
 * @param {number} rank
 * @param {number} most
 * @returns {Lane[]}
 */
export function lanesOf(lanes, rank, most) {
  const own = lanes.filter((lane) => lane.rank === rank && lane.shape === "slices");
  const first = (/** @type {string} */ kind) => own.filter((lane) => lane.kind === kind)
    .slice(0, 1);
  const streams = own.filter(({ kind }) => kind === "gpu")
    .sort((a, b) => busy(b) - busy(a));
  return [...first("phases"), ...first("causes"), ...first("cpu"), ...streams].slice(0, most);
}

/** @param {Lane} lane */
function busy(lane) {
  return lane.byDepth[0].reduce((sum, index) => sum + lane.end[index] - lane.start[index], 0);
}
