import assert from "node:assert/strict";
import { test } from "node:test";

/** As much of an SVG element as a pen needs. */
class Shape {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [] });
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  append(...children) {
    this.children.push(...children);
  }
}
globalThis.document = { createElementNS: (_, tag) => new Shape(tag) };
const { SvgPen } = await import(
  "../../../profkit/report/assets/page/drawings/timeline_picture.js");

test("what a canvas would draw is SVG, at the place that it was moved to", () => {
  const into = new Shape("svg");
  const pen = new SvgPen(into);
  pen.translate(100, 0);
  pen.fillStyle = "red";
  pen.fillRect(1.26, 2, 3, 4);
  pen.globalAlpha = 0.5;
  pen.fillText("name", 5, 6);
  const [bar, text] = into.children;
  assert.deepEqual(bar.attributes, { x: "101.3", y: "2", width: "3", height: "4", fill: "red" });
  assert.deepEqual([text.children, text.attributes.x, text.attributes.opacity],
    [["name"], "105", "0.5"]);
});

test("a clip holds for what follows until it is restored", () => {
  const into = new Shape("svg");
  const pen = new SvgPen(into);
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, 10, 5);
  pen.clip();
  pen.beginPath();
  pen.moveTo(0, 0);
  pen.lineTo(9, 9);
  pen.stroke();
  pen.restore();
  pen.fillRect(0, 0, 1, 1);
  const [clip, group, rect] = into.children;
  assert.equal(group.attributes["clip-path"], `url(#${clip.attributes.id})`);
  assert.equal(clip.children[0].attributes.d, "M0 0h10v5H0Z");
  assert.equal(group.children[0].attributes.d, "M0 0L9 9");
  assert.equal(rect.tag, "rect");
});
