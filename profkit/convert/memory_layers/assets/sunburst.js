"use strict";
(function () {
  const states = JSON.parse(document.getElementById("data").textContent);
  const byId = function (id) { return document.getElementById(id); };
  const svg = byId("rings"), choice = byId("instant"), RINGS = 6, INNER = 52, WIDE = 40, SAG = 13;
  let root = null, centre = null, pattern = null;

  function bytes(value) {
    for (const unit of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
      if (value >= unit[0]) return (value / unit[0]).toPrecision(4) + " " + unit[1];
    }
    return value + " B";
  }
  // A node is [name, own bytes, children]; here with its sum, its parent and a colour.
  function planted(raw, parent, hue) {
    const node = { name: raw[0], own: raw[1], parent: parent, hue: hue, children: [] };
    node.children = raw[2].map(function (each, index) {
      const own = parent === null ? index * 360 / raw[2].length : hue + index * 23;
      return planted(each, node, own);
    });
    node.size = node.children.reduce(function (sum, each) { return sum + each.size; }, node.own);
    return node;
  }
  function path(node) {
    const names = [];
    for (let at = node; at.parent; at = at.parent) names.unshift(at.name);
    return names.join(" / ") || "all";
  }
  function told(node) {
    const share = root.size ? (100 * node.size / root.size).toFixed(1) + " % of all" : "nothing";
    const own = node.own && node.children.length ? ", " + bytes(node.own) + " its own" : "";
    return path(node) + ": " + bytes(node.size) + own + ", " + share;
  }
  function made(name, attributes, parent) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.keys(attributes).forEach(function (key) { element.setAttribute(key, attributes[key]); });
    parent.append(element);
    return element;
  }
  function at(radius, turn) {
    const angle = turn * 2 * Math.PI;
    return (radius * Math.sin(angle)).toFixed(2) + " " + (-radius * Math.cos(angle)).toFixed(2);
  }
  function ring(inner, outer, from, to) {
    // An arc that ends where it begins would be none.
    const end = Math.min(to, from + .9999), large = end - from > .5 ? 1 : 0;
    const out = outer + " " + outer + " 0 " + large + " 1 ";
    return "M" + at(outer, from) + "A" + out + at(outer, end) + "L" + at(inner, end)
      + "A" + inner + " " + inner + " 0 " + large + " 0 " + at(inner, from) + "Z";
  }
  function matches(node) {
    return pattern === null || pattern.test(path(node))
      || node.children.some(function (each) { return matches(each); });
  }
  function arc(node, depth, from, to) {
    const inner = INNER + (depth - 1) * WIDE, light = 52 + 5 * depth;
    const shape = made("path", {
      d: ring(inner, inner + WIDE, from, to), tabindex: 0,
      fill: "hsl(" + node.hue % 360 + " 55% " + light + "%)", class: matches(node) ? "" : "missed"
    }, svg);
    made("title", {}, shape).textContent = told(node);
    const show = function () { byId("says").textContent = told(node); };
    shape.addEventListener("mouseenter", show);
    shape.addEventListener("focus", show);
    const zoom = function () { if (node.children.length) { centre = node; draw(); } };
    shape.addEventListener("click", zoom);
    shape.addEventListener("keydown", function (event) { if (event.key === "Enter") zoom(); });
    label(node.name, inner + WIDE / 2, (from + to) / 2, (to - from) * 2 * Math.PI);
  }
  // Along the ring where its part is longer than wide, else across; straight either way.
  function label(name, radius, turn, angle) {
    const room = radius * angle;
    const chord = Math.min(room, 2 * Math.sqrt(2 * SAG * radius - SAG * SAG));
    const along = chord > WIDE, fits = Math.floor((along ? chord : WIDE) / 6.4);
    if (room <= 12) return;
    const flipped = along ? turn > .25 && turn < .75 : turn >= .5;
    const lean = turn * 360 - (along ? 0 : 90) + (flipped ? 180 : 0);
    const place = "translate(" + at(radius, turn) + ") rotate(" + lean.toFixed(1) + ")";
    const text = made("text", { transform: place, dy: "0.35em" }, svg);
    text.textContent = name.length > fits ? name.slice(0, fits - 1) + "\u2026" : name;
  }
  function lay(node, depth, from, scale) {
    if (depth > RINGS) return;
    let left = from;
    node.children.slice().sort(function (a, b) { return b.size - a.size; })
      .forEach(function (each) {
        const to = left + each.size * scale;
        if (to - left > 1 / 3000) {
          arc(each, depth, left, to);
          lay(each, depth + 1, left, scale);
        }
        left = to;
      });
  }
  function draw() {
    svg.replaceChildren();
    byId("says").textContent = told(centre);
    const hole = made("circle", { r: INNER - 2, tabindex: 0 }, svg);
    made("title", {}, hole).textContent = centre.parent ? "go back" : told(centre);
    const back = function () { if (centre.parent) { centre = centre.parent; draw(); } };
    hole.addEventListener("click", back);
    hole.addEventListener("keydown", function (event) { if (event.key === "Enter") back(); });
    const name = made("text", { class: "centre", y: -4 }, svg);
    name.textContent = centre.name.length > 13 ? centre.name.slice(0, 12) + "\u2026" : centre.name;
    made("text", { class: "centre", y: 12 }, svg).textContent = bytes(centre.size);
    if (centre.size) lay(centre, 1, 0, 1 / centre.size);
  }
  function choose() {
    root = centre = planted(states[choice.selectedIndex].tree, null, 0);
    draw();
  }
  choice.addEventListener("change", choose);
  byId("back").addEventListener("click", function () { centre = root; draw(); });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape" && root) { centre = root; draw(); }
  });
  byId("search").addEventListener("input", function () {
    const text = byId("search").value;
    try { pattern = text ? new RegExp(text, "i") : null; } catch (error) {
      const plain = text.toLowerCase();
      pattern = { test: function (name) { return name.toLowerCase().includes(plain); } };
    }
    if (root) draw();
  });
  states.forEach(function (state) {
    const option = document.createElement("option");
    option.textContent = state.name + " (" + bytes(state.size) + ")";
    choice.append(option);
  });
  if (!states.length) { byId("says").textContent = "Nothing of this was seen."; return; }
  const sizes = states.map(function (state) { return state.size; });
  choice.selectedIndex = sizes.indexOf(Math.max(...sizes));
  choose();
})();
