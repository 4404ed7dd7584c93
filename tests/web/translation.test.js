import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Translation, isServerMessage, withParticles } from "../../glassformer/studio/static/js/translation.js";

const file = new URL("../../glassformer/studio/static/messages.json", import.meta.url);
const messages = JSON.parse(readFileSync(file, "utf-8"));

test("a particle depends on the final consonant of the syllable before it", () => {
  assert.equal(withParticles("사과을(를)"), "사과를");
  assert.equal(withParticles("책을(를)"), "책을");
  assert.equal(withParticles("토큰이(가) 없습니다"), "토큰이 없습니다");
  assert.equal(withParticles("단계이(가) 없습니다"), "단계가 없습니다");
  assert.equal(withParticles("모델은(는)"), "모델은");
  assert.equal(withParticles("헤드은(는)"), "헤드는");
  assert.equal(withParticles("쿼리과(와) 값과(와)"), "쿼리와 값과");
});

test("closing quotes and brackets may stand before a particle", () => {
  assert.equal(withParticles("“학교”을(를)"), "“학교”를");
  assert.equal(withParticles("(문장)은(는)"), "(문장)은");
});

test("both forms stay after digits and Latin letters", () => {
  assert.equal(withParticles("단계 7은(는)"), "단계 7은(는)");
  assert.equal(withParticles("token을(를)"), "token을(를)");
});

test("placeholders are filled in", () => {
  const english = new Translation(messages, "en");
  assert.equal(english.text("layer and head", { layer: 2, head: 0 }), "layer 2, head 0");
  assert.equal(english.text("layer n", {}), "layer {n}");
});

test("a key without a message stays visible", () => {
  const english = new Translation(messages, "en");
  assert.equal(english.text("not a key"), "not a key");
  assert.equal(english.text("constructor"), "constructor");
  assert.ok(!english.has("toString"));
});

test("a message of the server is translated with its values", () => {
  const korean = new Translation(messages, "ko");
  const text = korean.serverText({ text: "There is no token {token}.", values: { token: 17 } });
  assert.match(text, /17/);
  assert.match(text, /[가-힣]/);
  assert.equal(korean.serverText({ text: "An unknown sentence." }), "An unknown sentence.");
});

test("a message among the values is translated, too", () => {
  const korean = new Translation(messages, "ko");
  const reason = korean.text("an integer is expected");
  const why = { text: "an integer is expected", values: {} };
  const text = korean.serverText({ text: "Invalid request: {why}.", values: { why } });
  assert.match(reason, /[가-힣]/);
  assert.ok(text.includes(reason));
});

test("the English text of a message of the server is its template with the values", () => {
  const english = new Translation(messages, "en");
  const message = { text: "The text is too long: {n} tokens.", values: { n: "1,900" } };
  assert.equal(english.serverText(message), "The text is too long: 1,900 tokens.");
});

test("a log file may contain anything in the place of a message", () => {
  const english = new Translation(messages, "en");
  for (const value of [null, undefined, 7, "text", [], {}, { text: 7 }]) assert.ok(!isServerMessage(value));
  const damaged = /** @type {any} */ ({ text: "There is no token {token}.", values: { token: null } });
  assert.equal(english.serverText(damaged), "There is no token {token}.");
  assert.equal(english.serverText(/** @type {any} */ ({ text: "x", values: null })), "x");
});
