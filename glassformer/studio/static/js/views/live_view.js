// A view of the studio inside a lesson: the page itself in a frame.

import { EMBEDDED_PATH, link } from "../address.js";
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { codeBox } from "./code_box.js";
import { withCode } from "./markdown.js";

/** @import { LessonAddress, LessonView, Run } from "../types.js" */

const DEMO = "demo";
const COMMANDS = "glassformer lessons\nglassformer studio runs/lessons/*";
const RUN_PARAMETERS = ["run", "other"]; // parameters of an address that name a run

/**
 * Return an address for the runs of this studio, and the runs that it lacks. If there is only one run, a Transformer,
 * then it takes the place of the demo.
 *
 * @param {LessonAddress} address
 * @param {Run[]} runs
 */
export function addressForRuns(address, runs) {
  const names = new Set(runs.map(run => run.name));
  const found = { ...address };
  const isSubstitute = runs.length === 1 && runs[0].family === "transformer";
  if (found.run === DEMO && isSubstitute) found.run = runs[0].name;
  const needed = RUN_PARAMETERS.flatMap(parameter => (parameter in found ? [String(found[parameter])] : []));
  return { address: found, missing: needed.filter(name => !names.has(name)) };
}

/**
 * @param {LessonView} view
 * @param {Run[]} runs
 */
export function liveView({ caption, address: wanted }, runs) {
  const { address, missing } = addressForRuns(wanted, runs);
  const text = h("p", {}, withCode(caption));
  if (missing.length) return h("figure", { class: "live" }, text, missingRuns(missing));
  const href = link(address);
  return h(
    "figure",
    { class: "live" },
    h("figcaption", {}, text, h("a", { href, target: "_blank", rel: "noopener" }, t("open in full page"))),
    h("iframe", { src: `${EMBEDDED_PATH}${href}`, loading: "lazy", title: text.textContent }),
  );
}

/** @param {string[]} names */
const missingRuns = names =>
  h(
    "div",
    { class: "notice" },
    h("p", {}, t("lesson needs runs", { names: names.join(", ") })),
    codeBox(t("command line"), COMMANDS),
  );
