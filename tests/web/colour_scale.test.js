import assert from "node:assert/strict";
import { test } from "node:test";

import { colourScale, parseHex, readableOn } from "../../glassformer/studio/static/js/colour_scale.js";

/** @import { Palette } from "../../glassformer/studio/static/js/colour_scale.js" */

/** @type {Palette} */
const PALETTE = { zero: [255, 255, 255], positive: [0, 0, 200], negative: [200, 100, 0], infinite: [9, 9, 9] };

test("a hexadecimal colour has three channels", () => {
  assert.deepEqual(parseHex("#1f77b4"), [31, 119, 180]);
});

test("the scale is linear in both directions", () => {
  const scale = colourScale(PALETTE, 2);
  assert.deepEqual(scale(0), PALETTE.zero);
  assert.deepEqual(scale(2), PALETTE.positive);
  assert.deepEqual(scale(-2), PALETTE.negative);
  assert.deepEqual(scale(1), [128, 128, 228]);
});

test("numbers beyond the maximum have the full colour", () => {
  assert.deepEqual(colourScale(PALETTE, 1)(50), PALETTE.positive);
});

test("infinities and NaN have a colour of their own", () => {
  for (const x of [-Infinity, Infinity, NaN]) assert.deepEqual(colourScale(PALETTE, 1)(x), PALETTE.infinite);
});

test("a matrix of zeros has no colour", () => {
  assert.deepEqual(colourScale(PALETTE, 0)(0), PALETTE.zero);
});

test("text on a colour is black or white", () => {
  assert.deepEqual(readableOn([255, 240, 200]), [0, 0, 0]);
  assert.deepEqual(readableOn([29, 91, 176]), [255, 255, 255]);
});
