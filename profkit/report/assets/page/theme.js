// Light or dark: as the system says, or as the reader chose. Paper is white and narrow.

import { redrawCharts } from "./charts/chart.js";
import { byId } from "./elements.js";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  return (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
}

function follow() {
  byId("theme").setAttribute("aria-pressed", String(isDark()));
  redrawCharts();
  root.dispatchEvent(new Event("repaint"));
}

export function turnTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("profkit-theme", root.dataset.theme);
  } catch {
    // No storage for pages from files here: the choice lasts as long as the page.
  }
  follow();
}

/** @param {() => void} fillPaper makes what paper shows */
export function startTheme(fillPaper) {
  byId("theme").addEventListener("click", turnTheme);
  system.addEventListener("change", follow);
  follow();
  addEventListener("beforeprint", () => {
    root.classList.add("printing");
    root.dispatchEvent(new Event("repaint"));
    fillPaper();
  });
  addEventListener("afterprint", () => {
    root.classList.remove("printing");
    root.dispatchEvent(new Event("repaint"));
  });
}
