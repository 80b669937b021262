// Which module draws which kind of drawing.

import { drawCosts } from "./costs.js";
import { drawFlame } from "./flame.js";
import { drawMatrix } from "./matrix.js";
import { drawMemory } from "./memory.js";
import { drawTimeline } from "./timeline.js";

/** @typedef {import("../model.js").DrawingData} DrawingData */
/** @typedef {import("./state.js").State} State */
/** @typedef {(shown: DrawingData, state: State) => Node} Draw */

/** @type {Record<string, Draw>} */
export const kinds = {
  costs: drawCosts,
  flame: drawFlame,
  matrix: drawMatrix,
  memory: drawMemory,
  timeline: drawTimeline,
};
