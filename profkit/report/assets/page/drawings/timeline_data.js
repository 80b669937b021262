// What a timeline draws, unpacked: lanes of slices, of shares and of lines, by the rank they are of.

/** @typedef {import("../model.js").DrawingData} DrawingData */
/**
 * @typedef {object} Lane one thread, stream or other place
 * @property {number} rank
 * @property {string} group what stands above the lanes of its rank
 * @property {string} scene name of the step, where several are shown
 * @property {string} kind causes, phases, steps, cpu, python, collectives, gpu or memory
 * @property {string} title
 * @property {"slices" | "busy" | "line"} shape
 * @property {number} rows how deep slices nest, at least 1
 * @property {Float64Array} start in ns since the scene begins, in order
 * @property {Float64Array} end
 * @property {string[]} names of slices, which `name` has the positions of
 * @property {Int32Array} name
 * @property {Int32Array[]} byDepth positions of the slices of each depth, which never overlap
 * @property {Uint16Array} depth
 * @property {Record<string, any>} columns what else is known of slices
 * @property {Int32Array} about row of `columns` of each slice, -1 for none
 * @property {Int32Array} link number that slices of several lanes share, -1 for none
 * @property {Float64Array} values of `busy` (percent) and `line` (bytes)
 */
/**
 * @typedef {object} Scene one thing to look at: a step, or the whole recording
 * @property {number} length in ns
 * @property {number} start in ns since the recording began
 * @property {Lane[]} lanes
 * @property {{slices: number, longest_ns: number}} leftOut
 */


/** @param {number[]} distances each from the one before */
function summed(distances) {
  const made = new Float64Array(distances.length);
  let at = 0;
  for (let i = 0; i < distances.length; i += 1) {
    at += distances[i];
    made[i] = at;
  }
  return made;
}

/** @param {Uint16Array} depth @param {number} rows */
function split(depth, rows) {
  const counts = new Int32Array(rows);
  for (const row of depth) counts[row] += 1;
  const parts = [...counts].map((count) => new Int32Array(count));
  counts.fill(0);
  depth.forEach((row, index) => {
    parts[row][counts[row]] = index;
    counts[row] += 1;
  });
  return parts;
}

/**
 * A lane with what is left out filled in.
 * @param {Partial<Lane> & {kind: string, title: string}} given
 * @returns {Lane}
 */
export function lane(given) {
  const count = given.start?.length ?? 0;
  const depth = given.depth ?? new Uint16Array(count);
  const rows = depth.reduce((most, row) => Math.max(most, row + 1), 1);
  const none = () => new Int32Array(count).fill(-1);
  return {
    rank: 0, group: "", scene: "", columns: {}, shape: "slices",
    start: new Float64Array(count), end: new Float64Array(count),
    names: [], name: new Int32Array(count), about: none(), link: none(),
    values: new Float64Array(0), ...given, depth, rows, byDepth: split(depth, rows),
  };
}

/** @type {Record<string, string>} */
const TITLES = { causes: "Time by cause", phases: "Phases", collectives: "Collectives" };

/** @param {Record<string, any>} track */
export function titleOf(track) {
  const { kind, thread, role, device, stream } = track;
  if (kind === "cpu") return role ? `CPU: ${role} thread` : `CPU: thread ${thread}`;
  if (kind === "python") {
    const place = role ? `${role} thread` : `thread ${thread}`;
    return `${track.is_sampled ? "Sampled Python" : "Python"}: ${place}`;
  }
  if (kind === "gpu") return `GPU ${device}, stream ${stream}`;
  if (kind === "memory") return `Memory of ${device}`;
  return TITLES[kind] ?? kind;
}

/**
 * A step, as a detail of the drawing has it.
 * @param {Record<string, any>} data
 * @param {(rank: number) => string} groupOf
 * @returns {Scene}
 */
export function sceneOf(data, groupOf) {
  const lanes = data.tracks.map((/** @type {Record<string, any>} */ track) => {
    const known = { rank: track.rank, group: groupOf(track.rank), kind: track.kind,
      title: titleOf(track), columns: data.about[track.kind] ?? {} };
    if (track.kind === "memory") {
      const start = summed(track.time_ns);
      const end = start.map((_, i) => start[i + 1] ?? data.length_ns);
      return lane({ ...known, shape: "line", start, end,
        values: new Float64Array(track.allocated_bytes) });
    }
    const start = summed(track.start_ns);
    return lane({
      ...known, start, end: start.map((from, i) => from + track.dur_ns[i]),
      names: data.texts, name: new Int32Array(track.name), depth: new Uint16Array(track.depth),
      ...(track.about ? { about: new Int32Array(track.about) } : {}),
      ...(track.link ? { link: new Int32Array(track.link) } : {}),
    });
  });
  return { length: data.length_ns, start: data.start_ns, lanes: inOrder(lanes),
    leftOut: data.left_out };
}

/**
 * The whole recording: how busy each track is.
 * @param {Record<string, any>} data
 * @param {(rank: number) => string} groupOf
 * @returns {Scene}
 */
export function wholeOf(data, groupOf) {
  const { pieces, length_ns: length, steps } = data;
  const edge = (/** @type {number} */ piece) => Math.floor((piece * length) / pieces);
  const marked = new Float64Array(steps.start_ns);
  const names = steps.step.map((/** @type {number} */ step, /** @type {number} */ i) => (
    `step ${step}${steps.is_steady[i] ? "" : " (not counted)"}`));
  const rank = data.ranks[0].rank;
  const first = lane({ rank, group: groupOf(rank), kind: "steps", title: "Steps", start: marked,
    end: marked.map((from, i) => from + steps.dur_ns[i]), names,
    name: Int32Array.from(names, (/** @type {string} */ _, /** @type {number} */ i) => i) });
  /** @type {Lane[]} */
  const lanes = data.tracks.map((/** @type {Record<string, any>} */ track) => {
    const known = { rank: track.rank, group: groupOf(track.rank), kind: track.kind,
      title: titleOf(track) };
    if (track.kind === "causes") return lane({ ...known, ...runsOf(track, edge) });
    const values = new Float64Array(track.busy_percent ?? track.allocated_bytes);
    return lane({
      ...known, shape: track.kind === "memory" ? "line" : "busy", values,
      start: values.map((_, piece) => edge(piece)), end: values.map((_, piece) => edge(piece + 1)),
    });
  });
  return { length, start: 0, lanes: inOrder(steps.step.length ? [first, ...lanes] : lanes),
    leftOut: { slices: 0, longest_ns: 0 } };
}

/**
 * Runs of pieces in which one cause has most of the time, as slices.
 * @param {Record<string, any>} track
 * @param {(piece: number) => number} edge
 */
function runsOf(track, edge) {
  /** @type {number[][]} */
  const runs = [];
  track.cause.forEach((/** @type {number} */ cause, /** @type {number} */ piece) => {
    const last = runs.at(-1);
    if (last && last[0] === cause && last[2] === piece) last[2] = piece + 1;
    else if (cause >= 0) runs.push([cause, piece, piece + 1]);
  });
  return {
    title: "Largest cause", names: track.causes,
    start: Float64Array.from(runs, ([, from]) => edge(from)),
    end: Float64Array.from(runs, ([, , to]) => edge(to)),
    name: Int32Array.from(runs, ([cause]) => cause),
  };
}

const ORDER = ["steps", "phases", "causes", "python", "cpu", "collectives", "gpu", "memory"];

/** @param {Lane[]} lanes @returns {Lane[]} those of a rank together, the program's thread first */
function inOrder(lanes) {
  const place = (/** @type {Lane} */ one) => ORDER.indexOf(one.kind);
  return lanes.toSorted((a, b) => a.rank - b.rank || place(a) - place(b));
}

/**
 * Two scenes one above the other, each from its own beginning.
 * @param {[string, Scene][]} scenes with their names
 * @returns {Scene}
 */
export function stacked([[first, above], [second, below]]) {
  const named = (/** @type {string} */ name, /** @type {Lane[]} */ lanes) => lanes.map((one) => (
    { ...one, scene: name, group: `${name}, ${one.group}` }));
  return {
    length: Math.max(above.length, below.length), start: above.start,
    lanes: [...named(first, above.lanes), ...named(second, below.lanes)],
    leftOut: { slices: above.leftOut.slices + below.leftOut.slices,
      longest_ns: Math.max(above.leftOut.longest_ns, below.leftOut.longest_ns) },
  };
}

/**
 * What else is known of a slice, texts and numbers by name; unknown ones are left out.
 * @param {Lane} of
 * @param {number} index
 * @returns {[string, string | number][]}
 */
export function knownOf(of, index) {
  const row = of.about[index];
  if (row < 0) return [];
  return Object.entries(of.columns).flatMap(([name, values]) => {
    if (name === "texts") return [];
    const value = of.columns.texts.includes(name) ? of.names[values[row]] : values[row];
    return value === "" || value === -1 ? []
      : [/** @type {[string, string | number]} */ ([name, value])];
  });
}
