// The end of multi-head attention: the outputs of all heads side by side × W_O = attention output.

import * as api from "../api.js";
import { explanation, withArrowKeys } from "../components.js";
import { h } from "../dom.js";
import { heatmap } from "../heatmap.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { tensorColour } from "../tensor_names.js";
import { largestMagnitude } from "../vectors.js";

/** @import { CellIndex, Trace } from "../types.js" */
/** @import { WorksheetState } from "./tensor.js" */
/** @typedef {{ numbers: ArrayLike<number>, rows: number, columns: number }} Drawn */

const MOST_WEIGHTS = 2 ** 20; // numbers of a weight matrix that the server sends
const HEIGHT = 120; // pixels of a matrix, at most
const WIDTH = 150;
const LARGEST_CELL = 18;

/**
 * @param {Trace} trace
 * @param {{ heads: string, output: string }} names  the tensors of the head outputs and of the attention output
 * @param {number} head  the head that is shown
 * @param {(changes: Partial<WorksheetState>) => void} redraw
 * @returns {Promise<HTMLElement | null>}  null if W_O is too large, or the block has none
 */
export async function concatenatedHeads(trace, names, head, redraw) {
  const [count, rows, width] = trace.tensors[names.heads];
  const { weights } = await api.recipe(trace.id, names.output);
  const weight = weights.find(({ symbol }) => symbol === "W_O");
  if (!weight || weight.shape[0] * weight.shape[1] > MOST_WEIGHTS) return null;
  const [heads, matrix, output] = await Promise.all([
    api.tensorValues(trace.id, names.heads),
    api.weightMatrix(trace.id, names.output, weight.role),
    api.tensorValues(trace.id, names.output),
  ]);
  const columns = count * width;
  const sideBySide = Float32Array.from({ length: rows * columns }, (_, i) => {
    const [r, c] = [Math.floor(i / columns), i % columns];
    return heads.numbers[(Math.floor(c / width) * rows + r) * width + (c % width)];
  });
  const own = { row: null, column: head * width, columns: width };
  const markOperands = /** @param {CellIndex | null} cell */ cell => {
    concatenation.highlight(cell ? [{ row: cell[0], column: null }] : [own]);
    projection.highlight(cell ? [{ row: null, column: cell[1] }] : []);
  };
  const concatenation = map("Concat", names.heads, { numbers: sideBySide, rows, columns }, null, ([r, c]) => {
    const chosen = Math.floor(c / width);
    redraw({ tensor: names.heads, head: chosen, row: 0, cell: [chosen, r, c % width] });
  });
  const projection = map("W_O", "", { numbers: matrix.numbers, rows: weight.shape[0], columns: weight.shape[1] }, null);
  const size = { numbers: output.numbers, rows: output.shape[0], columns: output.shape[1] };
  const result = map(tensorLabel(names.output), names.output, size, markOperands, cell =>
    redraw({ tensor: names.output, row: 0, cell }),
  );
  markOperands(null);
  return h(
    "div",
    { class: "concatenation" },
    explanation(t("concat says", { heads: count, width, columns, head: head + 1 })),
    h(
      "div",
      { class: "equation scroll" },
      figure("", concatenation, "Concat", [rows, columns]),
      figure("×", projection, "W_O", weight.shape),
      figure(weights.length > 1 ? "+ b_O =" : "=", result, tensorLabel(names.output), [rows, size.columns]),
    ),
  );
}

/**
 * @param {string} operator  before the matrix
 * @param {HTMLElement} drawing
 * @param {string} name
 * @param {number[]} shape
 */
const figure = (operator, drawing, name, shape) =>
  h(
    "div",
    { class: "term" },
    operator && h("span", { class: "operator" }, operator),
    h(
      "figure",
      { class: "matrix" },
      drawing,
      h("figcaption", {}, name, " ", h("span", { class: "soft" }, shape.join(" × "))),
    ),
  );

/**
 * @param {string} label
 * @param {string} tensor  that it has the colour of
 * @param {Drawn} matrix
 * @param {((cell: CellIndex | null) => void) | null} onhover
 * @param {(cell: CellIndex) => void} [onchoose]
 */
const map = (label, tensor, { numbers, rows, columns }, onhover, onchoose) =>
  heatmap({
    numbers,
    rows,
    columns,
    hue: tensorColour(tensor),
    most: largestMagnitude(numbers),
    size: [Math.min(LARGEST_CELL, WIDTH / columns), Math.min(LARGEST_CELL, HEIGHT / rows)],
    numbered: false,
    label: withArrowKeys(label),
    onhover: onhover ?? undefined,
    onchoose,
  });
