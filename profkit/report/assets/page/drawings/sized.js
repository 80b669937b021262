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

/** What the theme and the width of a place give to a drawing. @param {HTMLElement} place */
export function lookOf(place) {
  return {
    text: themed("--text"), faint: themed("--faint"), grid: themed("--grid"),
    line: themed("--line-strong"), raised: themed("--raised"), muted: themed("--series-muted"),
    bad: themed("--bad"), font: themed("--font"), colors: themed("--series").split(/\s+/),
    width: place.clientWidth,
  };
}
