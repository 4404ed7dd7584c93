import assert from "node:assert/strict";
import { test } from "node:test";

import {
  formatCell,
  formatChange,
  formatCount,
  formatCsv,
  formatExact,
  formatPercent,
  formatShort,
} from "../../glassformer/studio/static/js/numbers.js";

test("formatExact writes the shortest decimal of a float32", () => {
  assert.equal(formatExact(Math.fround(0.1)), "0.1");
  assert.equal(formatExact(Math.fround(1 / 3)), "0.33333334");
  assert.equal(formatExact(16777216), "16777216");
  assert.equal(formatExact(0), "0");
});

test("formatExact is read back as the same float32", () => {
  const bits = new Uint32Array(1);
  const float = new Float32Array(bits.buffer);
  for (let i = 0; i < 2000; i++) {
    bits[0] = (i * 2654435761) >>> 0; // spread over all signs, exponents and mantissas
    if (!Number.isFinite(float[0])) continue;
    assert.equal(Math.fround(Number(formatExact(float[0]).replaceAll("−", "-"))), float[0]);
  }
});

test("formatExact accepts the infinities of the server's JSON", () => {
  assert.equal(formatExact("-inf"), "−∞");
  assert.equal(formatExact("inf"), "∞");
  assert.equal(formatExact(-Infinity), "−∞");
});

test("negative numbers have a minus sign, in CSV files a hyphen", () => {
  assert.equal(formatExact(-2.5), "−2.5");
  assert.equal(formatCsv(-2.5), "-2.5");
  assert.equal(formatExact(Math.fround(-1e-10)), "−1e−10");
  assert.equal(formatCsv(Math.fround(-1e-10)), "-1e-10");
});

test("formatShort writes three decimals or an exponent", () => {
  assert.equal(formatShort(1.23456), "1.235");
  assert.equal(formatShort(0), "0.000");
  assert.equal(formatShort(-0.00012), "−1.2e−4");
  assert.equal(formatShort(12345), "1.2e+4");
  assert.equal(formatShort("-inf"), "−∞");
});

test("formatChange marks positive numbers with a plus sign", () => {
  assert.equal(formatChange(0.5), "+0.500");
  assert.equal(formatChange(-0.5), "−0.500");
  assert.equal(formatChange(0), "0.000");
});

test("formatPercent keeps small probabilities visible", () => {
  assert.equal(formatPercent(0.256), "25.6\u00a0%");
  assert.equal(formatPercent(0.0005), "0.050\u00a0%");
  assert.equal(formatPercent(0), "0.0\u00a0%");
});

test("formatCount separates thousands", () => {
  assert.equal(formatCount(1234567), "1,234,567");
});

test("the number of a cell has about three digits", () => {
  const texts = [0, -3, 0.4321, -12.345, 123.4, 20000, -Infinity].map(x => formatCell(x));
  assert.deepEqual(texts, ["0", "−3", "0.43", "−12.3", "123", "2e+4", "−∞"]);
  assert.deepEqual([formatCell(-0.00026), formatCell(-0.00026, true), formatCell(0, true)], ["−0.00", "−3e−4", "0"]);
});
