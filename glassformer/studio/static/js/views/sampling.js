// Let the model write: sample a translation, or the continuation of a text, with the temperature and k of the view.

import { linkToView } from "../address.js";
import * as api from "../api.js";
import { controls, explanation, panel } from "../components.js";
import { h, refill } from "../dom.js";
import { t } from "../i18n.js";
import { slider } from "./slider.js";

/** @import { Trace } from "../types.js" */

const LENGTH = 20;
const MOST_LENGTH = 100;
const MOST_SEED = 2 ** 31;

/**
 * @param {Trace} trace
 * @param {{ temperature: number, k: number }} state  of the view; it is read whenever a button is pressed
 */
export function samplingPanel(trace, state) {
  const continues = !trace.traits.sequence_to_sequence;
  const output = h("div", { class: "sampled", "aria-live": "polite" });
  let length = LENGTH;
  const write = async (/** @type {number} */ temperature, /** @type {number} */ k) => {
    const seed = Math.floor(Math.random() * MOST_SEED);
    const { pieces } = await api.sample({ run: trace.run, text: trace.text, temperature, k, seed, length });
    output.prepend(sampledText(trace, pieces, { temperature, k }));
  };
  const clear = () => refill(output);
  return panel(
    h("h2", {}, t(continues ? "continue title" : "sample title")),
    explanation(t(continues ? "continue says" : "sample says")),
    controls(
      continues &&
        slider({
          label: "number of tokens",
          min: 1,
          max: MOST_LENGTH,
          value: length,
          onchange: chosen => {
            length = chosen;
          },
        }),
      h("button", { type: "button", class: "first", onclick: () => write(state.temperature, state.k) }, t("sample")),
      continues && h("button", { type: "button", onclick: () => write(1, 1) }, t("continue greedily")),
      h("button", { type: "button", class: "quiet", onclick: clear }, t("clear")),
    ),
    output,
  );
}

/**
 * @param {Trace} trace
 * @param {string[]} pieces
 * @param {{ temperature: number, k: number }} sampling
 */
function sampledText(trace, pieces, { temperature, k }) {
  const text = pieces.join("");
  const how = k === 1 ? t("greedy") : t("sampled with", { temperature, k: k || t("all tokens") });
  if (trace.traits.sequence_to_sequence) return h("p", {}, text || "–", " ", h("span", { class: "soft" }, how));
  const [firstLine] = text.split("\n");
  const href = linkToView("decode", { text: trace.text + firstLine });
  return h(
    "p",
    {},
    h("span", { class: "soft" }, trace.text),
    h("mark", {}, text),
    " ",
    h("span", { class: "soft" }, how),
    " · ",
    h("a", { href }, t("use as input")),
  );
}
