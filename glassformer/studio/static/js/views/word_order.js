// Why order matters: two sentences with the same words, with and without the positional encoding.

import { linkToView, pushAddress } from "../address.js";
import * as api from "../api.js";
import { emptyMessage, explanation, panel, readout } from "../components.js";
import { h, ifLatest, refill } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { t } from "../i18n.js";
import { dataTable } from "../table.js";
import { sidesWithPositions } from "./positional_encoding.js";

/** @import { Address, Effect, Trace } from "../types.js" */

/** Pairs of sentences with the same words, by the key of their title. */
const PAIRS = {
  "order of dog and cat": ["The dog saw the cat.", "The cat saw the dog."],
  "order of not": [
    "Although I did not get 95 in last TOEFL, I could get in the Ph.D program.",
    "Although I did get 95 in last TOEFL, I could not get in the Ph.D program.",
  ],
};
const CHANGE = "no-positions=encoder";

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {Address} address
 */
export async function orderPart(place, trace, address) {
  if (!trace.traits.sequence_to_sequence || !sidesWithPositions(trace).includes("encoder")) {
    return refill(place, emptyMessage(t("order needs")));
  }
  const inputs = PAIRS["order of dog and cat"].map((sentence, i) => {
    const label = t(i === 0 ? "order first" : "order second");
    return h("input", { value: address[`sentence${i + 1}`] ?? sentence, "aria-label": label, spellcheck: "false" });
  });
  const result = h("div", { "aria-live": "polite" });
  const compare = async () => {
    const sentences = inputs.map(input => input.value.trim());
    try {
      const content = await ifLatest(result, comparison(trace.run, sentences));
      if (content) refill(result, ...content);
    } catch (error) {
      refill(result, errorMessage(error));
    }
  };
  const submit = /** @param {Event} event */ event => {
    event.preventDefault();
    pushAddress({ sentence1: inputs[0].value, sentence2: inputs[1].value });
    compare();
  };
  const button = h("button", { type: "submit", class: "first" }, t("compare"));
  const presets = Object.entries(PAIRS).map(([title, [sentence1, sentence2]]) => {
    const href = linkToView("positions", { part: "order", sentence1, sentence2 });
    const chosen = inputs[0].value === sentence1 && inputs[1].value === sentence2;
    return h("a", { class: "preset", href, "aria-current": chosen ? "true" : null }, t(title));
  });
  refill(
    place,
    panel(
      h("h2", {}, t("order title")),
      explanation(t("order says")),
      h("p", { class: "presets" }, presets),
      h("form", { class: "order-inputs", onsubmit: submit }, inputs, button),
      result,
    ),
  );
  await compare();
}

/**
 * @param {string} run
 * @param {string[]} sentences
 */
async function comparison(run, sentences) {
  const effects = [];
  for (const text of sentences) effects.push(await api.effect({ run, text, changes: [CHANGE] }));
  const traces = await Promise.all(sentences.map(text => api.trace({ run, text })));
  const [first, second] = traces.map(({ source }) => [...source].sort().join(" "));
  const table = dataTable(
    t("order title"),
    [t("sentence"), t("order with"), t("order without")],
    effects.map(({ outputs }, i) => [sentences[i], outputs.before.text, outputs.after.text]),
  );
  return [
    h("div", { class: "scroll" }, table),
    readout(h("strong", {}, `${verdict(effects, "before", "order agree", "order differ")} `), lost(effects)),
    first !== second ? h("p", { class: "notice" }, t("order other words")) : "",
    traces.some(isUnknown) ? h("p", { class: "notice" }, t("order unknown words")) : "",
  ];
}

/** @param {Trace} trace */
const isUnknown = ({ vocabulary }) => Object.keys(vocabulary?.unknown ?? {}).length > 0;

/** @param {Effect[]} effects */
const lost = effects => verdict(effects, "after", "order lost", "order kept");

/**
 * @param {Effect[]} effects
 * @param {"before" | "after"} when
 * @param {string} same
 * @param {string} different
 */
const verdict = ([first, second], when, same, different) =>
  t(first.outputs[when].text === second.outputs[when].text ? same : different);
