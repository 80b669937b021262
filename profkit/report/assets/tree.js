// Trees as icicles and sunbursts: every part stands for a path, as wide as its share of the whole.

const SVG = "http://www.w3.org/2000/svg";
const ROW = 22;
const RINGS = 6;
const NARROWEST = 1;
const TREES = { icicle: drawIcicle, sunburst: drawSunburst };
// What a reader has zoomed into, kept while the chart is drawn again.
const zoomed = new WeakMap();

function drawTree(place, chart, table, look) {
  const whole = treeOf(chart, table);
  const steps = zoomed.get(place) ?? [];
  const focus = steps.reduce((node, name) => node?.children.get(name), whole) ?? whole;
  const unit = table.columns[chart.y[0]].unit;
  const told = made("p", "tree-told");
  const tell = (node) => { told.textContent = sentence(node, whole, unit); };
  const zoom = (node) => {
    zoomed.set(place, pathOf(node));
    drawTree(place, chart, table, look);
  };
  tell(focus);
  const svg = TREES[chart.kind](focus, look, { tell, zoom });
  svg.addEventListener("pointerleave", () => tell(focus));
  place.replaceChildren(told, svg);
  place.style.height = "auto";
  if (focus.parent) place.prepend(back(() => zoom(whole)));
  return 0;
}

function treeOf(chart, table) {
  const whole = { name: "all", value: 0, depth: 0, parent: null, children: new Map() };
  for (const row of table.rows) {
    const value = row[chart.y[0]];
    if (!(value > 0) || row[chart.x] === null) continue;
    whole.value += value;
    let node = whole;
    for (const name of String(row[chart.x]).split(";")) {
      if (!node.children.has(name)) {
        node.children.set(name,
          { name, value: 0, depth: node.depth + 1, parent: node, children: new Map() });
      }
      node = node.children.get(name);
      node.value += value;
    }
  }
  return whole;
}

function sorted(node) {
  return [...node.children.values()].sort((a, b) => b.value - a.value);
}

function pathOf(node) {
  return node.parent ? [...pathOf(node.parent), node.name] : [];
}

function sentence(node, whole, unit) {
  const share = whole.value > 0 ? percent(100 * node.value / whole.value) : "";
  return `${pathOf(node).join(" / ") || "All"}: ${human(node.value, unit)}, ${share} of all`;
}

// The second level tells the colours, as the first is often one name for everything.
function paintOf(node, look) {
  const path = pathOf(node);
  const name = path[Math.min(path.length, 2) - 1] ?? "";
  if (MUTED.test(name)) return look.muted;
  const sum = [...name].reduce((total, letter) => (total * 31 + letter.codePointAt(0)) % 9973, 7);
  return look.colors[sum % look.colors.length];
}

// Rings take the colour of the part of the whole that they belong to, by its name's order.
function paintOfRing(node, look) {
  let top = node;
  while (top.depth > 1) top = top.parent;
  const beside = [...top.parent.children.keys()].sort();
  if (beside.length < 2) return paintOf(node, look);
  return MUTED.test(top.name) ? look.muted : look.colors[beside.indexOf(top.name) % look.colors.length];
}

function made(kind, className) {
  const element = document.createElement(kind);
  element.className = className;
  return element;
}

function drawn(kind, attributes, parent) {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent?.append(element);
  return element;
}

function back(act) {
  const button = made("button", "tree-back");
  button.type = "button";
  button.textContent = "Show all";
  button.addEventListener("click", act);
  return button;
}

function listen(piece, node, acts) {
  piece.addEventListener("pointerenter", () => acts.tell(node));
  if (node.children.size) piece.addEventListener("click", () => acts.zoom(node));
}

function drawIcicle(focus, look, acts) {
  const svg = drawn("svg", { width: look.width, class: "tree" });
  let rows = 0;
  const lay = (node, left, width, row) => {
    rows = Math.max(rows, row + 1);
    block(svg, node, left, width, row, look, acts);
    let at = left;
    for (const child of sorted(node)) {
      const share = width * child.value / node.value;
      if (share < NARROWEST) break;
      lay(child, at, share, row + 1);
      at += share;
    }
  };
  lay(focus, 0, look.width, 0);
  svg.setAttribute("height", rows * ROW);
  return svg;
}

function block(svg, node, left, width, row, look, acts) {
  const fill = node.parent ? paintOf(node, look) : look.grid;
  const box = { x: left, y: row * ROW, width: Math.max(width - 1, 0.5), height: ROW - 1 };
  const piece = drawn("g", { class: "piece" }, svg);
  drawn("rect", { ...box, fill, "fill-opacity": node.parent ? 0.55 : 1, rx: 2 }, piece);
  const room = Math.floor((width - 8) / 6.6);
  if (room >= 3) {
    const at = { x: left + 5, y: row * ROW + 15, fill: look.text };
    drawn("text", at, piece).textContent = shortened(node.name, room);
  }
  listen(piece, node, acts);
}

function drawSunburst(focus, look, acts) {
  const size = Math.min(look.width, 460);
  const rings = Math.min(RINGS, depthOf(focus));
  const ring = size / 2 / (rings + 1);
  const box = `${-size / 2} ${-size / 2} ${size} ${size}`;
  const svg = drawn("svg", { width: size, height: size, viewBox: box, class: "tree round" });
  const lay = (node, from, angle, depth) => {
    if (depth > 0) slice(svg, node, from, angle, depth, ring, look, acts);
    if (depth === rings) return;
    let at = from;
    for (const child of sorted(node)) {
      const share = angle * child.value / node.value;
      if (share * ring * (depth + 1) < NARROWEST) break;
      lay(child, at, share, depth + 1);
      at += share;
    }
  };
  lay(focus, 0, 2 * Math.PI, 0);
  const middle = drawn("g", { class: "piece" }, svg);
  drawn("circle", { r: ring, fill: look.grid }, middle);
  const text = drawn("text", { "text-anchor": "middle", y: 4, fill: look.text }, middle);
  text.textContent = shortened(focus.name, Math.floor(ring * 2 / 7.5));
  middle.addEventListener("pointerenter", () => acts.tell(focus));
  if (focus.parent) middle.addEventListener("click", () => acts.zoom(focus.parent));
  return svg;
}

function slice(svg, node, from, angle, depth, ring, look, acts) {
  const piece = drawn("g", { class: "piece" }, svg);
  const opacity = Math.max(0.9 - 0.12 * (depth - 1), 0.3);
  drawn("path", { d: arc(from, Math.min(angle, 2 * Math.PI - 1e-4), ring * depth, ring * (depth + 1) - 1),
    fill: paintOfRing(node, look), "fill-opacity": opacity }, piece);
  name(piece, node, from + angle / 2, angle, ring * (depth + 0.5), ring, look);
  listen(piece, node, acts);
}

// A name stands level, where its part of the ring has room for some of it.
function name(piece, node, at, angle, radius, ring, look) {
  const along = 2 * radius * Math.sin(Math.min(angle, Math.PI) / 2);
  const room = Math.abs(Math.sin(at)) > 0.7 ? ring : along;
  const fits = Math.floor((room - 6) / 6.4);
  if (fits < 4 || along < 14) return;
  const place = { x: radius * Math.sin(at), y: 4 - radius * Math.cos(at), fill: look.text };
  drawn("text", { ...place, "text-anchor": "middle" }, piece).textContent = shortened(node.name, fits);
}

function depthOf(node) {
  return node.children.size ? 1 + Math.max(...[...node.children.values()].map(depthOf)) : 0;
}

// A part of a ring, clockwise from the top.
function arc(from, angle, inner, outer) {
  const point = (radius, at) => `${radius * Math.sin(at)} ${-radius * Math.cos(at)}`;
  const large = angle > Math.PI ? 1 : 0;
  const to = from + angle;
  return `M${point(outer, from)}A${outer} ${outer} 0 ${large} 1 ${point(outer, to)}`
    + `L${point(inner, to)}A${inner} ${inner} 0 ${large} 0 ${point(inner, from)}Z`;
}
