// The attention of a recurrent decoder: energies e_ij → softmax → weights α_ij → context vector c_i.

import { replaceAddress, wholeNumber, readAddress } from "../address.js";
import * as api from "../api.js";
import { controls, explanation, panel, scrollBox, withArrowKeys } from "../components.js";
import { h, labelled, refill, select } from "../dom.js";
import { heatmap, hiddenCanvas, paint } from "../heatmap.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { formatExact, formatShort } from "../numbers.js";
import { cellSize } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { inputAndPrediction, tokenText } from "../tokens.js";
import { largestMagnitude, row as matrixRow } from "../vectors.js";
import { barItem, barTrack } from "./bars.js";

/** @import { Alignment, Trace } from "../types.js" */
/** @typedef {(tensor: string, cell?: number[]) => void} Open */

/**
 * @param {Trace} trace
 * @param {Alignment} alignment
 * @param {Open} open
 */
export async function alignmentPanel(trace, alignment, open) {
  const names = [alignment.energies, alignment.weights, alignment.context];
  const [energies, weights, context] = await Promise.all(names.map(name => api.tensorValues(trace.id, name, [0])));
  const rows = trace.target.map((token, i) => inputAndPrediction(token, trace.written[i]));
  const columns = trace.source.map(tokenText);
  const onestep = h("div", {});
  let step = Math.min(wholeNumber(readAddress().step, 0), rows.length - 1);
  const show = (/** @type {number} */ chosen) => {
    step = chosen;
    drawStep(
      onestep,
      { columns, energies: energies.numbers, weights: weights.numbers, context: context.numbers },
      step,
    );
  };
  /** @type {(name: string, numbers: Float32Array, hue: string) => HTMLElement} */
  const map = (name, numbers, hue) =>
    h(
      "figure",
      {},
      h("figcaption", {}, tensorLabel(name)),
      scrollBox(
        heatmap({
          numbers,
          rows,
          columns,
          hue,
          most: largestMagnitude(numbers),
          size: cellSize(260, columns.length, 12, 26),
          label: withArrowKeys(tensorLabel(name)),
          onchoose: ([r, c]) => {
            choose(r);
            open(name, [0, r, c]);
          },
        }),
      ),
    );
  const chooser = select(
    rows.map((name, i) => [i, `${i + 1}: ${name}`]),
    step,
    chosen => choose(Number(chosen)),
  );
  const choose = (/** @type {number} */ chosen) => {
    chooser.value = String(chosen);
    replaceAddress({ step: chosen });
    show(chosen);
  };
  show(step);
  return panel(
    h("h2", {}, t(`alignment ${alignment.kind}`)),
    explanation(t(`alignment ${alignment.kind} says`)),
    h(
      "div",
      { class: "masks" },
      map(alignment.energies, energies.numbers, "--query"),
      map(alignment.weights, weights.numbers, "--weights"),
    ),
    controls(labelled(t("decoder step"), chooser)),
    onestep,
  );
}

/**
 * One decoder step: energy and weight of each source token, and the context vector.
 *
 * @param {HTMLElement} place
 * @param {{ columns: string[], energies: Float32Array, weights: Float32Array, context: Float32Array }} matrices
 * @param {number} step
 */
function drawStep(place, { columns, energies, weights, context }, step) {
  const width = columns.length;
  const e = matrixRow(energies, width, step);
  const alpha = matrixRow(weights, width, step);
  const vector = matrixRow(context, context.length / (weights.length / width), step);
  const strip = paint(hiddenCanvas("strip"), vector, 1, vector.length, {
    hue: "--value",
    most: largestMagnitude(vector),
  });
  const title = t("step of alignment", { i: step + 1 });
  refill(
    place,
    h("h3", {}, title),
    h(
      "ol",
      { class: "bars energies" },
      columns.map((name, j) =>
        barItem(
          name,
          barTrack(alpha[j], "weights"),
          `e ${formatShort(e[j])} → α ${formatShort(alpha[j])}`,
          formatExact(alpha[j]),
        ),
      ),
    ),
    h("p", { class: "formula" }, "c", h("sub", {}, step + 1), " = Σ α·h = ", strip),
    foldedTable(() =>
      dataTable(
        title,
        [t("token"), "e", "α"],
        columns.map((name, j) => [name, formatExact(e[j]), formatExact(alpha[j])]),
      ),
    ),
  );
}
