// Attention of one head as one row of matrices: Q × Kᵀ = scores → / √d_k → softmax → × V.

import * as api from "../api.js";
import { explanation, withArrowKeys } from "../components.js";
import { h } from "../dom.js";
import { heatmap, isNumbered } from "../heatmap.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { ROTATED, TOKEN_BY_TOKEN, lastPart, tensorColour } from "../tensor_names.js";
import { clamp } from "../ranges.js";
import { largestMagnitude } from "../vectors.js";
import { concatenatedHeads } from "./concatenated_heads.js";

/** @import { Block, CellIndex, Trace } from "../types.js" */
/** @import { Heatmap, Region } from "../heatmap.js" */
/** @import { WorksheetState } from "./tensor.js" */
/** @typedef {{ name: string, numbers: Float32Array, rows: number, columns: number }} Operand */

/** The matrices in order, each with the operator before it. A matrix that the model does not compute is left out. */
const ROW = /** @type {const} */ ([
  ["query", ""],
  ["key", "×"],
  ["scores", "="],
  ["scaled_scores", "/ √d_k →"],
  ["masked_scores", "+ mask →"],
  ["weights", "softmax →"],
  ["value", "×"],
  ["head_output", "="],
]);
/** The operands of a cell of each matrix: which row or column of which other matrix, as it is drawn. */
/** @type {Record<string, (cell: CellIndex) => [string, Region][]>} */
const OPERANDS = {
  scores: ([row, column]) => [
    ["query", { row, column: null }],
    ["key", { row: null, column }],
  ],
  scaled_scores: ([row, column]) => [["scores", { row, column }]],
  masked_scores: ([row, column]) => [["scaled_scores", { row, column }]],
  weights: ([row]) => [
    ["masked_scores", { row, column: null }],
    ["scaled_scores", { row, column: null }],
  ],
  head_output: ([row, column]) => [
    ["weights", { row, column: null }],
    ["value", { row: null, column }],
  ],
};
/** Tensors with which the concatenation of the heads is shown; with the output it is shown alone. */
const ENDS = ["head_output", "output"];
const HEIGHT = 120; // pixels of a matrix, about
const WIDTH = 92; // pixels of a matrix with many columns, about
const MOST_TOKENS = 40;

/**
 * The equation of a block with multi-head attention; null for another block or a long sentence.
 *
 * @param {Trace} trace
 * @param {Block} block
 * @param {WorksheetState} state
 * @param {(changes: Partial<WorksheetState>) => void} redraw
 */
export async function attentionEquation(trace, block, state, redraw) {
  const found = new Map(block.tensors.map(name => [lastPart(name), name]));
  const rotated = Object.entries(ROTATED).filter(([, name]) => found.has(name));
  for (const [part, name] of rotated) found.set(part, found.get(name) ?? ""); // the operands of the scores
  const shape = trace.tensors[found.get("scores") ?? ""];
  const complete = ["query", "key", "value", "weights", "head_output"].every(name => found.has(name));
  if (!complete || shape?.length !== 3 || Math.max(...shape.slice(1)) > MOST_TOKENS) return null;
  const head = clamp(state.head, 0, shape[0] - 1);
  const present = ROW.filter(([name]) => found.has(name));
  const operands = await Promise.all(present.map(([name]) => load(trace, found.get(name) ?? "", head)));
  /** @type {Map<string, Heatmap>} */
  const maps = new Map();
  const mark = (/** @type {string} */ name, /** @type {CellIndex | null} */ cell) => {
    const regions = cell ? (OPERANDS[name]?.(cell) ?? []) : [];
    const next = regions.find(([other]) => maps.has(other)); // softmax reads the masked scores if there are any
    for (const [other, map] of maps) {
      const own = name === "weights" ? (next ? [next] : []) : regions;
      map.highlight(own.flatMap(([operand, region]) => (operand === other ? [region] : [])));
    }
  };
  const parts = operands.map((operand, i) => {
    const [name, operator] = present[i];
    const map = operandMap(operand, {
      onhover: cell => mark(name, cell),
      onchoose: cell => {
        const at = name === "key" ? [...cell].reverse() : cell;
        redraw({ tensor: operand.name, row: 0, cell: [head, ...at] });
      },
    });
    maps.set(name, map);
    const open = () => redraw({ tensor: operand.name, row: 0, cell: null });
    const caption = `${tensorLabel(operand.name)}${name === "key" ? "ᵀ" : ""}`;
    const size = `${operand.rows} × ${operand.columns}`;
    const isShown = state.tensor === operand.name;
    const button = h(
      "button",
      { type: "button", class: "quiet", "aria-pressed": String(isShown), onclick: open },
      caption,
    );
    return h(
      "div",
      { class: "term" },
      operator && h("span", { class: "operator" }, operator === "/ √d_k →" ? rootOf(operands[0]) : operator),
      h("figure", { class: "matrix" }, map, h("figcaption", {}, button, " ", h("span", { class: "soft" }, size))),
    );
  });
  const last = lastPart(state.tensor ?? "");
  const names = { heads: found.get("head_output") ?? "", output: found.get("output") ?? "" };
  return h(
    "div",
    { class: "attention-equation" },
    last !== "output" && [
      explanation(t("equation says"), rotated.length > 0 && ` ${t("equation rotated")}`),
      h("div", { class: "equation scroll" }, parts),
    ],
    ENDS.includes(last) && (await concatenatedHeads(trace, names, head, redraw)),
  );
}

/** @param {Operand} query */
const rootOf = ({ columns }) => `/ √${columns} →`;

/**
 * One head of a tensor; the keys transposed.
 *
 * @param {Trace} trace
 * @param {string} name
 * @param {number} head
 * @returns {Promise<Operand>}
 */
async function load(trace, name, head) {
  const shape = trace.tensors[name];
  const { numbers } = await api.tensorValues(trace.id, name, shape.length === 3 ? [Math.min(head, shape[0] - 1)] : []);
  const [rows, columns] = shape.slice(-2);
  if (!["key", ROTATED.key].includes(lastPart(name))) return { name, numbers, rows, columns };
  const transposed = Float32Array.from(numbers, (_, i) => numbers[(i % rows) * columns + Math.floor(i / rows)]);
  return { name, numbers: transposed, rows: columns, columns: rows };
}

/**
 * @param {Operand} operand
 * @param {{ onhover: (cell: CellIndex | null) => void, onchoose: (cell: CellIndex) => void }} listeners
 */
function operandMap({ name, numbers, rows, columns }, listeners) {
  const square = TOKEN_BY_TOKEN.includes(lastPart(name));
  const numbered = square && isNumbered(rows, columns);
  /** @type {[number, number]} */
  const size = numbered
    ? [40, 26]
    : [clamp(Math.floor(WIDTH / columns), 1, 26), clamp(Math.floor(HEIGHT / rows), 1, 26)];
  return heatmap({
    numbers,
    rows,
    columns,
    hue: tensorColour(name),
    most: square && lastPart(name) === "weights" ? 1 : largestMagnitude(numbers),
    size,
    numbered,
    label: withArrowKeys(tensorLabel(name)),
    ...listeners,
  });
}
