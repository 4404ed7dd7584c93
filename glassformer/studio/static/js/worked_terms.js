// One cell of a worked example, written out with its numbers: "0·1 + 2·0 + 0·1 + 2·1".

import { formatCell } from "./numbers.js";

/** @import { WorkedExample, WorkedRegion, WorkedStep } from "./types.js" */
/** @typedef {Record<string, number[][]>} Matrices  by name */

/**
 * All matrices of an example by name: what was typed, then what was computed.
 *
 * @param {WorkedExample} example
 * @returns {Matrices}
 */
export const matricesOf = ({ inputs, steps }) => ({
  ...inputs,
  ...Object.fromEntries(steps.map(step => [step.name, step.values])),
});

/**
 * The numbers of a row, a column or a cell.
 *
 * @param {Matrices} matrices
 * @param {WorkedRegion} region
 */
function numbersOf(matrices, { matrix, row, column }) {
  const rows = row === null ? matrices[matrix] : [matrices[matrix][row]];
  return rows.flatMap(values => (column === null ? values : [values[column]]));
}

/** @param {number} x */
const factor = x => (x < 0 ? `(${formatCell(x)})` : formatCell(x));

/**
 * How a cell is computed, with numbers.
 *
 * @param {WorkedStep} step
 * @param {number} row
 * @param {number} column
 * @param {Matrices} matrices
 */
export function writtenOut({ name, cells, constants }, row, column, matrices) {
  const regions = cells[row][column];
  const [a, b] = regions.map(region => numbersOf(matrices, region));
  if (b) return a.map((x, i) => `${factor(x)}·${factor(b[i])}`).join(" + ");
  if (name === "scaled_scores") return `${formatCell(a[0])} / √${Math.round(constants.factor ** -2)}`;
  if (name === "rounded_weights") return `round(${a[0].toPrecision(4)})`;
  return `e^${factor(a[column])} / (${a.map(x => `e^${factor(x)}`).join(" + ")})`;
}

/**
 * A matrix as text for editing: one row per line.
 *
 * @param {string} text  as it was typed, pasted or found in the address
 */
export const spacedMatrix = text =>
  text
    .replaceAll("[", " ")
    .split(/[\];\n]/)
    .map(line =>
      line
        .split(/[\s,]+/)
        .filter(Boolean)
        .join(" "),
    )
    .filter(Boolean)
    .join("\n");

/**
 * The same for an address: "1,0;0,2".
 *
 * @param {string} text
 */
export const compactMatrix = text => spacedMatrix(text).replaceAll("\n", ";").replaceAll(" ", ",");

/**
 * The example as a NumPy program.
 *
 * @param {WorkedExample} example
 */
export function numpyProgram({ inputs, steps }) {
  const source = "memory" in inputs ? "memory" : "x";
  const names = steps.map(step => step.name);
  const scores = names.includes("scaled_scores") ? "scaled_scores" : "scores";
  const rounded = steps.find(step => step.name === "rounded_weights");
  return [
    "import numpy as np",
    "",
    ...Object.entries(inputs).map(([name, rows]) => `${name} = np.array(${JSON.stringify(rows)}, dtype=float)`),
    "",
    `Q, K, V = x @ W_Q, ${source} @ W_K, ${source} @ W_V`,
    "scores = Q @ K.T",
    scores === "scaled_scores" && "scaled_scores = scores / np.sqrt(Q.shape[1])",
    `powers = np.exp(${scores} - ${scores}.max(axis=1, keepdims=True))`,
    "weights = powers / powers.sum(axis=1, keepdims=True)",
    rounded && `weights = weights.round(${rounded.constants.decimals})`,
    "output = weights @ V",
    "print(output)",
    "",
  ]
    .filter(line => line !== false && line !== undefined)
    .join("\n");
}
