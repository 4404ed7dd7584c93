import assert from "node:assert/strict";
import { test } from "node:test";

import { ifLatest } from "../../glassformer/studio/static/js/dom.js";

/** An answer of the server that arrives, or fails, when the test says so. */
function delayedAnswer() {
  /** @type {(value: string) => void} */
  let arrive = () => {};
  /** @type {(error: Error) => void} */
  let fail = () => {};
  /** @type {Promise<string>} */
  const answer = new Promise((resolve, reject) => {
    [arrive, fail] = [resolve, reject];
  });
  return { answer, arrive, fail };
}

test("only the latest answer of an element is returned, in whatever order the answers arrive", async () => {
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
  ]) {
    const element = {};
    const requests = [delayedAnswer(), delayedAnswer(), delayedAnswer()];
    const shown = requests.map(({ answer }) => ifLatest(element, answer));
    for (const i of order) {
      requests[i].arrive(`answer ${i}`);
      assert.equal(await shown[i], i === 2 ? "answer 2" : null);
    }
  }
});

test("an answer that was shared by two calls is returned to the later one", async () => {
  const [element, { answer, arrive }] = [{}, delayedAnswer()];
  const shown = [ifLatest(element, answer), ifLatest(element, answer)];
  arrive("from the cache");
  assert.deepEqual(await Promise.all(shown), [null, "from the cache"]);
});

test("each element has its own latest answer", async () => {
  const [first, second] = [delayedAnswer(), delayedAnswer()];
  const shown = [ifLatest({}, first.answer), ifLatest({}, second.answer)];
  second.arrive("second");
  first.arrive("first");
  assert.deepEqual(await Promise.all(shown), ["first", "second"]);
});

test("only the latest call fails with the error of its answer", async () => {
  const [element, first, second] = [{}, delayedAnswer(), delayedAnswer()];
  const earlier = ifLatest(element, first.answer);
  const latest = ifLatest(element, second.answer);
  first.fail(new Error("first"));
  assert.equal(await earlier, null);
  second.fail(new Error("second"));
  await assert.rejects(latest, /second/);
});

test("a value that is there already replaces an answer that is not", async () => {
  const [element, { answer, arrive }] = [{}, delayedAnswer()];
  const earlier = ifLatest(element, answer);
  assert.equal(await ifLatest(element, "at once"), "at once");
  arrive("late");
  assert.equal(await earlier, null);
});
