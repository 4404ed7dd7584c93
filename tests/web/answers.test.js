import assert from "node:assert/strict";
import { test } from "node:test";

import { isCorrect, readNumbers } from "../../glassformer/studio/static/js/answers.js";

/** @param {Partial<import("../../glassformer/studio/static/js/types.js").Exercise>} changes */
const exercise = changes => ({
  kind: /** @type {const} */ ("exercise"),
  question: "",
  options: [],
  answer: 0,
  tolerance: 0,
  hint: "",
  solution: "",
  ...changes,
});

test("numbers with a decimal point or a decimal comma", () => {
  for (const text of ["0.25", "0,25", " .25 ", "+0.25", "25e-2"]) assert.deepEqual(readNumbers(text), [0.25]);
  for (const text of ["-3", "−3", "-3.", "-3,0"]) assert.deepEqual(readNumbers(text), [-3]);
});

test("a comma can separate thousands", () => {
  assert.deepEqual(readNumbers("1,804"), [1.804, 1804]);
  assert.deepEqual(readNumbers("1,234,567"), [1234567]);
  assert.deepEqual(readNumbers("1,80"), [1.8]);
});

test("other texts are not numbers", () => {
  for (const text of ["", " ", "a", "1 2", "1.2.3", "1/3", "0x10", "Infinity", "--1", "1,2,3"]) {
    assert.deepEqual(readNumbers(text), [], text);
  }
});

test("a number is correct within the tolerance, including its limits", () => {
  const third = exercise({ answer: 0.3, tolerance: 0.01 });
  for (const text of ["0.3", "0,3", "0.29", "0.31"]) assert.ok(isCorrect(third, text), text);
  for (const text of ["0.289", "0.311", "-0.3", "", "x"]) assert.ok(!isCorrect(third, text), text);
  assert.ok(isCorrect(exercise({ answer: 1804 }), "1,804"));
});

test("the correct option", () => {
  const choice = exercise({ answer: "1", options: ["1", "1.0"] });
  assert.ok(isCorrect(choice, "1"));
  assert.ok(!isCorrect(choice, "1.0"));
});
