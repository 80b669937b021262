// What the reader chose in a drawing, kept in the hash, so that links restore it and Back undoes it.

import { filterIn } from "../filters.js";

/** @typedef {Record<string, string>} Values */
/**
 * @typedef {object} State of one drawing
 * @property {(key: string) => string} get what was chosen, empty for nothing
 * @property {(values: Values, isStep?: boolean) => void} set an empty value forgets; a step is what
 *   Back undoes (the default), anything else replaces what was chosen before
 * @property {(act: () => void, place?: Element) => void} onChange calls `act` when it is another, by
 *   Back or a link, as long as `place` is in the page
 */

/**
 * @typedef {object} Keeper where the state of all drawings is kept
 * @property {() => Values} read by name of the drawing, a dot and the key
 * @property {(values: Values, isStep: boolean) => void} write
 */

/** @type {Keeper | null} */
let keeper = null;
/**
 * Who hears of it, and the element that shows it, if that may go while its view stays.
 * @type {Map<() => void, Element | undefined>}
 */
const listeners = new Map();

/** All that the reader chose. @returns {Values} */
export function stateNow() {
  return keeper?.read() ?? {};
}

/** @param {Keeper} kept */
export function keepStateIn(kept) {
  keeper = kept;
}

/** Tells drawings that the state is another. */
export function stateChanged() {
  for (const [act, place] of [...listeners]) {
    if (place && !place.isConnected) listeners.delete(act);
    else act();
  }
}

/** Forgets the drawings of a view that is left. */
export function forgetStates() {
  listeners.clear();
}

/**
 * The state of the drawing called `name`.
 * @param {string} name
 * @returns {State}
 */
export function stateOf(name) {
  return {
    // Where a drawing has nothing of its own, the filters of the whole page hold.
    get: (key) => {
      const kept = keeper?.read() ?? {};
      return kept[`${name}.${key}`] ?? filterIn(kept, key);
    },
    set: (values, isStep = true) => {
      if (!keeper) return;
      const kept = { ...keeper.read() };
      for (const [key, value] of Object.entries(values)) {
        if (value) kept[`${name}.${key}`] = value;
        else delete kept[`${name}.${key}`];
      }
      keeper.write(kept, isStep);
    },
    onChange: (act, place) => { listeners.set(act, place); },
  };
}
