// Buttons that copy the text beside them.

import { byId, element } from "./elements.js";

const SHOWN_MS = 1600;

/**
 * Copies, and returns whether the browser let it.
 * @param {string} text
 */
async function copied(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return true;
  }
  // Pages from files are not secure contexts everywhere.
  const area = element("textarea", { class: "off" }, text);
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/**
 * Copies, and says so on the button for a moment.
 * @param {string} text
 * @param {Element} button
 */
export async function copyOf(text, button) {
  const label = button.textContent;
  button.textContent = await copied(text) ? "Copied" : "Select and copy";
  byId("announce").textContent = button.textContent;
  setTimeout(() => { button.textContent = label; }, SHOWN_MS);
}

export function startCopying() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button.copy") : null;
    const text = button?.parentElement?.querySelector("pre")?.textContent;
    if (button && text && button.textContent === "Copy") copyOf(text, button);
  });
}
