// The first screen: what limits the run, what to do, and what went wrong.

import { miniTimeline } from "../drawings/mini.js";
import { stateNow } from "../drawings/state.js";
import { element } from "../elements.js";
import { chosenWords, filterIn, filtersOf } from "../filters.js";
import { hashOf } from "../route.js";
import { evidencePlaces } from "./evidence.js";
import {
  anchor, command, decisiveOf, drawer, explain, finding, items, status, tiles, verdict,
} from "./parts.js";
import { tables } from "./sections.js";

/** @typedef {import("../model.js").Report} Report */
/** @typedef {import("../model.js").Run} Run */
/** @typedef {import("../model.js").Problem} Problem */

/**
 * @param {Report} report
 * @param {Run} run
 * @returns {Node[]}
 */
export function overview(report, run) {
  const alone = report.runs.length === 1;
  const made = [...answers(report), head(report, run, alone)];
  const chosen = chosenWords(stateNow());
  if (chosen) {
    made.push(element("p", { class: "note cut" }, `Only ${chosen} in tables, charts and drawings; `
      + "verdict, numbers and findings are of the whole run."));
  }
  const index = report.runs.findIndex(({ anchor: at }) => at === run.anchor);
  if (run.verdict) made.push(verdict(run.verdict, run.drawn), ...evidencePlaces(index));
  const unknown = run.numbers.filter(({ value }) => value === null);
  made.push(...tiles(run.numbers.filter((shown) => !unknown.includes(shown))));
  const timeline = run.drawn.drawings.find(({ kind }) => kind === "timeline");
  if (timeline?.data && timeline.details.length) {
    const href = hashOf({ view: "timeline", run: index, at: "", state: filtersOf(stateNow()) });
    const asked = filterIn(stateNow(), "rank");
    const decisive = asked ? Number(asked) : decisiveOf(run.drawn).rank;
    made.push(miniTimeline({ ...timeline, data: timeline.data }, decisive, href));
  }
  made.push(...tiles(unknown));
  if (!alone) {
    made.push(element("section", { id: "runs" }, element("h2", {}, "All runs"),
      tables([report.overview.tables[0]], "h3")));
  }
  if (report.problems.length) made.push(problems(report));
  if (report.findings.length) made.push(findings(report, alone));
  made.push(about(report));
  return made;
}

/**
 * What two runs differ by, where the report was made to compare them.
 * @param {Report} report
 */
function answers({ across }) {
  return across.sections.filter(({ is_answer }) => is_answer).map((one) => (
    element("section", {}, element("h2", {}, element("a", { href: `#${one.anchor}` }, one.title)),
      ...one.findings.map(({ message }) => element("p", { class: "lead" }, message)))));
}

/** @param {Report} report @param {Run} run @param {boolean} alone */
function head(report, run, alone) {
  const made = element("section", { id: run.anchor, class: "top" },
    element("h2", {}, alone ? "What limits this run" : run.label),
    element("p", { class: "facts" }, ...run.ran.map((text) => element("span", {}, text))),
    element("p", { class: "statuses" }, ...run.statuses.flatMap(({ label, value, unit }) => [
      status(`${label} ${value}`, unit), " "])));
  if (report.problems.length) {
    const job = report.problems.every(({ stage }) => stage === "capture") ? "capture" : "job";
    const count = report.problems.length;
    const what = report.problems.every((one) => one.status === "skipped") ? "skipped" : "failed";
    made.append(element("p", { class: "banner failed" },
      element("b", {}, `${count} ${job}${count === 1 ? "" : "s"} ${what}.`),
      " What would come of that is missing here. ",
      element("a", { href: "#problems" }, "See why")));
  }
  return made;
}

/** @param {Report} report @param {boolean} alone */
function findings(report, alone) {
  const shown = report.findings.map(({ first, others }) => {
    const where = [anchor(first.section)];
    return element("li", {}, finding(first, others,
      alone ? where : [...where, " of ", anchor(first.run)]));
  });
  return element("section", { id: "findings" }, element("h2", {}, "Findings"),
    ...folded(shown, report, (some) => element("ol", { class: "findings" }, ...some)));
}

/** @param {Report} report */
function problems(report) {
  return element("section", { id: "problems" }, element("h2", {}, "Failures"),
    ...folded(report.problems.map(problem), report, (some) => element("div", {}, ...some)));
}

/**
 * The first of them, and the rest behind a fold.
 * @param {Node[]} all
 * @param {Report} report
 * @param {(some: Node[]) => Node} listed
 */
function folded(all, { findings_on_top: most }, listed) {
  const rest = all.slice(most);
  return [listed(all.slice(0, most)),
    ...(rest.length ? [drawer(`${rest.length} more`, listed(rest))] : [])];
}

/** @param {Problem} failed */
function problem(failed) {
  const repeat = failed.repeat === null ? "" : `, repeat ${failed.repeat}`;
  const code = failed.exit_code === null ? "" : ` · exit code ${failed.exit_code}`;
  const made = element("div", { class: "problem" },
    element("p", { class: "problem-head" }, status(failed.status, failed.status),
      ` ${failed.stage} `, element("b", {}, failed.tool), `${repeat}, of `, anchor(failed.run)),
    element("p", { class: "message" }, failed.reason || "No reason was recorded."),
    element("p", { class: "faint" }, `attempt ${failed.attempt}${code} · `, anchor(failed.folder)));
  if (failed.command) made.append(explain("Command", command(failed.command, "Command")));
  if (failed.log_tail) {
    made.append(explain("End of the log",
      element("pre", { class: "log", tabindex: 0 }, failed.log_tail)));
  }
  return made;
}

/** @param {Report} report */
function about(report) {
  const facts = [`${report.runs.length} ${report.runs.length === 1 ? "run" : "runs"}`,
    report.captured && `captured ${report.captured}`, `page made ${report.made}`,
    `profkit ${report.version}`].filter(Boolean);
  const made = element("section", { id: "about" }, element("h2", {}, "About this report"),
    element("p", { class: "facts" }, ...facts.map((text) => element("span", {}, text))));
  for (const machine of report.machines) {
    made.append(element("details", { class: "machine" },
      element("summary", {}, machine.title), items(machine.items)));
  }
  if (report.command) {
    made.append(command(report.command, "Command that makes this report again"));
  }
  const texts = [...report.cuts, ...report.notes, ...report.differences];
  if (texts.length + report.remarks.length) made.append(notes(texts, report.remarks));
  return made;
}

/** @param {string[]} texts @param {import("../model.js").Remark[]} remarks */
function notes(texts, remarks) {
  const count = texts.length + remarks.length;
  return element("details", { class: "drawer", id: "notes" },
    element("summary", {}, element("h3", {}, "Notes on the data ",
      element("span", { class: "badge" }, String(count)))),
    element("ul", { class: "remarks" },
      ...texts.map((text) => element("li", {}, text)),
      ...remarks.map(({ tool, text, runs }) => element("li", {}, element("b", {}, tool),
        `: ${text}`, explain(runs.length === 1 ? "in 1 run" : `in ${runs.length} runs`,
          element("ul", {}, ...runs.map(({ run, files }) => element("li", {}, anchor(run),
            `: ${files.slice(0, 12).join(", ")}${more(files.length - 12)}`))))))));
}

/** @param {number} count */
function more(count) {
  return count > 0 ? ` and ${count} more` : "";
}
