// The activation function of a feed-forward network: x·W_1 + b_1 before it, the activations after it.

import * as api from "../api.js";
import { explanation, scrollBox, withArrowKeys } from "../components.js";
import { h } from "../dom.js";
import { heatmap } from "../heatmap.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { formatCount, formatPercent } from "../numbers.js";
import { lastPart, tensorColour } from "../tensor_names.js";
import { largestMagnitude, pairwiseDotProducts, transpose } from "../vectors.js";

/** @import { Block, CellIndex, Trace } from "../types.js" */
/** @import { WorksheetState } from "./tensor.js" */

/** @type {Record<string, string>} */
const NAMES = { relu: "ReLU", gelu: "GELU", gelu_tanh: "GELU", swish: "Swish" };
const MOST_NUMBERS = 2 ** 17; // of the activations
const WIDTH = 520; // pixels of a matrix, about
const HEIGHT = 110;
const LARGEST_CELL = 18;

/**
 * @param {Trace} trace
 * @param {Block} block
 * @param {(changes: Partial<WorksheetState>) => void} redraw
 * @returns {Promise<HTMLElement | null>}  null if the network has another form, or is large
 */
export async function activationSteps(trace, block, redraw) {
  const tensor = block.tensors.find(name => lastPart(name) === "activations");
  if (!tensor) return null;
  const [rows, columns] = trace.tensors[tensor];
  const { activation, parents, weights } = await api.recipe(trace.id, tensor);
  if (!activation || parents.length !== 1 || rows * columns > MOST_NUMBERS) return null;
  const [after, x, ...parameters] = await Promise.all([
    api.tensorValues(trace.id, tensor),
    api.tensorValues(trace.id, parents[0]),
    ...weights.map(({ role }) => api.weightMatrix(trace.id, tensor, role)),
  ]);
  const before = linear(x, parameters[0].numbers, parameters[1].numbers, columns);
  const choose = /** @param {CellIndex} cell */ cell => redraw({ tensor, row: 0, cell });
  const maps = [
    { label: t("before activation"), numbers: before, tensor: "" },
    { label: tensorLabel(tensor), numbers: after.numbers, tensor },
  ].map(({ label, numbers, tensor: coloured }, i) =>
    heatmap({
      numbers,
      rows,
      columns,
      hue: tensorColour(coloured),
      most: largestMagnitude(numbers),
      size: [Math.min(LARGEST_CELL, WIDTH / columns), Math.min(LARGEST_CELL, HEIGHT / rows)],
      numbered: false,
      label: withArrowKeys(label),
      onhover: cell => maps[1 - i].highlight(cell ? [{ row: cell[0], column: cell[1] }] : []),
      onchoose: choose,
    }),
  );
  const name = NAMES[activation];
  const zeros = after.numbers.filter(value => value === 0).length;
  const counts = {
    zeros: formatCount(zeros),
    n: formatCount(rows * columns),
    share: formatPercent(zeros / (rows * columns)),
  };
  return h(
    "div",
    { class: "activation" },
    h("p", { class: "formula" }, `x·W_1 + b_1 → ${name} → ${tensorLabel(tensor)}`),
    scrollBox(
      h("p", { class: "soft" }, t("before activation")),
      maps[0],
      h("p", { class: "soft" }, t("after activation", { name })),
      maps[1],
    ),
    explanation(activation === "relu" ? t("relu says", counts) : t("activation says", { name })),
  );
}

/**
 * x·W + b.
 *
 * @param {{ numbers: Float32Array, shape: number[] }} x
 * @param {Float32Array} weight
 * @param {Float32Array} bias
 * @param {number} columns  of the weight
 */
function linear(x, weight, bias, columns) {
  const inner = x.shape[x.shape.length - 1];
  const product = pairwiseDotProducts(x.numbers, transpose(weight, columns), inner);
  return Float64Array.from(product, (value, i) => value + bias[i % columns]);
}
