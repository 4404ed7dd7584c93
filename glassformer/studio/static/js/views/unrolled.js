// Recurrent layers unrolled over time: one hidden state per token, from left to right, encoder before decoder.

import * as api from "../api.js";
import { scrollRegion } from "../components.js";
import { h } from "../dom.js";
import { hiddenCanvas, paint } from "../heatmap.js";
import { t } from "../i18n.js";
import { layerLabel, tensorLabel } from "../labels.js";
import { range } from "../ranges.js";
import { tensorColour } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { largestMagnitude, row } from "../vectors.js";

/** @import { RecurrentLayer, RecurrentModel, Trace } from "../types.js" */
/** @typedef {(tensor: string, cell?: number[]) => void} Open */

/**
 * @param {Trace} trace
 * @param {RecurrentModel} model
 * @param {Open} open
 */
export async function unrolledFigure(trace, { layers, handovers, alignment }, open) {
  /** @param {string} side */
  const ofSide = side => layers.filter(layer => layer.side === side).reverse(); // the upper layers first
  const [encoder, decoder] = [ofSide("encoder"), ofSide("decoder")];
  return scrollRegion(
    t("unrolled title"),
    h(
      "div",
      { class: "unrolled" },
      encoder.length > 0 && (await chain(trace, "encoder", encoder, open)),
      handovers.length > 0 && (await contextVector(trace, handovers[handovers.length - 1].last, !alignment, open)),
      decoder.length > 0 && (await chain(trace, "decoder", decoder, open)),
    ),
  );
}

/**
 * The layers of one side above their tokens.
 *
 * @param {Trace} trace
 * @param {"encoder" | "decoder"} side
 * @param {RecurrentLayer[]} layers
 * @param {Open} open
 */
async function chain(trace, side, layers, open) {
  const tokens = side === "encoder" ? trace.source : trace.target;
  const predicted = side === "decoder" ? trace.written : [];
  const lines = await Promise.all(layers.map(layer => states(trace, layer, open)));
  const table = h(
    "div",
    { class: `chain ${side}`, role: "group", "aria-label": t(`side ${side}`) },
    predicted.length > 0 && [h("span", { class: "soft" }, t("predicted")), predicted.map(tokenCell)],
    lines,
    h("span", { class: "soft" }, t("input tokens")),
    tokens.map(tokenCell),
  );
  table.style.gridTemplateColumns = `auto repeat(${tokens.length}, minmax(2.9rem, auto))`;
  return table;
}

/** @param {string} token */
const tokenCell = token => h("span", { class: "token" }, tokenText(token));

/**
 * One line: the hidden states of a layer, each with the arrow to the next one.
 *
 * @param {Trace} trace
 * @param {RecurrentLayer} layer
 * @param {Open} open
 */
async function states(trace, layer, open) {
  const [name] = layer.states;
  const { numbers, shape } = await api.tensorValues(trace.id, name);
  const [steps, width] = shape;
  const most = largestMagnitude(numbers);
  const backwards = layer.direction === "backwards";
  const cells = range(steps).map(column => {
    const step = layer.in_reading_order ? steps - 1 - column : column;
    const token = tokenText(layer.tokens[step]);
    const canvas = paint(hiddenCanvas(), row(numbers, width, step), width, 1, { hue: tensorColour(name), most });
    const isLast = backwards ? column === 0 : column === steps - 1;
    return h(
      "button",
      {
        type: "button",
        class: `state ${layer.direction}${isLast ? " end" : ""}`,
        "data-step": column,
        "aria-label": `${tensorLabel(name)} ${column + 1}: ${token}`,
        onclick: () => open(name, [step, 0]),
      },
      canvas,
      h("span", { "aria-hidden": "true" }, "h", h("sub", {}, column + 1)),
    );
  });
  const label = [layerLabel(layer.layer), layer.bidirectional && t(`direction ${layer.direction}`)];
  return [h("span", { class: "soft" }, label.filter(Boolean).join(", ")), cells];
}

/**
 * The encoder's last state, from which the decoder starts.
 *
 * @param {Trace} trace
 * @param {string} name
 * @param {boolean} only  whether the decoder gets nothing else
 * @param {Open} open
 */
async function contextVector(trace, name, only, open) {
  const { numbers } = await api.tensorValues(trace.id, name);
  const colours = { hue: "--logits", most: largestMagnitude(numbers) };
  const canvas = paint(hiddenCanvas(), numbers, numbers.length, 1, colours);
  return h(
    "button",
    { type: "button", class: only ? "context only" : "context", onclick: () => open(name) },
    h("span", {}, t(only ? "tensor context" : "tensor start")),
    canvas,
    h("span", { class: "soft" }, t("n numbers", { n: numbers.length })),
  );
}
