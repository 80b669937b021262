// The timeline as it is seen, with the names of its tracks, as one picture to save.

/**
 * @param {HTMLCanvasElement} canvas
 * @param {HTMLElement} labels elements beside the canvas, at the height of their tracks
 * @returns {HTMLCanvasElement}
 */
export function pictureOf(canvas, labels) {
  const seen = canvas.getBoundingClientRect();
  const left = labels.getBoundingClientRect().left;
  const ratio = canvas.width / seen.width;
  const made = document.createElement("canvas");
  [made.width, made.height] = [(seen.right - left) * ratio, canvas.height].map(Math.round);
  const pen = made.getContext("2d");
  if (!pen) throw new Error("this browser has no canvas to draw on");
  pen.scale(ratio, ratio);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--raised");
  pen.fillRect(0, 0, made.width, made.height);
  for (const label of labels.children) {
    const box = label.getBoundingClientRect();
    if (box.bottom < seen.top || box.top > seen.bottom) continue;
    const { color, font } = getComputedStyle(label);
    [pen.fillStyle, pen.font, pen.textBaseline] = [color, font, "top"];
    pen.fillText(label.textContent ?? "", box.left - left + 4, box.top - seen.top + 3);
  }
  pen.drawImage(canvas, seen.left - left, 0, seen.width, seen.height);
  return made;
}
