// Attention weights: one head, the mean of heads, and weights between words instead of tokens.

import { groupWords, inputAndPrediction, isSpecialToken, tokenText } from "./tokens.js";

/** @import { Attention, Matrix } from "./types.js" */

/** @typedef {number | "mean"} Head */

/**
 * Return the weights of one head, or the mean over heads, summed in double precision.
 *
 * @template {Float32Array | Uint8Array} Weights
 * @param {Weights} weights  of all heads
 * @param {number} heads
 * @param {Head} head
 * @returns {Float32Array | Weights}
 */
export function headWeights(weights, heads, head) {
  const size = weights.length / heads;
  if (head !== "mean") return /** @type {Weights} */ (weights.subarray(head * size, (head + 1) * size));
  const mean = new Float64Array(size);
  weights.forEach((/** @type {number} */ weight, /** @type {number} */ i) => {
    mean[i % size] += weight / heads;
  });
  return Float32Array.from(mean);
}

/**
 * Merge weights between tokens to weights between groups: weights to the tokens of a group are added, weights from
 * the tokens of a group are averaged.
 *
 * @param {ArrayLike<number>} weights
 * @param {number} width  tokens per row
 * @param {number[][]} rowGroups
 * @param {number[][]} columnGroups
 */
export function mergeWeights(weights, width, rowGroups, columnGroups) {
  const merged = rowGroups.flatMap(rows =>
    columnGroups.map(columns => {
      let sum = 0;
      for (const row of rows) for (const column of columns) sum += weights[row * width + column];
      return sum / rows.length;
    }),
  );
  return Float32Array.from(merged);
}

/**
 * Names of the rows and columns of an attention layer.
 *
 * @param {{ source: string[], target: string[], predicted: string[] }} tokens
 * @param {Attention} attention
 */
export function attentionAxes(tokens, attention) {
  const read = tokens[attention.rows];
  return {
    rows: read.map((token, i) =>
      attention.rows === "source" ? tokenText(token) : inputAndPrediction(token, tokens.predicted[i]),
    ),
    columns: tokens[attention.columns].map(tokenText),
  };
}

/**
 * The weights of one head as they are shown: between tokens or words, with special tokens or without.
 *
 * @param {{ source: string[], target: string[], predicted: string[] }} tokens
 * @param {Attention} attention
 * @param {ArrayLike<number>} weights
 * @param {{ words: boolean, hideSpecial: boolean }} options
 * @returns {Matrix<Float32Array> & { rowGroups: number[][], columnGroups: number[][] }}  the tokens of each row, column
 */
export function shownWeights(tokens, attention, weights, { words, hideSpecial }) {
  const [rowTokens, columnTokens] = [tokens[attention.rows], tokens[attention.columns]];
  /** @param {string[]} side */
  const groups = side => {
    const all = words ? groupWords(side) : side.map((_, i) => [i]);
    return all.filter(group => !hideSpecial || !group.every(i => isSpecialToken(side[i])));
  };
  const [rowGroups, columnGroups] = [groups(rowTokens), groups(columnTokens)];
  /** @type {(side: string[], group: number[]) => string} */
  const name = (side, group) => tokenText(group.map(i => side[i]).join("")).replaceAll("▁", " ");
  /** @param {number[]} group */
  const rowName = group => {
    const read = name(rowTokens, group);
    return attention.rows === "source" ? read : `${read} → ${name(tokens.predicted, group)}`;
  };
  return {
    rowGroups,
    columnGroups,
    rows: rowGroups.map(rowName),
    columns: columnGroups.map(group => name(columnTokens, group)),
    numbers: mergeWeights(weights, columnTokens.length, rowGroups, columnGroups),
  };
}

/**
 * The head in which one word attends most to another. Weights to the subwords of a word are added.
 *
 * @param {ArrayLike<number>} weights  of all layers and heads
 * @param {number[]} shape  layers, heads, queries, keys
 * @param {string[]} tokens
 * @param {string} from
 * @param {string} to
 * @returns {{ layer: number, head: number, row: number, keys: number[] } | null}  keys: the tokens of the second word;
 *   null if a word is not in the sentence
 */
export function focusedHead(weights, [layers, heads, rows, columns], tokens, from, to) {
  const words = groupWords(tokens);
  /** @param {string} wanted */
  const find = wanted => words.find(group => tokenText(group.map(i => tokens[i]).join("")) === wanted);
  const [queries, keys] = [find(from), find(to)];
  if (!queries || !keys) return null;
  const row = queries[0];
  /** @param {number} i  the number of a head, over all layers */
  const weight = i => keys.reduce((sum, column) => sum + weights[(i * rows + row) * columns + column], 0);
  let best = 0;
  for (let i = 1; i < layers * heads; i++) if (weight(i) > weight(best)) best = i;
  return { layer: Math.floor(best / heads), head: best % heads, row, keys };
}
