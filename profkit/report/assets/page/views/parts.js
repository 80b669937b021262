// Pieces that several views show: numbers, commands, findings, verdicts.

import { whenSized } from "../drawings/sized.js";
import { element } from "../elements.js";
import { NOT_KNOWN, human, raw } from "../format.js";
import { claimButton, findingButton } from "./evidence.js";

/** @typedef {import("../model.js").Value} Value */
/** @typedef {import("../model.js").Finding} Finding */
/** @typedef {import("../model.js").Verdict} Verdict */
/** @typedef {import("../model.js").Action} Action */
/** @typedef {Node | string} Child */

const MARKS = { bad: "×", warn: "!", info: "i" };
const NAMES = { bad: "Problem", warn: "Warning", info: "Note" };

/**
 * A number in its human unit, with the recorded one behind it.
 * @param {Value} value
 * @param {string} unit
 * @returns {Child}
 */
export function number(value, unit) {
  if (value === null) return element("span", { class: "unknown" }, NOT_KNOWN);
  if (typeof value === "string") return value;
  return element("data", { class: "num", value, title: raw(value, unit) }, human(value, unit));
}

/** @param {import("../model.js").Link} link */
export function anchor({ text, href }) {
  return element("a", { href }, text);
}

/** @param {string} text @param {string} label */
export function command(text, label) {
  return element("div", { class: "command" },
    element("pre", { tabindex: 0, "aria-label": label }, text),
    element("button", { type: "button", class: "copy" }, "Copy"));
}

/**
 * Numbers side by side; those that are not known in a line below, with the reasons.
 * @param {import("../model.js").KeyNumber[]} numbers
 * @returns {HTMLElement[]}
 */
export function tiles(numbers) {
  /** @type {Map<string, string[]>} */
  const unknown = new Map();
  for (const { title, value, reason } of numbers) {
    if (value === null) unknown.set(reason, [...unknown.get(reason) ?? [], title]);
  }
  const known = numbers.filter(({ value }) => value !== null).map((shown) => {
    const { title, value, unit } = shown;
    const why = intervalOf(shown) || shown.reason;
    return element("div", { class: "tile" }, element("dt", {}, title),
      element("dd", { tabindex: 0 }, number(value, unit)),
      ...(why ? [element("dd", { class: "why" }, why)] : []));
  });
  return [...(known.length ? [element("dl", { class: "tiles" }, ...known)] : []),
    ...notKnown([...unknown].map(([reason, titles]) => ({ what: titles.join(", "), reason })))];
}

/**
 * What is not known, and why, in one place.
 * @param {import("../model.js").Abstention[]} missing
 * @returns {HTMLElement[]}
 */
export function notKnown(missing) {
  const texts = missing.map(({ what, reason }) => `${what}, because ${reason}`);
  return texts.length ? [element("div", { class: "abstention" }, element("b", {}, "Not known:"),
    ...(texts.length > 1 ? [element("ul", {}, ...texts.map((text) => element("li", {}, text)))]
      : [` ${texts[0]}`]))] : [];
}

/**
 * An interval wider than its number says nothing but that there is too little of it.
 * @param {import("../model.js").KeyNumber} shown
 */
function intervalOf({ value, unit, interval }) {
  if (!interval || typeof value !== "number") return "";
  const [low, high, confidence] = interval;
  if (high - low > Math.abs(value)) return "inconclusive: too few repeats for an interval";
  return `${human(confidence, "share")} interval ${human(low, unit)} to ${human(high, unit)}`;
}

/** @param {import("../model.js").Item[]} pairs */
export function items(pairs) {
  return element("dl", { class: "items" }, ...pairs.map(({ label, value, unit }) => (
    element("div", {}, element("dt", {}, label), element("dd", {}, number(value, unit))))));
}

/** @param {string} text @param {string} state */
export function status(text, state) {
  return element("span", { class: `status ${state === "ok" ? "ok" : "failed"}` }, text);
}

/** @param {Child} title @param {...Child} content */
export function drawer(title, ...content) {
  return element("details", { class: "drawer" },
    element("summary", {}, element("h3", {}, title)), ...content);
}

/** @param {string} summary @param {...Child} content */
export function explain(summary, ...content) {
  return element("details", { class: "explain" }, element("summary", {}, summary), ...content);
}

/** @param {string} level */
export function severity(level) {
  const known = level === "bad" || level === "warn" ? level : "info";
  return element("span", { class: `severity ${known}` },
    element("span", { "aria-hidden": "true", class: "mark" }, MARKS[known]), NAMES[known]);
}

/**
 * @param {Finding} shown
 * @param {Finding[]} others the same in other runs
 * @param {Child[]} where links to where it is from
 */
export function finding(shown, others, where) {
  const { value, unit, title } = shown.number;
  const made = element("div", { class: `finding ${shown.severity}` },
    element("div", { class: "finding-head" }, severity(shown.severity),
      element("span", { class: "metric", title }, number(value, unit))),
    element("p", { class: "message" }, ...withCode(shown.message)));
  if (shown.advice) {
    made.append(element("p", { class: "advice" }, element("b", {}, "Try:"), " ",
      ...withCode(shown.advice)));
  }
  made.append(...evidenceOf(shown));
  const about = where.flatMap((text) => [text, " "]);
  made.append(element("p", { class: "where" }, ...about, findingButton(shown)));
  if (others.length) made.append(same(others));
  return made;
}

/** @param {{evidence: import("../model.js").Item[]}} shown */
function evidenceOf({ evidence }) {
  return evidence.length ? [element("ul", { class: "evidence", "aria-label": "Evidence" },
    ...evidence.map(({ label, value, unit }) => element("li", {}, element("span", {}, label), " ",
      number(value, unit))))] : [];
}

/** @param {{gain: string}} shown */
function gainOf({ gain }) {
  return gain ? [element("b", {}, `${gain}:`), " "] : [];
}

/** @param {{confidence: string, source: string}} shown */
function sureOf({ confidence, source }) {
  return element("span", { class: "faint" }, `${confidence} confidence`, ...(source ? [", ",
    element("a", { href: source, rel: "noreferrer" }, "source")] : []));
}

/**
 * The same finding in other runs, listed when it is opened: there may be hundreds.
 * @param {Finding[]} others
 */
function same(others) {
  const list = element("ul");
  const places = others.length === 1 ? "place" : "places";
  const made = element("details", { class: "others" },
    element("summary", {}, `The same in ${others.length} more ${places}`), list);
  made.addEventListener("toggle", () => {
    list.replaceChildren(...others.map((other) => element("li", {}, severity(other.severity),
      ` ${other.message} `, element("a", { href: other.section.href }, other.run.text))));
  }, { once: true });
  return made;
}

/**
 * The rank whose causes the verdict tells, and of how many.
 * @param {import("../model.js").Drawn} drawn
 */
export function decisiveOf({ drawings }) {
  const data = drawings.find(({ kind }) => kind === "costs")?.data;
  return { rank: Number(data?.ranks[0] ?? 0), count: Number(data?.ranks_recorded ?? 1) };
}

/**
 * Why the confidence is no higher, each behind a space.
 * @param {Verdict} shown
 */
function doubtsOf(shown) {
  return shown.failed.flatMap((one) => [" ", element("span", { class: "cut" }, ...withCode(one))]);
}

/** @param {Verdict} shown @param {import("../model.js").Drawn} drawn */
export function verdict(shown, drawn) {
  const made = element("div", { class: "verdict" });
  if (shown.limiter) {
    made.append(element("p", { class: "headline" },
      element("b", { class: "limiter" }, shown.limiter), ` ${shown.headline}`));
  }
  if (shown.parts.length) {
    made.append(...stepBar(shown, drawn));
  }
  if (shown.is_disturbed) made.append(trust(shown));
  if (shown.actions.length) {
    made.append(element("ol", { class: "to-do" }, ...shown.actions.map(action)));
  }
  if (shown.nothing) made.append(element("p", {}, shown.nothing));
  for (const [at, other] of shown.others.entries()) {
    made.append(element("p", { class: shown.limiter ? "" : "headline" },
      element("b", { class: "limiter" }, other.title), " ",
      claimButton(`other~${at}`, { class: "thing what" }, other.headline)));
    if (other.advice) {
      made.append(element("p", {}, ...gainOf(other), ...withCode(other.advice), " ", sureOf(other),
        ...(shown.limiter ? [] : doubtsOf(shown))), ...evidenceOf(other));
    }
  }
  // Of memory or kernels alone, it stands beside the advice.
  const isBeside = !shown.limiter && shown.others.some(({ advice }) => advice);
  if (!shown.is_disturbed && !isBeside) made.append(trust(shown));
  return made;
}

/** How sure the verdict is, and why. @param {Verdict} shown */
function trust(shown) {
  return element("p", { class: "trust" }, element("b", {}, `Confidence ${shown.confidence}.`),
    ...doubtsOf(shown), ` ${shown.passed.join(" ")}`);
}

/**
 * The causes of a step side by side, and below them what has no room for its words.
 * @param {Verdict} shown
 * @param {import("../model.js").Drawn} drawn
 */
function stepBar(shown, drawn) {
  const bar = element("ol", { class: "step-bar", "aria-label": shown.of_step },
    ...shown.parts.map(part));
  const narrow = element("p", { class: "note" });
  whenSized(bar, () => {
    const words = [...bar.querySelectorAll("button")].filter(isCut).map((one) => one.textContent);
    const all = [...words, ...shown.small].join(", ");
    narrow.textContent = all && `Without room in the bar, from left to right: ${all}.`;
  });
  const { rank, count } = decisiveOf(drawn);
  const of = [];
  if (count > 1) of.push(`Causes and gains are those of rank ${rank} of ${count}.`);
  if (shown.about_step) of.push(shown.about_step);
  if (shown.actions.length > 1) {
    of.push("Gains are upper bounds of one action each; they do not add up.");
  }
  return of.length ? [bar, narrow, element("p", { class: "note" }, of.join(" "))] : [bar, narrow];
}

/** Whether there is no room for the words of an element. @param {HTMLElement} one */
function isCut({ scrollWidth, clientWidth }) {
  return scrollWidth > clientWidth;
}

/** @param {import("../model.js").StepPart} shown @param {number} at */
function part({ title, ms, share }, at) {
  const made = element("li", { title: `${title}: ${ms} ms` },
    claimButton(`part~${at}`, {}, title, ` ${ms} ms`));
  made.style.flexGrow = String(share);
  return made;
}

/** @param {Action} shown @param {number} at */
function action(shown, at) {
  const made = element("li", {}, ...gainOf(shown),
    claimButton(`action~${at}`, { class: "thing what" }, `${shown.title}.`), " ",
    ...withCode(shown.advice));
  if (shown.place && !shown.advice.includes(shown.place)) {
    made.append(" ", element("code", {}, shown.place));
  }
  made.append(" ", sureOf(shown), ...evidenceOf(shown));
  return made;
}

/**
 * A text in which what stands between backticks is code.
 * @param {string} text
 * @returns {Child[]}
 */
export function withCode(text) {
  return text.split(/\x60([^\x60]+)\x60/).map((piece, index) => (
    index % 2 ? element("code", {}, piece) : piece));
}
