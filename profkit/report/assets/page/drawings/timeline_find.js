// Where slices are: under the pointer, in a range, with a name, before and after one another.

/** @typedef {import("./timeline_data.js").Lane} Lane */
/** @typedef {import("./timeline_data.js").Scene} Scene */
/** @typedef {import("./timeline_window.js").Span} Span */
/** @typedef {{lane: Lane, index: number}} Slice */

/**
 * The first position in `rows` whose slice ends after `time`; its length where none does.
 * @param {Lane} lane
 * @param {Int32Array} rows slices that do not overlap
 * @param {number} time
 * @param {number} [low] where to begin
 */
export function firstAfter(lane, rows, time, low = 0) {
  let [from, to] = [low, rows.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (lane.end[rows[middle]] > time) to = middle;
    else from = middle + 1;
  }
  return from;
}

/**
 * The slice of a depth that a time lies in, or that is nearest within `reach`.
 * @param {Lane} lane
 * @param {number} depth
 * @param {number} time
 * @param {number} reach
 * @returns {number} its position in the lane, -1 for none
 */
export function sliceAt(lane, depth, time, reach) {
  const rows = lane.byDepth[depth];
  if (!rows) return -1;
  const after = firstAfter(lane, rows, time);
  let [best, least] = [-1, reach];
  for (const place of [after - 1, after]) {
    if (place < 0 || place >= rows.length) continue;
    const index = rows[place];
    const away = Math.max(lane.start[index] - time, time - lane.end[index], 0);
    if (away <= least && (best < 0 || away < least)) [best, least] = [index, away];
  }
  return best;
}

/** @param {Slice} slice @param {1 | -1} by @returns {Slice | null} the next of the same depth */
export function neighbour({ lane, index }, by) {
  const rows = lane.byDepth[lane.depth[index]];
  const next = rows[rows.indexOf(index) + by];
  return next === undefined ? null : { lane, index: next };
}

/** @param {Slice} slice @returns {Slice | null} the slice around it */
export function around({ lane, index }) {
  const depth = lane.depth[index];
  if (depth === 0) return null;
  const found = sliceAt(lane, depth - 1, lane.start[index], 0);
  return found < 0 ? null : { lane, index: found };
}

/** @param {Slice} slice @returns {Slice | null} the longest slice directly inside it */
export function inside({ lane, index }) {
  const rows = lane.byDepth[lane.depth[index] + 1];
  if (!rows) return null;
  let longest = -1;
  for (let i = firstAfter(lane, rows, lane.start[index]); i < rows.length; i += 1) {
    const one = rows[i];
    if (lane.start[one] >= lane.end[index]) break;
    const isLonger = longest < 0
      || lane.end[one] - lane.start[one] > lane.end[longest] - lane.start[longest];
    if (isLonger) longest = one;
  }
  return longest < 0 ? null : { lane, index: longest };
}

/**
 * @typedef {object} Matches
 * @property {Set<number>} names positions in the names of the lanes
 * @property {Slice[]} slices in order of time
 * @property {number} time in ns on all ranks together; on each, what overlaps counts once
 */

/**
 * Whether a name has all of the words, in any case.
 * @param {string} text
 * @returns {(name: string) => boolean}
 */
export function hasWords(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (name) => words.length > 0 && words.every((word) => name.toLowerCase().includes(word));
}

/**
 * Slices whose names are looked for.
 * @param {Lane[]} lanes
 * @param {(name: string) => boolean} isWanted
 * @returns {Matches}
 */
export function matchesOf(lanes, isWanted) {
  /** @type {Matches} */
  const found = { names: new Set(), slices: [], time: 0 };
  /** @type {Map<string[], Set<number>>} */
  const known = new Map();
  for (const lane of lanes) {
    if (lane.shape !== "slices") continue;
    const names = known.get(lane.names) ?? new Set(lane.names.flatMap((name, i) => (
      isWanted(name) ? [i] : [])));
    known.set(lane.names, names);
    lane.name.forEach((name, index) => {
      if (names.has(name)) found.slices.push({ lane, index });
    });
    found.names = names;
  }
  found.slices.sort((a, b) => a.lane.start[a.index] - b.lane.start[b.index]);
  /** @type {Record<string, number>} */
  const ends = {};
  for (const { lane: { group, start, end }, index } of found.slices) {
    const from = Math.max(start[index], ends[group] ?? -Infinity);
    ends[group] = Math.max(from, end[index]);
    found.time += ends[group] - from;
  }
  return found;
}

/**
 * Slices that belong together: a collective on all ranks, or on one rank a call and what it launched.
 * @param {Lane[]} lanes
 * @param {Slice | null} slice one of them
 * @returns {Slice[]} itself among them, none where it belongs to no other
 */
export function linkedTo(lanes, slice) {
  if (!slice) return [];
  const { kind, scene, group, link } = slice.lane;
  const number = link[slice.index];
  const isMeeting = kind === "collectives";
  return number < 0 ? [] : lanes.filter((one) => (one.kind === "collectives") === isMeeting
    && (isMeeting ? one.scene === scene : one.group === group)).flatMap((lane) => {
    const found = [];
    for (let index = lane.link.indexOf(number); index >= 0;
      index = lane.link.indexOf(number, index + 1)) found.push({ lane, index });
    return found;
  });
}

/**
 * Collectives of a span, each with its slices on all ranks; none if there are more than `most`.
 * @param {Lane[]} lanes
 * @param {Span} span
 * @param {number} most
 */
export function meetingsIn(lanes, { from, to }, most) {
  /** @type {Map<string, Slice[]>} */
  const found = new Map();
  for (const lane of lanes) {
    if (lane.kind !== "collectives") continue;
    for (let index = 0; index < lane.link.length; index += 1) {
      if (lane.link[index] < 0 || lane.start[index] >= to || lane.end[index] <= from) continue;
      const key = `${lane.scene} ${lane.link[index]}`;
      if (!found.has(key)) found.set(key, linkedTo(lanes, { lane, index }));
      if (found.size > most) return [];
    }
  }
  return [...found.values()];
}

/**
 * @typedef {object} Total of all slices of a name on one kind of lane of a rank
 * @property {string} kind
 * @property {string} name
 * @property {string} group
 * @property {number} time in ns; a slice inside one of its own name counts once
 * @property {number} self time that no slice inside has
 * @property {number} count
 */

/**
 * Time and count of each name in a span, by kind of lane and rank; most time of its own first.
 * @param {Lane[]} lanes
 * @param {Span} span
 * @returns {Total[]}
 */
export function totalsOf(lanes, { from, to }) {
  /** @type {Map<string, Total>} */
  const found = new Map();
  for (const lane of lanes) {
    if (lane.shape !== "slices") continue;
    /** @type {Total[]} of the slices around the next one */
    const open = [];
    for (let index = 0; index < lane.start.length && lane.start[index] < to; index += 1) {
      if (lane.end[index] <= from) continue;
      const time = Math.min(lane.end[index], to) - Math.max(lane.start[index], from);
      open.length = Math.min(open.length, lane.depth[index]);
      const name = lane.names[lane.name[index]];
      const key = `${lane.group} ${lane.kind} ${name}`;
      const total = found.get(key)
        ?? { kind: lane.kind, name, group: lane.group, time: 0, self: 0, count: 0 };
      found.set(key, total);
      total.count += 1;
      total.self += time;
      const above = open.at(-1);
      if (above) above.self -= time;
      if (!open.includes(total)) total.time += time;
      open.push(total);
    }
  }
  return [...found.values()].sort((a, b) => b.self - a.self);
}

/**
 * What a lane of shares or lines has at a time.
 * @param {Lane} lane
 * @param {number} time
 * @returns {number} position, -1 for none
 */
export function pieceAt(lane, time) {
  let [from, to] = [0, lane.start.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (lane.start[middle] > time) to = middle;
    else from = middle + 1;
  }
  return from - 1;
}
