import assert from "node:assert/strict";
import { test } from "node:test";

import { addressForRuns } from "../../glassformer/studio/static/js/views/live_view.js";

/**
 * @param {string} name
 * @param {string} family
 * @returns {import("../../glassformer/studio/static/js/types.js").Run}
 */
const run = (name, family = "transformer") => ({
  name,
  task: "translation",
  traits: { input: "text", output: "tokens", sequence_to_sequence: true, blanks: false },
  family,
  described: "",
});
const demo = { view: "attention", run: "demo" };

test("an address whose runs exist stays as it is", () => {
  const address = { view: "compare", run: "demo", other: "gru", layer: 1 };
  assert.deepEqual(addressForRuns(address, [run("demo"), run("gru", "recurrent")]), { address, missing: [] });
  assert.deepEqual(addressForRuns({ view: "training" }, []), { address: { view: "training" }, missing: [] });
});

test("the only run, a Transformer, takes the place of the demo", () => {
  assert.deepEqual(addressForRuns(demo, [run("mine")]), { address: { ...demo, run: "mine" }, missing: [] });
});

test("no other run takes the place of the demo, and none that of another run", () => {
  for (const runs of [[], [run("a"), run("b")], [run("gru", "recurrent")]]) {
    assert.deepEqual(addressForRuns(demo, runs), { address: demo, missing: ["demo"] });
  }
  assert.deepEqual(addressForRuns({ view: "compare", run: "demo", other: "gru" }, [run("mine")]).missing, ["gru"]);
});
