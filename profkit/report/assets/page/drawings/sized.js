// Drawings that know their width: drawn when they have one, and again when it or the theme changes.

/**
 * @param {HTMLElement} place
 * @param {() => void} draw
 */
export function whenSized(place, draw) {
  let width = 0;
  const watch = new ResizeObserver(() => {
    if (!place.clientWidth || place.clientWidth === width) return;
    width = place.clientWidth;
    draw();
  });
  watch.observe(place);
  const repaint = () => {
    if (place.isConnected) draw();
    else document.documentElement.removeEventListener("repaint", repaint);
  };
  document.documentElement.addEventListener("repaint", repaint);
}

/** @param {string} name of a property of the theme, such as `--text` */
export function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
