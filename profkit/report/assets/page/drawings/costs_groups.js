// The costs of a step, grouped by what the reader chose.

/** @typedef {import("../model.js").Row} Row */
/**
 * @typedef {Record<Key, number[]> & {calls_per_step: number[], ms_per_step: number[],
 *   texts: string[]}} Costs columns; the keys refer to the texts
 */
/** @typedef {"cause" | "module" | "operator" | "kernel" | "library" | "file"} Key */
/** @typedef {{title: string, columns: string[], of: (part: Record<Key, string>) => string[]}} Group */

/** What a part is counted under that has no such name. @param {Record<Key, string>} part */
const nameless = ({ cause }) => `(${cause})`;

/** @type {Record<string, Group>} */
export const GROUPS = {
  each: { title: "Operator and kernel", columns: ["Operator", "Kernel"],
    of: (part) => [part.operator || nameless(part), part.kernel] },
  operator: { title: "Operator", columns: ["Operator"],
    of: (part) => [part.operator || nameless(part)] },
  kernel: { title: "Kernel", columns: ["Kernel"], of: (part) => [part.kernel || nameless(part)] },
  module: { title: "Module", columns: ["Module"], of: (part) => [part.module || nameless(part)] },
  class: { title: "Class of module", columns: ["Class"],
    of: (part) => [classOf(part.module) || nameless(part)] },
  library: { title: "Library of kernels", columns: ["Library"],
    of: (part) => [part.library || nameless(part)] },
  file: { title: "Python file", columns: ["File"], of: (part) => [part.file || nameless(part)] },
  cause: { title: "Cause", columns: ["Cause"], of: (part) => [part.cause] },
};

/** The class of the innermost module of a path. @param {string} path such as `Net_0;Linear_2` */
export function classOf(path) {
  return path.slice(path.lastIndexOf(";") + 1).replace(/_\d+$/, "");
}

/** @param {Costs} costs */
export function stepMs(costs) {
  return costs.ms_per_step.reduce((sum, ms) => sum + ms, 0);
}

/**
 * Rows of names, ms per step, share of the step and calls per step, the largest first.
 * @param {Costs} costs
 * @param {Group} group
 * @returns {Row[]}
 */
export function rowsOf(costs, group) {
  const whole = stepMs(costs) || 1;
  /** @type {Map<string, {names: string[], ms: number, calls: Map<string, number>}>} */
  const found = new Map();
  costs.ms_per_step.forEach((ms, index) => {
    const part = partAt(costs, index);
    const names = group.of(part);
    const key = names.join("\n");
    const sum = found.get(key) ?? { names, ms: 0, calls: new Map() };
    sum.ms += ms;
    // A collective has its waiting and its transfer under two causes: they are the same calls.
    const call = [part.kernel ? "" : part.cause, part.module, part.operator, part.kernel,
      part.file].join();
    sum.calls.set(call, Math.max(sum.calls.get(call) ?? 0, costs.calls_per_step[index]));
    found.set(key, sum);
  });
  return [...found.values()].sort((a, b) => b.ms - a.ms).map(({ names, ms, calls }) => (
    [...names, ms, ms / whole, [...calls.values()].reduce((all, one) => all + one, 0)]));
}

/** @param {Costs} costs @param {number} index @returns {Record<Key, string>} */
function partAt(costs, index) {
  const text = (/** @type {Key} */ key) => costs.texts[costs[key][index]];
  return { cause: text("cause"), module: text("module"), operator: text("operator"),
    kernel: text("kernel"), library: text("library"), file: text("file") };
}

/**
 * The groups that name anything beyond causes.
 * @param {Costs} costs
 */
export function groupsOf(costs) {
  return Object.keys(GROUPS).filter((name) => {
    const key = /** @type {Key} */ ({ each: "kernel", class: "module" }[name] ?? name);
    return costs[key].some((code) => costs.texts[code] !== "");
  });
}
