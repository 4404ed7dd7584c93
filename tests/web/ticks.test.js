import assert from "node:assert/strict";
import { test } from "node:test";

import { tickLabels, ticks } from "../../glassformer/studio/static/js/ticks.js";

const MAXIMA = [7.7, 0.31, 0.0019, 0.00088, 3.1e-5, 9.7e-9, 1, 40, 1234, 250_000, 6e7];

test("ticks are equally spaced from 0 to at least the maximum", () => {
  for (const most of MAXIMA) {
    const values = ticks(most);
    const step = values[1];
    assert.equal(values[0], 0);
    values.forEach((value, i) => assert.equal(value, i * step));
    assert.ok(values[values.length - 1] >= 0.999 * most, `${most}`);
    assert.ok(values[values.length - 2] < most, `${most}: a tick too many`);
    assert.ok(values.length >= 3 && values.length <= 6, `${most}: ${values.length} ticks`);
  }
});

test("ticks of an empty axis are 0 and 1", () => {
  for (const most of [0, -1, NaN]) assert.deepEqual(ticks(most), [0, 1]);
});

test("labels differ and are the exact numbers", () => {
  for (const most of MAXIMA) {
    const values = ticks(most);
    const labels = tickLabels(values);
    assert.equal(new Set(labels).size, labels.length);
    labels.forEach((label, i) =>
      assert.ok(Math.abs(Number(label) - values[i]) <= 1e-9 * most, `${label} ${values[i]}`),
    );
  }
});

test("labels are as short as possible", () => {
  assert.deepEqual(tickLabels(ticks(0.0021)), ["0", "0.001", "0.002", "0.003"]);
  assert.deepEqual(tickLabels([0, 0.25, 0.5]), ["0", "0.25", "0.5"]);
  assert.deepEqual(tickLabels([0, 100_000]), ["0", "1e+5"]);
});
