// Frames of a flame graph: the tree as it travels, and the orders in which it can be looked at.

/**
 * @typedef {object} Packed a tree as `profkit.analyze.shared.frame_tree` writes it
 * @property {string[]} names
 * @property {string[]} kinds
 * @property {number[]} kind of each name
 * @property {number[]} above row of the caller, lower than the frame's own; -1 for none
 * @property {number[]} name of each row
 * @property {number[][]} own by column: what each row has by itself
 * @property {string[][]} groups what stacks belong to, such as thread and phase
 * @property {number[]} group of each row; empty if there is one
 * @property {number} [of] how many steps it is the mean of
 * @property {number[]} [pairs] columns with how much more the second run has, one for each pair
 * @property {number} [factor] from the spread of the pairs to half the interval of their mean
 */
/**
 * @typedef {object} Frame
 * @property {number} id its number among all that were made, the same each time
 * @property {string} name
 * @property {string} kind
 * @property {number[]} own by column
 * @property {number[]} sums by column, with all that it calls
 * @property {Frame | null} parent
 * @property {Map<string, Frame>} children
 */
/**
 * @typedef {object} Choice
 * @property {boolean} inTime stacks of different groups stay apart
 * @property {boolean} isFolded libraries that call one another are one frame
 * @property {boolean} isCollapsed a frame that calls itself is one frame
 * @property {(group: string[]) => boolean} isShown
 */

const LIBRARY = "library:";

/** @param {string} kind */
export function titleOf(kind) {
  return kind.startsWith(LIBRARY) ? `library ${kind.slice(LIBRARY.length)}` : kind;
}

/** @param {Packed} packed */
export function hasLibraries({ kinds }) {
  return kinds.some((kind) => kind.startsWith(LIBRARY));
}

/** @param {Packed} packed whether a frame is anywhere below itself */
export function hasRecursion({ above, name }) {
  return name.some((own, row) => {
    for (let at = above[row]; at >= 0; at = above[at]) if (name[at] === own) return true;
    return false;
  });
}

/** Makes frames, which are numbered as they come. */
class Maker {
  /** @param {number} columns */
  constructor(columns) {
    this.columns = columns;
    /** @type {Frame[]} */
    this.made = [];
    this.root = this.make("all", "all", null);
  }

  /** @param {string} name @param {string} kind @param {Frame | null} parent @returns {Frame} */
  make(name, kind, parent) {
    const frame = { id: this.made.length, name, kind, parent, children: new Map(),
      own: Array(this.columns).fill(0), sums: Array(this.columns).fill(0) };
    this.made.push(frame);
    return frame;
  }

  /** @param {Frame} parent @param {string} key @param {string} name @param {string} kind */
  below(parent, key, name, kind) {
    const child = parent.children.get(key) ?? this.make(name, kind, parent);
    parent.children.set(key, child);
    return child;
  }

  /** Sums what each frame has with what it calls: those that are called were made later. */
  summed() {
    for (let at = this.made.length - 1; at >= 0; at -= 1) {
      const { own, sums, parent } = this.made[at];
      own.forEach((value, column) => {
        sums[column] += value;
        if (parent) parent.sums[column] += sums[column];
      });
    }
    return this.root;
  }
}

/**
 * The tree from the callers, what ran first before what ran later.
 * @param {Packed} packed
 * @param {Choice} choice
 * @returns {Frame} the root, whose children are the frames without a caller
 */
export function fromCallers(packed, choice) {
  const maker = new Maker(packed.own.length);
  const shown = packed.groups.map(choice.isShown);
  /** @type {Frame[]} */
  const at = [];
  packed.name.forEach((name, row) => {
    const group = packed.group[row] ?? 0;
    if (!shown[group]) return;
    const above = packed.above[row];
    const parent = above < 0 ? maker.root : at[above];
    at[row] = placed(maker, parent, packed, name, choice, above < 0 ? group : -1);
    packed.own.forEach((values, column) => { at[row].own[column] += values[row]; });
  });
  return maker.summed();
}

/**
 * The frame of a name below its caller, which is the caller itself where both are folded.
 * @param {Maker} maker
 * @param {Frame} parent
 * @param {Packed} packed
 * @param {number} name
 * @param {Choice} choice
 * @param {number} group of a frame without a caller
 */
function placed(maker, parent, packed, name, choice, group) {
  const kind = packed.kinds[packed.kind[name]];
  const isFolded = choice.isFolded && kind.startsWith(LIBRARY);
  if (isFolded && parent.kind.startsWith(LIBRARY)) return parent;
  const text = isFolded ? `(${kind.slice(LIBRARY.length)})` : packed.names[name];
  if (choice.isCollapsed) {
    for (let one = /** @type {Frame | null} */ (parent); one; one = one.parent) {
      if (one.name === text && one.kind === kind) return one;
    }
  }
  const apart = choice.inTime && group >= 0 ? `${group}` : "";
  return maker.below(parent, `${apart}\n${kind}\n${text}`, text, kind);
}

/** @param {Frame} frame @param {(frame: Frame) => void} act on it and all below it, callers first */
export function walk(frame, act) {
  const pending = [frame];
  for (let one = pending.pop(); one; one = pending.pop()) {
    act(one);
    pending.push(...[...one.children.values()].reverse());
  }
}

/** @param {Frame} one @param {Frame} other */
function isSame(one, other) {
  return one.name === other.name && one.kind === other.kind;
}

/** @typedef {{at: Frame | null, values: number[]}} Stack what is climbed from callee to caller */

/**
 * The tree from the frames in which time is spent to their callers.
 * @param {Frame} root of `fromCallers`
 * @param {number} column by which parts too small to be seen are left out
 */
export function fromLeaves(root, column) {
  /** @type {Stack[]} */
  const stacks = [];
  walk(root, (frame) => {
    if (frame !== root && frame.own.some((value) => value !== 0)) {
      stacks.push({ at: frame, values: frame.own });
    }
  });
  return climbed(stacks, root, column);
}

/**
 * @param {Stack[]} stacks
 * @param {Frame} top where they end
 * @param {number} column
 */
function climbed(stacks, top, column) {
  const maker = new Maker(top.own.length);
  const least = top.sums[column] / 5000;
  /** @type {[Frame, Stack[]][]} */
  const pending = [[maker.root, stacks]];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const [parent, own] = next;
    /** @type {Map<Frame, Stack[]>} */
    const above = new Map();
    for (const { at, values } of own) {
      if (!at || at === top) {
        values.forEach((value, i) => { parent.own[i] += value; });
      } else {
        const frame = maker.below(parent, `${at.kind}\n${at.name}`, at.name, at.kind);
        const others = above.get(frame);
        const stack = { at: at.parent, values };
        if (others) others.push(stack);
        else above.set(frame, [stack]);
      }
    }
    for (const [frame, stacksAbove] of above) {
      const sum = stacksAbove.reduce((all, { values }) => all + values[column], 0);
      pending.push([frame, sum < least ? stacksAbove.map(({ values }) => ({ at: null, values }))
        : stacksAbove]);
    }
  }
  return maker.summed();
}

/**
 * Who calls a function, and what it calls: all its places together.
 * @param {Frame} root of `fromCallers`
 * @param {string} name
 * @param {number} column
 * @returns {{callers: Frame, callees: Frame}} trees from the function on, empty if it is nowhere
 */
export function around(root, name, column) {
  /** @type {Stack[]} */
  const stacks = [];
  const maker = new Maker(root.own.length);
  /** @param {Frame} from @param {Frame} to */
  const add = (from, to) => {
    from.own.forEach((value, i) => { to.own[i] += value; });
    for (const [key, child] of from.children) {
      add(child, maker.below(to, key.replace(/^\d*\n/, "\n"), child.name, child.kind));
    }
  };
  /** @param {Frame} frame */
  const find = (frame) => {
    if (frame !== root && frame.name === name) {
      stacks.push({ at: frame, values: frame.sums });
      add(frame, maker.below(maker.root, frame.name, frame.name, frame.kind));
    } else {
      for (const child of frame.children.values()) find(child);
    }
  };
  find(root);
  return { callers: climbed(stacks, root, column), callees: maker.summed() };
}

/** A frame and those above it, from the root. @param {Frame} frame @returns {Frame[]} */
export function pathTo(frame) {
  return frame.parent ? [...pathTo(frame.parent), frame] : [frame];
}

/** @param {Frame} root @param {number} id */
export function frameOf(root, id) {
  /** @type {Frame | null} */
  let found = null;
  walk(root, (frame) => { if (frame.id === id) found = frame; });
  return /** @type {Frame} */ (found ?? root);
}

/**
 * What has a word in its name: the outermost frames, so that nothing counts twice.
 * @param {Frame} focus
 * @param {string} text
 * @param {number} column
 */
export function matchesOf(focus, text, column) {
  const wanted = text.toLowerCase();
  let sum = 0;
  let count = 0;
  /** @param {Frame} frame @param {boolean} isInside */
  const look = (frame, isInside) => {
    const isMatch = frame.parent !== null && frame.name.toLowerCase().includes(wanted);
    if (isMatch) count += 1;
    if (isMatch && !isInside) sum += frame.sums[column];
    for (const child of frame.children.values()) look(child, isInside || isMatch);
  };
  look(focus, false);
  return { sum, count };
}

/**
 * What each frame has, all its places together; what is inside itself counts once.
 * @param {Frame} focus
 * @returns {{name: string, kind: string, own: number[], sums: number[]}[]}
 */
export function byName(focus) {
  /** @type {Map<string, {name: string, kind: string, own: number[], sums: number[]}>} */
  const found = new Map();
  /** @param {Frame} frame @param {Frame[]} above */
  const add = (frame, above) => {
    if (frame.parent) {
      const key = `${frame.kind}\n${frame.name}`;
      const row = found.get(key) ?? { name: frame.name, kind: frame.kind,
        own: frame.own.map(() => 0), sums: frame.own.map(() => 0) };
      found.set(key, row);
      const isOuter = !above.some((one) => isSame(one, frame));
      frame.own.forEach((value, i) => {
        row.own[i] += value;
        if (isOuter) row.sums[i] += frame.sums[i];
      });
    }
    for (const child of frame.children.values()) add(child, [...above, frame]);
  };
  add(focus, []);
  return [...found.values()];
}

/**
 * The stacks as a file that https://www.speedscope.app opens.
 * @param {Frame} root of `fromCallers`
 * @param {{title: string, unit: string, column: number}} what
 */
export function speedscopeOf(root, { title, unit, column }) {
  /** @type {Map<string, number>} */
  const names = new Map();
  /** @type {number[][]} */
  const samples = [];
  /** @type {number[]} */
  const weights = [];
  walk(root, (frame) => {
    if (frame === root || !frame.own[column]) return;
    samples.push(pathTo(frame).slice(1).map(({ name }) => {
      if (!names.has(name)) names.set(name, names.size);
      return /** @type {number} */ (names.get(name));
    }));
    weights.push(frame.own[column]);
  });
  return { $schema: "https://www.speedscope.app/file-format-schema.json", name: title,
    exporter: "profkit", activeProfileIndex: 0,
    shared: { frames: [...names.keys()].map((name) => ({ name })) },
    profiles: [{ type: "sampled", name: title, unit: unit === "ns" ? "nanoseconds" : unit,
      startValue: 0, endValue: root.sums[column], samples, weights }] };
}
