// One tensor of the worksheet.

import * as api from "../api.js";
import { controls, emptyMessage, explanation, scrollBox, withArrowKeys } from "../components.js";
import { copyButton } from "../copying.js";
import { choice, h, refill, select } from "../dom.js";
import { exportButtons } from "../export.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { blockPlace, headLabel, tensorLabel } from "../labels.js";
import { formatCsv, formatExact } from "../numbers.js";
import { cellSize, countedNames, indexOptions } from "../ranges.js";
import { foldedMatrix, matrixRows } from "../table.js";
import {
  OVER_VOCABULARY,
  READ_FROM_SOURCE,
  TOKEN_BY_TOKEN,
  isReversed,
  lastPart,
  tensorColour,
} from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { hasNegative, largestMagnitude } from "../vectors.js";
import { predictionTable } from "./prediction.js";
import { drawCell } from "./tensor_cell.js";
import { weightMatrices } from "./weight_matrices.js";

/** @import { CellIndex, Recipe, Trace } from "../types.js" */
/** @import { Axis } from "../heatmap.js" */
/**
 * @typedef {object} WorksheetState
 * @property {boolean} wide  whether the panel of numbers has the full width of the page
 * @property {number} layer
 * @property {string | undefined} block
 * @property {string | undefined} tensor
 * @property {number} head
 * @property {number} row
 * @property {number[] | null} cell  all indices of the chosen cell
 */
/**
 * @typedef {object} WorksheetActions
 * @property {(changes: Partial<WorksheetState>) => void} redraw  show another tensor or another part of it
 * @property {(changes: Partial<WorksheetState>) => void} choose  note what is chosen in the tensor that is shown
 */
/**
 * @typedef {object} Part  what is shown of a tensor
 * @property {number[]} at  the first indices: the head, or none
 * @property {number | null} row  the row, if only one row of a large tensor is shown
 * @property {Float32Array} numbers
 * @property {Axis} rows
 * @property {Axis} columns
 * @property {string[]} rowNames  names of all rows, also if only one is shown
 */

const MOST_NUMBERS = 2 ** 17; // of a larger matrix only one row is fetched
const NUMBERS_PER_LINE = 128; // of a single row, which is broken into lines
const MOST_DRAWN_CELLS = 20_000; // in an exported drawing
const SMALLEST_NAMED_CELL = 12; // pixels

/** @param {Axis} axis */
const axisNames = axis => (typeof axis === "number" ? countedNames(axis) : axis);

/**
 * The tokens that the rows and columns of a tensor stand for; only the length of an axis that stands for features.
 *
 * @param {Trace} trace
 * @param {string} fullName
 * @param {number} height
 * @param {number} width
 * @returns {{ rows: Axis, columns: Axis }}
 */
function axesOf(trace, fullName, height, width) {
  const name = fullName.replace(/^gradient\./, ""); // a gradient has the axes of its tensor
  const target = trace.target.map(tokenText);
  const source = (isReversed(name) ? trace.source.toReversed() : trace.source).map(tokenText);
  const decodes = name.startsWith("decoder") || (OVER_VOCABULARY.includes(name) && target.length > 0);
  const cross = name.includes(".cross.");
  const last = lastPart(name);
  const fromSource = !decodes || (cross && READ_FROM_SOURCE.includes(last));
  const queries = fromSource ? source : target;
  const keys = cross ? source : queries;
  return {
    rows: height === queries.length ? queries : height,
    columns: TOKEN_BY_TOKEN.includes(last) && width === keys.length ? keys : width,
  };
}

/**
 * Load what is shown of a tensor: one head, one row if it is large, otherwise all of it.
 *
 * @param {Trace} trace
 * @param {string} tensor
 * @param {WorksheetState} state
 * @returns {Promise<Part>}
 */
async function loadPart(trace, tensor, state) {
  const shape = trace.tensors[tensor];
  const at = shape.length === 3 ? [Math.min(state.head, shape[0] - 1)] : [];
  // A vector has one number per token and is shown as a column.
  const [height, width] = shape.length === 1 ? [shape[0], 1] : [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
  const axes = axesOf(trace, tensor, height, width);
  const rowNames = axisNames(axes.rows);
  if (height * width <= MOST_NUMBERS) {
    const { numbers } = await api.tensorValues(trace.id, tensor, at);
    return { at, row: null, numbers, ...axes, rowNames };
  }
  const row = Math.min(state.cell?.at(-2) ?? state.row, height - 1);
  const { numbers } = await api.tensorValues(trace.id, tensor, [...at, row]);
  const lines = Math.ceil(numbers.length / NUMBERS_PER_LINE);
  const padded = new Float32Array(lines * NUMBERS_PER_LINE).fill(NaN);
  padded.set(numbers);
  return { at, row, numbers: padded, rows: lines, columns: NUMBERS_PER_LINE, rowNames };
}

/**
 * The cell of a tensor that is at a row and a column of the heat map.
 *
 * @param {number[]} shape
 * @param {Part} part
 * @param {CellIndex} index
 */
function tensorCell(shape, part, [r, c]) {
  if (part.row !== null) {
    const width = shape[shape.length - 1];
    return [...part.at, part.row, Math.min(r * NUMBERS_PER_LINE + c, width - 1)];
  }
  return shape.length === 1 ? [r] : [...part.at, r, c];
}

/**
 * The row and column of the chosen cell in the heat map.
 *
 * @param {number[]} shape
 * @param {Part} part
 * @param {number[] | null} cell
 * @returns {CellIndex | null}
 */
function chosenIndex(shape, part, cell) {
  if (!cell || part.row !== null) return null;
  return shape.length === 1 ? [cell[0], 0] : [cell[cell.length - 2], cell[cell.length - 1]];
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {WorksheetState} state
 * @param {WorksheetActions} actions
 */
export async function drawTensor(place, trace, state, { redraw, choose }) {
  const { tensor = "", cell: chosenCell } = state;
  const shape = trace.tensors[tensor];
  if (!shape) return refill(place, emptyMessage(t("no such tensor")));
  const [part, recipe] = await Promise.all([loadPart(trace, tensor, state), api.recipe(trace.id, tensor)]);
  const { numbers, rows, columns } = part;
  const matrix = { numbers, rows: axisNames(rows), columns: axisNames(columns) };
  const colours = { hue: tensorColour(tensor), most: largestMagnitude(numbers) };
  const title = tensorTitle(trace, tensor, part);
  const axes = { rows: part.rowNames, columns: part.row === null ? matrix.columns : [], redraw };
  const cellPlace = h("div", { class: "cell" });
  const size = tensorCellSize(part, matrix.columns.length);
  const map = heatmap({
    numbers,
    rows: size >= SMALLEST_NAMED_CELL ? rows : matrix.rows.length,
    columns,
    ...colours,
    size,
    chosen: chosenIndex(shape, part, chosenCell),
    label: withArrowKeys(title),
    onchoose: index => {
      const cell = tensorCell(shape, part, index);
      choose({ cell });
      drawCell(cellPlace, trace, tensor, cell, axes);
    },
  });
  const colourText = t(hasNegative(numbers) ? "colour signed" : "colour says");
  const drawnRows = Math.max(1, Math.floor(MOST_DRAWN_CELLS / matrix.columns.length));
  refill(
    place,
    formula(tensor, shape, recipe),
    await predictionTable(trace, tensor),
    partControls(shape, part, redraw),
    h("div", { class: "tensor-map" }, scrollBox(map)),
    explanation(`${colourText} ${t("largest", { x: formatExact(colours.most) })}`),
    cellPlace,
    weightMatrices(trace, tensor, recipe, part.at),
    recipe.numpy && numpyProgram(recipe.numpy),
    foldedMatrix(title, matrix),
    exportButtons(tensor, {
      drawing: () => heatmapDrawing({ ...matrix, rows: matrix.rows.slice(0, drawnRows), ...colours, title }),
      rows: () => [["", ...matrix.columns], ...matrixRows(matrix, formatCsv)],
    }),
  );
  if (chosenCell) await drawCell(cellPlace, trace, tensor, chosenCell, axes);
}

/**
 * Cells are large enough to read the names of an axis that has names.
 *
 * @param {Part} part
 * @param {number} columnCount
 */
function tensorCellSize({ rows, columns }, columnCount) {
  const unnamed = typeof rows === "number" && typeof columns === "number";
  return cellSize(480, columnCount, unnamed ? 4 : SMALLEST_NAMED_CELL, 22);
}

/**
 * What is shown, for a caption or an exported drawing.
 *
 * @param {Trace} trace
 * @param {string} tensor
 * @param {Part} part
 */
function tensorTitle(trace, tensor, { at, row, rowNames }) {
  const block = trace.figure.blocks.find(({ tensors }) => tensors.includes(tensor));
  const parts = [
    tensorLabel(tensor),
    block && blockPlace(block),
    at.length > 0 && trace.tensors[tensor][0] > 1 && headLabel(at[0]),
    row !== null && `${t("row")} ${rowNames[row]}`,
  ];
  return `${parts.filter(Boolean).join(", ")}${trace.text && ` · “${trace.text}”`}`;
}

/**
 * @param {string} tensor
 * @param {number[]} shape
 * @param {Recipe} recipe
 */
const formula = (tensor, shape, recipe) => [
  h(
    "p",
    { class: "formula" },
    h("strong", {}, tensorLabel(tensor)),
    recipe.numpy && h("span", { class: "soft" }, " = "),
    recipe.numpy ? t(recipe.formula) : `: ${t(recipe.formula)}`,
  ),
  h("p", { class: "soft" }, shapeSays(tensor, shape), " ", h("code", { class: "exact-name" }, tensor)),
];

/**
 * The shape, and what its numbers count: "2 × 5 × 64" is heads × tokens × dimensions.
 *
 * @param {string} tensor
 * @param {number[]} shape
 */
function shapeSays(tensor, shape) {
  const text = shape.join(" × ");
  if (shape.length !== 3) return text;
  return t(TOKEN_BY_TOKEN.includes(lastPart(tensor)) ? "shape of weights" : "shape of heads", { shape: text });
}

/**
 * Choose the head, and the row of a large tensor.
 *
 * @param {number[]} shape
 * @param {Part} part
 * @param {(changes: Partial<WorksheetState>) => void} redraw
 */
function partControls(shape, { at, row, rowNames }, redraw) {
  const heads = at.length && shape[0] > 1 ? shape[0] : 0;
  const chooseHead = (/** @type {string} */ head) => redraw({ head: Number(head), row: 0, cell: null });
  const chooseRow = (/** @type {string} */ chosen) => redraw({ row: Number(chosen), cell: null });
  const rowOptions = indexOptions(rowNames.length, i => rowNames[i]);
  return controls(
    heads > 0 && [h("span", { class: "soft" }, t("head")), choice(t("head"), indexOptions(heads), at[0], chooseHead)],
    row !== null && h("label", {}, t("row"), " ", select(rowOptions, row, chooseRow)),
  );
}

/** @param {string} program */
function numpyProgram(program) {
  const button = copyButton(t("copy as numpy"), () => program);
  const listing = h("details", {}, h("summary", {}, t("show numpy")), h("pre", { tabindex: "0" }, program));
  return h("div", { class: "numpy" }, button, listing);
}
