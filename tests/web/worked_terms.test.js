import assert from "node:assert/strict";
import { test } from "node:test";

import {
  compactMatrix,
  matricesOf,
  numpyProgram,
  spacedMatrix,
  writtenOut,
} from "../../glassformer/studio/static/js/worked_terms.js";

/** @import { WorkedExample, WorkedStep } from "../../glassformer/studio/static/js/types.js" */

/** @type {WorkedStep} */
const QUERY = {
  name: "Q",
  formula: "x·W_Q",
  operands: ["x", "W_Q"],
  values: [[-1.5]],
  cells: [
    [
      [
        { matrix: "x", row: 0, column: null },
        { matrix: "W_Q", row: null, column: 0 },
      ],
    ],
  ],
  constants: {},
};
/** @type {WorkedExample} */
const EXAMPLE = { inputs: { x: [[1, 2]], W_Q: [[0.5], [-1]] }, steps: [QUERY] };

test("a product is written out with its numbers", () => {
  assert.equal(writtenOut(QUERY, 0, 0, matricesOf(EXAMPLE)), "1·0.50 + 2·(−1)");
});

test("scaling, softmax and rounding are written out", () => {
  const matrices = { scores: [[2, 4]] };
  const row = { matrix: "scores", row: 0, column: null };
  /** @type {(name: string, cells: typeof QUERY.cells, constants: Record<string, number>) => WorkedStep} */
  const step = (name, cells, constants) => ({ ...QUERY, name, cells, constants });
  const cell = { ...row, column: 1 };
  assert.equal(
    writtenOut(step("scaled_scores", [[[], [cell]]], { factor: 1 / Math.sqrt(3) }), 0, 1, matrices),
    "4 / √3",
  );
  assert.equal(writtenOut(step("weights", [[[], [row]]], {}), 0, 1, matrices), "e^4 / (e^2 + e^4)");
  assert.equal(writtenOut(step("rounded_weights", [[[], [cell]]], {}), 0, 1, matrices), "round(4.000)");
});

test("a matrix is read in every way that people write it", () => {
  for (const text of ["1 0\n0 2", "[[1, 0], [0, 2]]", "1,0;0,2", "1\t0\n\n0\t2\n"]) {
    assert.equal(spacedMatrix(text), "1 0\n0 2");
  }
  assert.equal(compactMatrix("1 0\n0 2"), "1,0;0,2");
  assert.equal(spacedMatrix(compactMatrix("-1 .5\n0 2")), "-1 .5\n0 2");
});

test("the program has the steps that were computed", () => {
  const names = ["scores", "scaled_scores", "rounded_weights"];
  const steps = names.map(name => ({ ...QUERY, name, constants: { decimals: 1 } }));
  const program = numpyProgram({ inputs: { ...EXAMPLE.inputs, memory: [[3, 4]] }, steps });
  assert.match(program, /x = np.array\(\[\[1,2\]\], dtype=float\)/);
  assert.match(program, /memory @ W_K, memory @ W_V/);
  assert.match(program, /np.exp\(scaled_scores - /);
  assert.match(program, /weights.round\(1\)/);
  assert.doesNotMatch(numpyProgram(EXAMPLE), /round|sqrt|memory/);
});
