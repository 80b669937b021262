// The page: what is drawn when, navigation, theme, copying.

const root = document.documentElement;
const rowsPerPage = Number(document.body.dataset.rowsPerPage);
const maxBars = Number(document.body.dataset.maxBars);
const sources = new Map();

// The data of one run is parsed when the first of its parts comes into view.
function data(name) {
  if (!sources.has(name)) {
    sources.set(name, JSON.parse(document.getElementById(`data-${name}`).textContent));
  }
  return sources.get(name);
}

function draw(place) {
  if (place.dataset.drawn) return;
  const { tables, charts: specifications } = data(place.dataset.source);
  if (place.dataset.chart) {
    const chart = specifications[Number(place.dataset.chart)];
    drawChart(place, chart, tables[chart.table], maxBars);
  } else {
    mountTable(place, tables[Number(place.dataset.table)], rowsPerPage);
    place.dataset.drawn = "yes";
  }
}

const lazy = [...document.querySelectorAll("[data-source]")];
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  // What was drawn above may be higher than its placeholder was.
  destination?.scrollIntoView();
}, { rootMargin: "400px 0px" });
lazy.forEach((place) => seen.observe(place));

// Where a link led to, until the reader moves on.
let destination = null;
for (const each of ["wheel", "touchstart", "keydown", "pointerdown"]) {
  addEventListener(each, () => { destination = null; }, { passive: true, capture: true });
}

// Draws everything now, folded parts too: for printing and for tests.
function drawAll() {
  document.querySelectorAll("details.holds-data").forEach((each) => { each.open = true; });
  lazy.forEach(draw);
}
window.profkit = { drawAll, human };

for (const each of document.querySelectorAll("data.num")) {
  const value = each.value === "" ? null : Number(each.value);
  each.textContent = human(value, each.dataset.unit);
  each.title = raw(value, each.dataset.unit);
}

// --- Theme -------------------------------------------------------------------------------------

const system = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");

function isDark() {
  return (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
}

function tellTheme() {
  themeButton.setAttribute("aria-pressed", String(isDark()));
  redrawCharts();
}

themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("profkit-theme", root.dataset.theme);
  } catch {
    // No storage for pages from files here: the choice lasts as long as the page.
  }
  tellTheme();
});
system.addEventListener("change", tellTheme);
tellTheme();

// Paper is white and narrow.
addEventListener("beforeprint", () => {
  root.classList.add("printing");
  lazy.filter((place) => place.offsetParent).forEach(draw);
  redrawCharts();
});
addEventListener("afterprint", () => {
  root.classList.remove("printing");
  redrawCharts();
});

// --- Navigation --------------------------------------------------------------------------------

const menuButton = document.getElementById("menu");
const side = document.getElementById("side");

function openMenu(open) {
  menuButton.setAttribute("aria-expanded", String(open));
  side.classList.toggle("open", open);
}

menuButton.addEventListener("click", () => {
  openMenu(menuButton.getAttribute("aria-expanded") !== "true");
});
side.addEventListener("click", (event) => { if (event.target.closest("a")) openMenu(false); });
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && side.classList.contains("open")) {
    openMenu(false);
    menuButton.focus();
  }
});

// A link into something folded opens it.
function unfold(hash) {
  const target = hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  if (!target) return;
  for (let each = target; each; each = each.parentElement) {
    if (each.tagName === "DETAILS") each.open = true;
  }
  destination = target;
  target.scrollIntoView();
}
addEventListener("hashchange", () => unfold(location.hash));
addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#"]');
  if (link && link.hash === location.hash) unfold(link.hash);
});
unfold(location.hash);

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
  for (const each of side.querySelectorAll("li.here")) each.classList.remove("here");
  const link = current && links.get(current.id);
  link?.setAttribute("aria-current", "true");
  link?.closest("li.run")?.classList.add("here");
}, { rootMargin: "-15% 0px -75% 0px" });
places.forEach((place) => spy.observe(place));

// --- Copying -----------------------------------------------------------------------------------

const announce = document.getElementById("announce");

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

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const done = await copied(button.parentElement.querySelector("pre").textContent);
  button.textContent = done ? "Copied" : "Select and copy";
  announce.textContent = button.textContent;
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
});
