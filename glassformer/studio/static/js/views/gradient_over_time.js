// The vanishing gradient: the influence of each source token on the first decoder state, for all models of the studio.

import * as api from "../api.js";
import { controls, explanation, panel } from "../components.js";
import { choice, h } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { t } from "../i18n.js";
import { formatExact } from "../numbers.js";
import { range } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { tokenText } from "../tokens.js";
import { linePlot } from "./line_plot.js";

/** @import { GradientThroughTime, Trace } from "../types.js" */

const HUES = ["--query", "--key", "--value", "--weights", "--ff", "--positions", "--embedding", "--logits"];

/**
 * The panel is filled model by model, because each has to be loaded.
 *
 * @param {Trace} trace
 * @param {string[]} runs
 */
export function gradientOverTime(trace, runs) {
  const plot = h("div", {});
  const problems = h("div", {});
  /** @type {GradientThroughTime[]} */
  const found = [];
  let scale = "log";
  const redraw = () =>
    drawCurves(plot, found, scale, chosen => {
      scale = chosen;
      redraw();
    });
  const load = async () => {
    for (const run of runs.slice(0, HUES.length)) {
      try {
        found.push(await api.gradientThroughTime(run, trace.text));
      } catch (error) {
        problems.append(errorMessage(error)); // the other models can still be compared
        continue;
      }
      redraw();
    }
  };
  load();
  return panel(h("h2", {}, t("over time title")), explanation(t("over time says")), plot, problems);
}

/**
 * @param {HTMLElement} place
 * @param {GradientThroughTime[]} found
 * @param {string} scale  "log" or "linear"
 * @param {(scale: string) => void} onscale
 */
function drawCurves(place, found, scale, onscale) {
  const title = t(scale === "log" ? "over time log" : "over time linear");
  const relative = found.map(({ norms }) => norms.map(norm => norm / norms[0]));
  const series = found.map(({ run }, i) => ({
    name: run,
    hue: HUES[i],
    numbers: relative[i].map(ratio => (scale === "log" ? Math.log10(ratio) : ratio)),
  }));
  const most = Math.max(...found.map(({ norms }) => norms.length));
  const drawing = linePlot({
    series,
    title,
    axis: t("distance from end"),
    ends: ["0", String(most - 1)],
    dots: true,
  });
  const rows = range(most).map(k => [
    String(k),
    ...found.map(({ tokens }, i) =>
      k < tokens.length ? `${formatExact(relative[i][k])} ${tokenText(tokens[k])}` : "",
    ),
  ]);
  const columns = [t("distance from end"), ...found.map(({ run }) => run)];
  refillKeepingFocus(
    place,
    controls(
      choice(
        t("scale"),
        [
          ["log", t("scale log")],
          ["linear", t("scale linear")],
        ],
        scale,
        onscale,
      ),
    ),
    h("p", { class: "soft" }, title),
    drawing,
    foldedTable(() => dataTable(title, columns, rows)),
    exportButtons("gradient-over-time", {
      title,
      drawing: () => drawing,
      rows: () => [
        ["distance", ...found.map(({ run }) => run)],
        ...range(most).map(k => [k, ...relative.map(ratios => ratios[k] ?? "")]),
      ],
    }),
  );
}
