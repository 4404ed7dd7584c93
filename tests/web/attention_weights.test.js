import assert from "node:assert/strict";
import { test } from "node:test";

import {
  focusedHead,
  headWeights,
  mergeWeights,
  shownWeights,
} from "../../glassformer/studio/static/js/attention_weights.js";
import { groupWords, isSpecialToken, tokenText } from "../../glassformer/studio/static/js/tokens.js";

test("tokens are shown without the mark of a word's beginning", () => {
  assert.equal(tokenText("▁small"), "small");
  assert.equal(tokenText("er"), "er");
  assert.equal(tokenText("▁"), "▁");
});

test("byte tokens are not special tokens", () => {
  assert.ok(isSpecialToken("<eos>"));
  assert.ok(!isSpecialToken("<0xE2>"));
  assert.ok(!isSpecialToken("<"));
});

test("words begin at a mark and around special tokens", () => {
  assert.deepEqual(groupWords(["<sos>", "▁sm", "all", "er", "▁cat", "<eos>"]), [[0], [1, 2, 3], [4], [5]]);
});

test("the weights of one head, and the mean of heads", () => {
  const weights = Float32Array.from([1, 0, 0, 1, 0.5, 0.5, 0.25, 0.75]);
  assert.deepEqual([...headWeights(weights, 2, 1)], [0.5, 0.5, 0.25, 0.75]);
  assert.deepEqual([...headWeights(weights, 2, "mean")], [0.75, 0.25, 0.125, 0.875]);
});

test("weights to a word are added, weights from a word are averaged", () => {
  const weights = [0.5, 0.25, 0.25, 0.25, 0.5, 0.25, 1, 0, 0];
  assert.deepEqual([...mergeWeights(weights, 3, [[0], [1, 2]], [[0], [1, 2]])], [0.5, 0.5, 0.625, 0.375]);
});

test("decoder rows name the input and the predicted token", () => {
  const tokens = { source: ["▁a", "<eos>"], target: ["<sos>", "▁b"], predicted: ["▁b", "<eos>"] };
  /** @type {import("../../glassformer/studio/static/js/types.js").Attention} */
  const attention = { layers: 1, heads: 1, names: ["decoder.0.cross.weights"], rows: "target", columns: "source" };
  const shown = shownWeights(tokens, attention, [0.75, 0.25, 0.5, 0.5], { words: false, hideSpecial: true });
  assert.deepEqual(shown.rows, ["b → <eos>"]);
  assert.deepEqual(shown.columns, ["a"]);
  assert.deepEqual([...shown.numbers], [0.5]);
});

test("the head in which a word attends most to another", () => {
  const weights = [0.5, 0.5, 0.5, 0.5, 0.9, 0.1, 0.2, 0.8, 0, 1, 0.7, 0.3]; // 3 layers × 1 head × 2 × 2
  const found = focusedHead(weights, [3, 1, 2, 2], ["▁it", "▁animal"], "it", "animal");
  assert.deepEqual(found, { layer: 2, head: 0, row: 0, keys: [1] });
  assert.equal(focusedHead(weights, [3, 1, 2, 2], ["▁it", "▁animal"], "it", "street"), null);
});
