// Contents, links into what is folded, and where the reader is.

import { byId } from "./elements.js";

/** Where a link led to, until the reader moves on. @type {Element | null} */
let destination = null;

/** Brings the place that a link led to back into view, after what is above it has grown. */
export function holdDestination() {
  destination?.scrollIntoView();
}

/** @param {boolean} open */
function openMenu(open) {
  byId("menu").setAttribute("aria-expanded", String(open));
  byId("side").classList.toggle("open", open);
}

/**
 * A link into something folded opens it.
 * @param {string} hash
 */
function unfold(hash) {
  const name = decodeURIComponent(hash.slice(1));
  const target = name ? document.getElementById(name) : null;
  if (!target) return;
  for (let part = /** @type {Element | null} */ (target); part; part = part.parentElement) {
    if (part instanceof HTMLDetailsElement) part.open = true;
  }
  destination = target;
  target.scrollIntoView();
}

function followLinks() {
  for (const kind of ["wheel", "touchstart", "keydown", "pointerdown"]) {
    addEventListener(kind, () => { destination = null; }, { passive: true, capture: true });
  }
  addEventListener("hashchange", () => unfold(location.hash));
  addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    if (link instanceof HTMLAnchorElement && link.hash === location.hash) unfold(link.hash);
  });
  unfold(location.hash);
}

function followReader() {
  const side = byId("side");
  const links = new Map([...side.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const visible = new Set();
  const places = [...document.querySelectorAll("[data-spy]")];
  const spy = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) visible.add(target);
      else visible.delete(target);
    }
    // The innermost one is the last in the page's order.
    const current = places.findLast((place) => visible.has(place));
    for (const link of links.values()) link.removeAttribute("aria-current");
    for (const entry of side.querySelectorAll("li.here")) entry.classList.remove("here");
    const link = current && links.get(current.id);
    link?.setAttribute("aria-current", "true");
    link?.closest("li.run")?.classList.add("here");
  }, { rootMargin: "-15% 0px -75% 0px" });
  places.forEach((place) => spy.observe(place));
}

export function startNavigation() {
  const menu = byId("menu");
  const side = byId("side");
  menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));
  side.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("a")) openMenu(false);
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !side.classList.contains("open")) return;
    openMenu(false);
    menu.focus();
  });
  followLinks();
  followReader();
}
