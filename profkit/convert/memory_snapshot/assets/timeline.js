"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = function (id) { return document.getElementById(id); };
  const canvas = byId("plot"), pen = canvas.getContext("2d"), LEFT = 74, BOTTOM = 22, TOP = 8;
  const count = Math.max(data.count, 1), drawn = data.size.length;
  let from = 0, to = count, byTime = false, hits = null, kept = null, boxes = [], shown = null;

  // Positions are entries of the history; the time of an entry is read between the edges of bins.
  function timeOf(entry) {
    const at = entry / count * (data.time.length - 1), low = Math.floor(at);
    const high = Math.min(low + 1, data.time.length - 1);
    return data.time[low] + (data.time[high] - data.time[low]) * (at - low);
  }
  function entryAt(time) {
    let low = 0, high = data.time.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (data.time[middle] <= time) low = middle; else high = middle;
    }
    const span = data.time[high] - data.time[low];
    return (low + (span > 0 ? (time - data.time[low]) / span : 0)) / (data.time.length - 1) * count;
  }
  function place(entry) { return byTime ? timeOf(entry) : entry; }
  function entryOf(place) { return byTime ? entryAt(place) : place; }

  function bytes(value) {
    for (const unit of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
      if (value >= unit[0]) return (value / unit[0]).toPrecision(4) + " " + unit[1];
    }
    return value + " B";
  }
  function moment(value) {
    return byTime ? value.toPrecision(5) + " ms" : "entry " + Math.round(value);
  }
  function frames(index) {
    return data.stacks[data.stack[index]].map(function (each) { return data.frames[each]; });
  }
  function hue(index) { return (data.stack[index] * 47) % 360; }
  function firstFrom(sorted, value) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }
  function restAt(entry) { return data.rest[Math.max(firstFrom(data.at, entry + 1) - 1, 0)]; }

  // A column of pixels shows one instant of its span: the one with the most memory that is known,
  // so that no peak is lost and nothing is piled up that did not live at the same time.
  function instants(columns) {
    const first = place(from), last = place(to), found = new Float64Array(columns);
    let bin = firstFrom(data.at, from);
    for (let c = 0; c < columns; c++) {
      const end = c + 1 < columns ? entryOf(first + (last - first) * (c + 1) / columns) : to;
      let best = -1;
      for (; bin < data.at.length && data.at[bin] < end; bin++) {
        if (best < 0 || data.whole[bin] > data.whole[best]) best = bin;
      }
      const start = Math.floor(entryOf(first + (last - first) * c / columns));
      found[c] = best < 0 ? Math.max(start, c ? found[c - 1] : 0) : data.at[best];
    }
    return found;
  }

  // Allocations are piled up by their start; columns of equal height become one box.
  function lay(columns) {
    const when = instants(columns), heap = when.map(restAt), rest = heap.slice(), found = [];
    for (let i = 0; i < drawn; i++) {
      const a = firstFrom(when, data.start[i]), b = firstFrom(when, data.end[i]);
      for (let c = a; c < b;) {
        const y = heap[c];
        let d = c;
        while (d < b && heap[d] === y) heap[d++] += data.size[i];
        found.push([i, c, d, y]);
        c = d;
      }
    }
    return { boxes: found, rest: rest, top: heap };
  }

  function ticks(limit, wanted) {
    const rough = limit / wanted, power = Math.pow(10, Math.floor(Math.log10(rough)));
    const size = [1, 2, 5, 10].map(function (k) { return k * power; })
      .find(function (k) { return k >= rough; });
    return size;
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * ratio; canvas.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const columns = Math.max(1, Math.floor(width - LEFT - 8)), laid = lay(columns);
    let most = 1;
    for (const each of laid.top) most = Math.max(most, each);
    const scale = (height - BOTTOM - TOP) / most;
    const y = function (value) { return height - BOTTOM - value * scale; };
    pen.fillStyle = "#9a9a9a";
    for (let c = 0; c < columns; c++) {
      pen.fillRect(LEFT + c, y(laid.rest[c]), 1, laid.rest[c] * scale);
    }
    for (const box of laid.boxes) {
      const i = box[0], hit = hits === null || hits[data.stack[i]], tall = data.size[i] * scale;
      pen.fillStyle = i === kept ? "#d01c8b"
        : "hsl(" + hue(i) + " " + (hit ? "60% 58%" : "8% 70%") + ")";
      const wide = box[2] - box[1];
      pen.fillRect(LEFT + box[1], y(box[3] + data.size[i]), wide, Math.max(tall - .4, .4));
    }
    boxes = laid.boxes; shown = { y: y, scale: scale, columns: columns, rest: laid.rest };
    axes(style, width, height, most, y);
  }

  function axes(style, width, height, most, y) {
    pen.strokeStyle = pen.fillStyle = style.getPropertyValue("--ink");
    pen.font = "11px system-ui, sans-serif"; pen.textAlign = "right"; pen.lineWidth = 1;
    const unit = [2 ** 30, 2 ** 20, 2 ** 10, 1].find(function (each) { return most >= each; });
    const size = ticks(most / unit, 6);
    for (let value = 0; value <= most / unit; value += size) {
      pen.fillText(bytes(value * unit).replace(/\.0+ /, " "), LEFT - 6, y(value * unit) + 4);
      pen.globalAlpha = .15; pen.fillRect(LEFT, y(value * unit), width - LEFT - 8, 1);
      pen.globalAlpha = 1;
    }
    const first = place(from), last = place(to);
    const room = width - LEFT - 8, span = last - first || 1;
    const along = function (position) { return LEFT + (position - first) / span * room; };
    const x = function (entry) { return along(place(entry)); };
    pen.textAlign = "center";
    const wide = ticks(span, 8);
    for (let at = Math.ceil(first / wide) * wide; at <= last; at += wide) {
      const text = byTime ? at.toPrecision(4) * 1 + " ms" : at.toLocaleString("en");
      pen.fillText(text, along(at), height - 6);
    }
    const line = function (entry, text, colour) {
      if (entry < from || entry > to) return;
      pen.fillStyle = colour; pen.fillRect(x(entry), TOP, 1, height - BOTTOM - TOP);
      pen.textAlign = "left"; pen.fillText(text, x(entry) + 3, TOP + 10);
    };
    pen.globalAlpha = .6;
    const dim = style.getPropertyValue("--dim");
    data.steps.forEach(function (each) { line(each[1], "step " + each[0], dim); });
    pen.globalAlpha = 1;
    if (data.count) line(data.peak, "peak", "#c0392b");
    data.oom.forEach(function (entry) { line(entry, "out of memory", "#c0392b"); });
  }

  function at(event) {
    const box = canvas.getBoundingClientRect(), c = Math.floor(event.clientX - box.left - LEFT);
    const value = (canvas.clientHeight - BOTTOM - (event.clientY - box.top)) / shown.scale;
    const found = boxes.find(function (each) {
      const above = value - each[3];
      return c >= each[1] && c < each[2] && above >= 0 && above < data.size[each[0]];
    });
    const first = place(from), last = place(to);
    const entry = entryOf(first + (last - first) * Math.min(Math.max(c / shown.columns, 0), 1));
    return { index: found ? found[0] : null, entry: entry };
  }

  function tell(index) {
    if (index === null) { byId("detail").textContent = ""; return; }
    const early = data.start[index] < 0;
    const live = early ? "before the history begins" : moment(place(data.start[index]));
    const end = data.end[index] >= count ? "still live at the end" : moment(place(data.end[index]));
    byId("detail").textContent = bytes(data.size[index]) + ", from " + live + " to " + end + "\n"
      + (data.note[index] ? data.note[index] + "\n" : "")
      + (frames(index).join("\n") || "(no stack recorded)");
  }

  function list(entry) {
    const live = [];
    for (let i = 0; i < drawn; i++) if (data.start[i] <= entry && data.end[i] > entry) live.push(i);
    const whole = live.reduce(function (sum, i) { return sum + data.size[i]; }, restAt(entry));
    live.sort(function (a, b) { return data.size[b] - data.size[a]; });
    document.querySelector("caption").textContent = "Live at " + moment(place(entry)) + ": "
      + bytes(whole) + ", largest first";
    byId("live").replaceChildren(...live.slice(0, 40).map(function (i) {
      const row = document.createElement("tr"), line = data.lines[data.stack[i]];
      const told = line || frames(i)[0] || data.note[i] || "(no stack recorded)";
      [bytes(data.size[i]), told].forEach(function (text) {
        const cell = document.createElement("td"); cell.textContent = text; row.append(cell);
      });
      row.addEventListener("click", function () { kept = i; tell(i); draw(); });
      return row;
    }));
  }

  function say() {
    const others = data.hidden.toLocaleString("en") + " smaller ones in grey";
    const hidden = data.hidden ? ", " + others : "";
    const largest = Math.max(0, ...data.whole);
    byId("says").textContent = "peak " + bytes(largest) + ", " + drawn.toLocaleString("en")
      + " allocations" + hidden + (data.count ? "" : "; no history was recorded");
  }

  function zoom(first, last) {
    const least = Math.min(count, 20);
    first = Math.max(0, first); last = Math.min(count, last);
    if (last - first < least) {
      first = Math.max(0, Math.min(first, count - least));
      last = first + least;
    }
    from = first; to = last; draw();
  }
  function scaled(factor, centre) {
    zoom(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }

  let pressed = null;
  canvas.addEventListener("mousemove", function (event) {
    if (kept === null) tell(at(event).index);
  });
  canvas.addEventListener("mousedown", function (event) { pressed = event.clientX; });
  canvas.addEventListener("mouseup", function (event) {
    if (pressed === null) return;
    const left = Math.min(pressed, event.clientX), right = Math.max(pressed, event.clientX);
    const y = event.clientY, moved = right - left > 5;
    pressed = null;
    const start = at({ clientX: left, clientY: y }), end = at({ clientX: right, clientY: y });
    if (moved) { zoom(start.entry, end.entry); return; }
    kept = kept === end.index ? null : end.index;
    tell(end.index); list(end.entry); draw();
  });
  canvas.addEventListener("dblclick", function () { kept = null; zoom(0, count); });
  canvas.addEventListener("wheel", function (event) {
    event.preventDefault(); scaled(event.deltaY > 0 ? 1.25 : .8, at(event).entry);
  }, { passive: false });
  canvas.addEventListener("keydown", function (event) {
    const span = to - from, centre = (from + to) / 2;
    if (event.key === "ArrowLeft") zoom(from - span / 5, to - span / 5);
    else if (event.key === "ArrowRight") zoom(from + span / 5, to + span / 5);
    else if (event.key === "+") scaled(.5, centre);
    else if (event.key === "-") scaled(2, centre);
    else if (event.key === "Escape") zoom(0, count);
  });
  byId("in").addEventListener("click", function () { scaled(.5, (from + to) / 2); });
  byId("out").addEventListener("click", function () { scaled(2, (from + to) / 2); });
  byId("all").addEventListener("click", function () { zoom(0, count); });
  byId("search").addEventListener("input", function () {
    const text = byId("search").value;
    let pattern = null;
    try { pattern = new RegExp(text, "i"); } catch (error) {
      const plain = text.toLowerCase();
      pattern = { test: function (name) { return name.toLowerCase().includes(plain); } };
    }
    const told = data.frames.map(function (name) { return pattern.test(name); });
    hits = !text ? null : data.stacks.map(function (each) {
      return each.some(function (frame) { return told[frame]; });
    });
    let found = 0, size = 0;
    for (let i = 0; hits && i < drawn; i++) if (hits[data.stack[i]]) {
      found += 1;
      if (data.start[i] <= data.peak && data.end[i] > data.peak) size += data.size[i];
    }
    const counted = found + " allocations, " + bytes(size) + " of them at the peak";
    if (hits) byId("says").textContent = counted; else say();
    draw();
  });
  const axis = byId("axis");
  function label() {
    axis.textContent = byTime ? "by entry" : "by time";
    axis.hidden = !data.time.length;
  }
  axis.addEventListener("click", function () { byTime = !byTime; label(); draw(); });
  window.addEventListener("resize", draw);
  label(); say(); draw(); list(data.peak);
})();
