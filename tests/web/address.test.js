import assert from "node:assert/strict";
import { test } from "node:test";

import { link, readAddress, wholeNumber } from "../../glassformer/studio/static/js/address.js";

test("an address has a view and parameters", () => {
  assert.deepEqual(readAddress("#/attention?run=demo&text=I+am+a+student&layer=2"), {
    view: "attention",
    run: "demo",
    text: "I am a student",
    layer: "2",
  });
});

test("an empty address is the worksheet", () => {
  for (const hash of ["", "#", "#/"]) assert.deepEqual(readAddress(hash), { view: "worksheet" });
});

test("only the first question mark starts the parameters", () => {
  assert.equal(readAddress("#/decode?text=Is+it+small?").text, "Is it small?");
});

test("a parameter cannot replace the view", () => {
  assert.equal(readAddress("#/decode?view=training").view, "decode");
});

test("link leaves out parameters without a value", () => {
  assert.equal(
    link({ view: "decode", run: undefined, text: null, target: "", step: 0, free: false }),
    "#/decode?step=0&free=false",
  );
  assert.equal(link({ view: "training" }), "#/training");
});

test("readAddress reads what link writes", () => {
  for (const text of ["a & b = c?", "100 % #1", "나는 학생입니다", "line\nbreak", "+"]) {
    assert.deepEqual(readAddress(link({ view: "worksheet", text })), { view: "worksheet", text });
  }
});

test("wholeNumber accepts whole numbers up to a limit", () => {
  assert.equal(wholeNumber("7", null), 7);
  assert.equal(wholeNumber("7", "mean", 6), "mean");
  for (const text of [undefined, "", "-1", "1.5", "1e3", "0x10", " 1", "seven"]) {
    assert.equal(wholeNumber(text, null), null);
  }
});
