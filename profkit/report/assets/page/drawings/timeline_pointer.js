// What the reader does with pointer, wheel and fingers, as places on the canvas.

/**
 * @typedef {object} Acts what follows; x and y are pixels on the canvas
 * @property {(x: number, y: number) => void} hover
 * @property {() => void} leave
 * @property {(x: number, y: number) => void} pick
 * @property {(x: number, y: number) => void} fit
 * @property {(dx: number, dy: number) => void} drag
 * @property {(factor: number, x: number) => void} zoom
 * @property {(from: number, to: number, isDone: boolean) => void} select
 * @property {() => boolean} isSelecting whether a drag selects without the shift key
 */

const STILL = 4;
const WHEEL = 0.0022;

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Acts} acts
 */
export function listen(canvas, acts) {
  const place = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  listenToWheel(canvas, acts, place);
  listenToDrags(canvas, acts, place);
  canvas.addEventListener("pointerleave", acts.leave);
  canvas.addEventListener("dblclick", (event) => {
    const { x, y } = place(event);
    acts.fit(x, y);
  });
}

/** @typedef {(event: MouseEvent) => {x: number, y: number}} Place */

/** @param {HTMLCanvasElement} canvas @param {Acts} acts @param {Place} place */
function listenToWheel(canvas, acts, place) {
  canvas.addEventListener("wheel", (event) => {
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const isZoom = event.ctrlKey || event.metaKey
      || (!isSideways && document.activeElement === canvas);
    // Without focus the wheel scrolls the page, as everywhere.
    if (!isZoom && !isSideways) return;
    event.preventDefault();
    const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (isZoom) {
      const strength = event.ctrlKey ? 4 : 1;
      acts.zoom(Math.exp(event.deltaY * pixels * WHEEL * strength), place(event).x);
    } else {
      acts.drag(-(event.deltaX || event.deltaY) * pixels, 0);
    }
  }, { passive: false });
}

/** @param {HTMLCanvasElement} canvas @param {Acts} acts @param {Place} place */
function listenToDrags(canvas, acts, place) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  let start = { x: 0, y: 0 };
  let mode = "";
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = place(event);
    down.set(event.pointerId, start);
    const isSelect = event.shiftKey || (acts.isSelecting() && event.pointerType !== "touch");
    mode = down.size > 1 ? "pinch" : isSelect ? "select" : "press";
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = down.get(event.pointerId);
    if (!before) {
      acts.hover(now.x, now.y);
      return;
    }
    down.set(event.pointerId, now);
    if (mode === "pinch") {
      pinch(down, event.pointerId, before, now, acts);
    } else if (mode === "select") {
      acts.select(Math.min(start.x, now.x), Math.max(start.x, now.x), false);
    } else {
      const isFar = Math.hypot(now.x - start.x, now.y - start.y) > STILL;
      if (mode === "press" && isFar) mode = "drag";
      if (mode === "drag") acts.drag(now.x - before.x, now.y - before.y);
    }
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, (event) => {
      if (!(event instanceof PointerEvent) || !down.delete(event.pointerId)) return;
      const now = place(event);
      if (kind === "pointerup" && mode === "press") acts.pick(now.x, now.y);
      const isRange = mode === "select" && Math.abs(now.x - start.x) > STILL;
      if (isRange) acts.select(Math.min(start.x, now.x), Math.max(start.x, now.x), true);
      if (mode === "select" && !isRange) acts.pick(now.x, now.y);
      mode = "";
    });
  }
}

/**
 * Two fingers: their distance zooms, with the time between them where it is.
 * @param {Map<number, {x: number, y: number}>} down
 * @param {number} id of the finger that moved
 * @param {{x: number, y: number}} before
 * @param {{x: number, y: number}} now
 * @param {Acts} acts
 */
function pinch(down, id, before, now, acts) {
  const other = [...down].find(([key]) => key !== id)?.[1];
  if (!other) return;
  const [was, is] = [before, now].map(({ x }) => Math.max(Math.abs(x - other.x), 8));
  acts.zoom(was / is, (now.x + other.x) / 2);
}
