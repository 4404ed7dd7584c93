// Logits, probabilities and their argmax with the words that their columns stand for.

import * as api from "../api.js";
import { explanation, scrollBox, withArrowKeys } from "../components.js";
import { h } from "../dom.js";
import { heatmap } from "../heatmap.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { formatExact } from "../numbers.js";
import { dataTable, foldedMatrix } from "../table.js";
import { OVER_VOCABULARY, tensorColour } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { largestMagnitude } from "../vectors.js";

/** @import { Trace } from "../types.js" */

const CELL = [44, 24]; // pixels

/**
 * The largest columns of logits or probabilities, with their words; the predicted words for the argmax.
 *
 * @param {Trace} trace
 * @param {string} tensor
 */
export async function predictionTable(trace, tensor) {
  const read = trace.target.length ? trace.target : trace.source;
  if (tensor === "argmax") return argmaxTable(read, trace.predicted);
  if (!OVER_VOCABULARY.includes(tensor)) return null;
  const { tokens, values } = await api.probableColumns(trace.id, tensor);
  const numbers = Float64Array.from(values.flat());
  const matrix = {
    numbers,
    rows: values.map((_, r) => (values.length === read.length ? tokenText(read[r]) : "")),
    columns: tokens.map(tokenText),
  };
  const title = t("probable columns", { name: tensorLabel(tensor) });
  const map = heatmap({
    ...matrix,
    hue: tensorColour(tensor),
    most: tensor === "probabilities" ? 1 : largestMagnitude(numbers),
    size: /** @type {[number, number]} */ (CELL),
    numbered: true,
    label: withArrowKeys(title),
  });
  return h(
    "div",
    {},
    h("h3", {}, title),
    explanation(t("probable says")),
    scrollBox(map),
    foldedMatrix(title, matrix, formatExact),
  );
}

/**
 * @param {string[]} read
 * @param {string[]} predicted
 */
const argmaxTable = (read, predicted) =>
  scrollBox(
    dataTable(
      t("tensor argmax"),
      [t("token"), t("most probable")],
      predicted.map((token, i) => [
        predicted.length === read.length ? tokenText(read[i]) : String(i + 1),
        tokenText(token),
      ]),
    ),
  );
