// The weight matrices that a tensor is computed from, such as W_Q, drawn when they are opened.

import * as api from "../api.js";
import { scrollBox, withArrowKeys } from "../components.js";
import { h } from "../dom.js";
import { heatmap } from "../heatmap.js";
import { t } from "../i18n.js";
import { cellSize } from "../ranges.js";
import { largestMagnitude } from "../vectors.js";

/** @import { Recipe, Trace, WeightOperand } from "../types.js" */

const MOST_NUMBERS = 2 ** 17; // of a matrix that is drawn

/**
 * @param {Trace} trace
 * @param {string} tensor
 * @param {Recipe} recipe
 * @param {number[]} at  the head that is shown, or none
 */
export function weightMatrices(trace, tensor, { weights }, at) {
  const shown = weights.filter(({ shape, symbol }) => symbol && size(shape) <= MOST_NUMBERS);
  if (!shown.length) return null;
  const details = h("details", { class: "weights" }, h("summary", {}, t("show weights", { names: names(shown) })));
  const load = async () => {
    if (!details.open || details.dataset.built) return;
    details.dataset.built = "yes";
    details.append(...(await Promise.all(shown.map(weight => weightFigure(trace, tensor, weight, at)))));
  };
  details.addEventListener("toggle", load);
  return details;
}

/** @param {number[]} shape */
const size = shape => shape.reduce((a, b) => a * b, 1);

/** @param {WeightOperand[]} weights */
const names = weights => weights.map(({ symbol, shape }) => `${symbol} (${shape.join(" × ")})`).join(", ");

/**
 * @param {Trace} trace
 * @param {string} tensor
 * @param {WeightOperand} weight
 * @param {number[]} at
 */
async function weightFigure(trace, tensor, { role, symbol, name }, at) {
  const { numbers, shape } = await api.weightMatrix(trace.id, tensor, role);
  const width = shape[shape.length - 1];
  const height = size(shape) / width;
  const [heads, , headWidth] = trace.tensors[tensor].length === 3 ? trace.tensors[tensor] : [1, 0, 0];
  const isSplit = at.length > 0 && heads > 1 && width === heads * headWidth;
  const title = `${symbol}, ${shape.join(" × ")}`;
  const map = heatmap({
    numbers,
    rows: height,
    columns: width,
    hue: "--residual",
    most: largestMagnitude(numbers),
    size: cellSize(480, width, 2, 22),
    label: withArrowKeys(title),
    numbered: false,
  });
  if (isSplit) {
    map.highlight([{ row: null, column: at[0] * headWidth, columns: headWidth }]);
  }
  return h(
    "figure",
    { class: "weight" },
    h(
      "figcaption",
      {},
      title,
      " ",
      h("code", { class: "exact-name" }, name),
      isSplit && ` ${t("marked head columns")}`,
    ),
    scrollBox(map),
  );
}
