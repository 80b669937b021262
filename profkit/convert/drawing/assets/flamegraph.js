"use strict";
(function () {
  const CHARACTER = 7.3, svg = document.documentElement;
  const says = document.getElementById("says"), hint = says.textContent;
  const input = document.querySelector("foreignObject").firstElementChild;
  const frames = Array.from(document.querySelectorAll("g"), function (g) {
    const rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
    return {
      g: g, rect: rect, text: g.querySelector("text"), title: title.replace("\n", " - "),
      name: title.slice(0, title.indexOf("\n")), left: parseFloat(rect.getAttribute("x")),
      width: parseFloat(rect.getAttribute("width")), y: Number(rect.getAttribute("y"))
    };
  });
  const root = frames[0];
  let zoomed = root, found = "";

  // Everything is in percent of the whole, so only the texts depend on the window.
  function draw() {
    const scale = 100 / zoomed.width, end = zoomed.left + zoomed.width, slack = 1e-3;
    const pixels = svg.clientWidth || 1200;
    for (const frame of frames) {
      const above = frame.y < zoomed.y;
      const left = Math.max(frame.left, zoomed.left);
      const right = Math.min(frame.left + frame.width, end);
      const inside = above
        ? frame.left <= zoomed.left + slack && frame.left + frame.width >= end - slack
        : frame.left >= zoomed.left - slack && frame.left + frame.width <= end + slack;
      frame.g.classList.toggle("gone", !inside);
      frame.g.classList.toggle("above", inside && above);
      if (!inside) continue;
      const x = (left - zoomed.left) * scale, width = (right - left) * scale;
      frame.rect.setAttribute("x", x + "%");
      frame.rect.setAttribute("width", Math.max(width, 0) + "%");
      frame.text.setAttribute("x", x + "%");
      const room = Math.floor((pixels * width / 100 - 6) / CHARACTER);
      frame.text.textContent = frame.name.length <= room ? frame.name
        : room > 2 ? frame.name.slice(0, room - 1) + "\u2026" : "";
    }
  }

  function zoom(frame) { zoomed = frame; draw(); }

  function search() {
    let pattern = null;
    try { pattern = input.value ? new RegExp(input.value, "i") : null; } catch (error) {
      const plain = input.value.toLowerCase();
      pattern = { test: function (name) { return name.toLowerCase().includes(plain); } };
    }
    const spans = [];
    for (const frame of frames) {
      const hit = pattern !== null && frame !== root && pattern.test(frame.name);
      frame.g.classList.toggle("found", hit);
      if (hit) spans.push([frame.left, frame.left + frame.width]);
    }
    // The union: a frame below a match is not counted again.
    spans.sort(function (a, b) { return a[0] - b[0]; });
    let covered = 0, until = 0;
    for (const span of spans) {
      covered += Math.max(0, span[1] - Math.max(span[0], until));
      until = Math.max(until, span[1]);
    }
    found = pattern === null ? "" : covered.toFixed(2) + "% in " + spans.length + " frames";
    says.textContent = found || hint;
  }

  for (const frame of frames) {
    frame.g.addEventListener("click", function () { zoom(frame); });
    frame.g.addEventListener("mouseenter", function () { says.textContent = frame.title; });
    frame.g.addEventListener("mouseleave", function () { says.textContent = found || hint; });
    frame.g.addEventListener("keydown", function (event) {
      if (event.key === "Enter") zoom(frame);
    });
  }
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") zoom(root);
  });
  input.addEventListener("input", search);
  window.addEventListener("resize", draw);
  draw();
})();
