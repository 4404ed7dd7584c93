import assert from "node:assert/strict";
import { test } from "node:test";

import {
  column,
  hasNegative,
  largestMagnitude,
  meanAndDeviation,
  pairwiseDotProducts,
  row,
  softmax,
  total,
  transpose,
} from "../../glassformer/studio/static/js/vectors.js";
import { longestCommonSubsequence } from "../../glassformer/studio/static/js/views/intervention_effect.js";

const MATRIX = Float64Array.from([1, 2, 3, 4, 5, 6]);

test("rows and columns of a matrix", () => {
  assert.deepEqual([...row(MATRIX, 3, 1)], [4, 5, 6]);
  assert.deepEqual([...column(MATRIX, 3, 1)], [2, 5]);
  assert.deepEqual([...transpose(MATRIX, 3)], [1, 4, 2, 5, 3, 6]);
});

test("dot products of all pairs of rows", () => {
  assert.deepEqual([...pairwiseDotProducts(MATRIX, MATRIX, 3)], [14, 32, 32, 77]);
});

test("mean and population deviation", () => {
  assert.deepEqual(meanAndDeviation([2, 4, 4, 4, 5, 5, 7, 9]), { mean: 5, deviation: 2 });
});

test("infinities do not count as the largest or as negative numbers", () => {
  assert.equal(largestMagnitude([1, -3, -Infinity, NaN]), 3);
  assert.ok(!hasNegative([0, 1, -Infinity]));
  assert.ok(hasNegative([0, -1]));
});

test("softmax adds up to 1 and keeps the k likeliest", () => {
  const all = softmax([1, 2, 3]);
  assert.ok(Math.abs(total(all) - 1) < 1e-12);
  assert.ok(Math.abs(all[2] / all[1] - Math.E) < 1e-12);
  assert.deepEqual([...softmax([1, 2, 3], 1, 1)], [0, 0, 1]);
  assert.ok(softmax([1, 2, 3], 0.5)[2] > all[2]);
});

test("the longest common subsequence of two outputs", () => {
  assert.deepEqual([...longestCommonSubsequence(["a", "b", "c", "d"], ["b", "x", "d"])], [1, 3]);
  assert.deepEqual([...longestCommonSubsequence(["a"], [])], []);
});
