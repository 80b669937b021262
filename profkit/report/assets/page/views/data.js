// How a run was made, and the files that it left.

import { element } from "../elements.js";
import { anchor, command, drawer, items, notKnown, number, status } from "./parts.js";
import { plainTable, silent } from "./sections.js";

/** @typedef {import("../model.js").Run} Run */
/** @typedef {import("../model.js").OpenFile} OpenFile */

/**
 * @param {Run} run
 * @param {import("../model.js").Section[]} unknown what is not known beyond it
 * @returns {Node[]}
 */
export function data(run, unknown) {
  const made = element("section", { class: "analysis", id: `${run.anchor}-how` },
    element("h2", {}, "How this run was made"), element("p", { class: "name" }, run.name),
    command(run.command, "Command that makes this run again"), captures(run));
  if (run.viewable.length) {
    made.append(drawer("Traces and flame graphs", element("ul", { class: "files" },
      ...run.viewable.map(file))));
  }
  made.append(drawer("Raw files", ...run.folders.flatMap(({ link, files, hidden }) => [
    element("p", { class: "folder" }, anchor({ text: `${link.text}/`, href: `${link.href}/` })),
    element("ul", { class: "files" }, ...files.map(file),
      ...(hidden ? [element("li", { class: "faint" }, `${hidden} more in the folder`)] : [])),
  ])));
  made.append(drawer("Configuration", command(run.configuration, "Configuration of the run")));
  for (const [title, pairs] of run.manifest) made.append(drawer(title, items(pairs)));
  for (const { title, text } of run.listings) made.append(drawer(title, command(text, title)));
  const sections = [...run.silent, ...unknown];
  if (sections.length) made.append(silent(sections));
  return [made];
}

/** @param {OpenFile} shown */
function file({ link, size_bytes: size, opens_with: viewer }) {
  const made = element("span", { class: "faint" }, number(size, "bytes"));
  if (viewer) made.append(` · open with ${viewer}`);
  return element("li", {}, anchor(link), " ", made);
}

/** @param {Run} run */
function captures(run) {
  if (run.captures.length === 0) {
    return notKnown([{ what: "how the captures went",
      reason: "no capture left a capture.json" }])[0];
  }
  const heads = ["Tool", "Repeat", "Status", "Took", "Exit code", "Started", "Files"];
  return plainTable("Captures", heads, run.captures.map((attempt) => [
    attempt.tool, String(attempt.repeat),
    element("span", {}, status(attempt.status, attempt.status), ` ${attempt.reason}`),
    number(attempt.elapsed_s, "s"),
    number(attempt.exit_code, "id"),
    attempt.started.slice(0, 19).replace("T", " "),
    anchor({ text: attempt.folder.text, href: `${attempt.folder.href}/` }),
  ]));
}
