// The gradient through one head: from the attention output back to queries, keys and values, matrix by matrix.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { controls, explanation } from "../components.js";
import { choice, h, ifLatest, refill } from "../dom.js";
import { refillKeepingFocus } from "../focus.js";
import { hiddenCanvas, paint } from "../heatmap.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { formatShort } from "../numbers.js";
import { indexOptions } from "../ranges.js";
import { withoutLastPart } from "../tensor_names.js";
import { largestMagnitude } from "../vectors.js";
import { TensorPanel } from "./tensor_panel.js";

/** @import { Address, BackwardPass, Trace } from "../types.js" */
/** @typedef {{ kind: string, layer: number, head: number }} ChosenHead */
/** From the output to the inputs of a head, with the symbol of each. */
const STEPS = [
  ["output", "Y"],
  ["head_output", "Z"],
  ["weights", "A"],
  ["masked_scores", "S + M"],
  ["scaled_scores", "S / √d"],
  ["scores", "S"],
  ["rotated_query", "Q′"],
  ["rotated_key", "K′"],
  ["query", "Q"],
  ["key", "K"],
  ["value", "V"],
];

/**
 * The kinds of attention whose heads have gradients; the attention of a recurrent decoder is not multi-head attention.
 *
 * @param {Trace} trace
 * @param {BackwardPass} pass
 */
const kindsOf = (trace, pass) =>
  Object.keys(trace.looks).filter(kind => gradientsOf(trace, pass, { kind, layer: 0, head: 0 }).length > 2);

/**
 * @param {Trace} trace
 * @param {BackwardPass} pass
 */
export const hasHeads = (trace, pass) => kindsOf(trace, pass).length > 0;

/**
 * @param {Trace} trace
 * @param {BackwardPass} pass
 * @param {Address} address
 */
export async function headGradients(trace, pass, address) {
  const kinds = kindsOf(trace, pass);
  const kind = kinds.find(name => name === address.kind) ?? kinds[kinds.length - 1];
  const { layers, heads } = trace.looks[kind];
  /** @type {ChosenHead} */
  const state = {
    kind,
    layer: Math.min(wholeNumber(address.layer, layers - 1), layers - 1),
    head: Math.min(wholeNumber(address.head, 0), heads - 1),
  };
  const withGradients = { ...trace, id: pass.id, tensors: pass.tensors, figure: figureWithGradients(trace, pass) };
  const figure = h("section", { class: "panel" });
  const place = h("div", {});
  const redraw = async (/** @type {Partial<ChosenHead>} */ changes, /** @type {Address} */ wanted) => {
    Object.assign(state, changes);
    const names = gradientsOf(trace, pass, state);
    const detail = new TensorPanel(withGradients, [{ title: t("gradient of matrix"), tensors: names }], {
      ...wanted,
      head: String(state.head),
    });
    replaceAddress({ ...state });
    const change = (/** @type {Partial<ChosenHead>} */ chosen) => redraw(chosen, { view: "gradient" });
    const loading = names.map(name => gradientMap(pass, name, state.head, tensor => detail.open(tensor)));
    const maps = await ifLatest(figure, Promise.all(loading));
    if (!maps) return;
    drawFigure(figure, trace, pass, state, kinds, change, maps);
    refill(place, h("div", { class: "two worksheet" }, figure, detail.element));
    await ifLatest(figure, detail.start(names.find(name => name.endsWith(".weights")) ?? names[0]));
  };
  await redraw({}, address);
  return place;
}

/**
 * The names of the gradients of one attention layer, in the order of the backward pass.
 *
 * @param {Trace} trace
 * @param {BackwardPass} pass
 * @param {ChosenHead} head
 */
function gradientsOf(trace, pass, { kind, layer }) {
  const scope = withoutLastPart(trace.looks[kind].names[layer]);
  return STEPS.map(([name]) => `gradient.${scope}.${name}`).filter(name => name in pass.tensors);
}

/**
 * The figure of the model with one more block, so that an operand that is a gradient can be opened.
 *
 * @param {Trace} trace
 * @param {BackwardPass} pass
 */
function figureWithGradients(trace, pass) {
  const block = {
    id: "gradient",
    side: "gradient",
    layer: null,
    kind: "other",
    tensors: pass.gradients.map(({ name }) => name),
  };
  return { ...trace.figure, blocks: [...trace.figure.blocks, block] };
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {BackwardPass} pass
 * @param {ChosenHead} state
 * @param {string[]} kinds
 * @param {(changes: Partial<ChosenHead>) => void} redraw
 * @param {HTMLElement[]} maps
 */
function drawFigure(place, trace, pass, state, kinds, redraw, maps) {
  const names = gradientsOf(trace, pass, state);
  const { layers, heads } = trace.looks[state.kind];
  const differences = pass.gradients.filter(({ name }) => names.includes(name)).map(one => one.difference ?? 0);
  refillKeepingFocus(
    place,
    h("h2", {}, t("gradient of head")),
    explanation(t("gradient of head says")),
    controls(
      kinds.length > 1 &&
        choice(
          t("attention of"),
          kinds.map(kind => [kind, t(`kind ${kind}`)]),
          state.kind,
          kind => redraw({ kind, layer: trace.looks[kind].layers - 1, head: 0 }),
        ),
      layers > 1 && [
        h("span", { class: "soft" }, t("layer")),
        choice(
          t("layer"),
          indexOptions(layers, i => String(i + 1)),
          state.layer,
          layer => redraw({ layer: Number(layer) }),
        ),
      ],
      heads > 1 && [
        h("span", { class: "soft" }, t("head")),
        choice(
          t("head"),
          indexOptions(heads, i => String(i + 1)),
          state.head,
          head => redraw({ head: Number(head) }),
        ),
      ],
    ),
    h("div", { class: "gradient-maps" }, maps),
    h("p", { class: "readout" }, t("gradient difference", { x: formatShort(Math.max(...differences)) })),
  );
}

/**
 * A button with the gradient of one matrix as colour.
 *
 * @param {BackwardPass} pass
 * @param {string} name
 * @param {number} head
 * @param {(tensor: string) => void} open
 */
async function gradientMap(pass, name, head, open) {
  const shape = pass.tensors[name];
  const { numbers } = await api.tensorValues(pass.id, name, shape.length === 3 ? [head] : []);
  const [height, width] = shape.slice(-2);
  const [, symbol] = STEPS.find(([last]) => name.endsWith(`.${last}`)) ?? ["", ""];
  const canvas = paint(hiddenCanvas(), numbers, height, width, { signed: true, most: largestMagnitude(numbers) });
  return h(
    "button",
    { type: "button", class: "gate-map", "data-tensor": name, onclick: () => open(name) },
    h("span", { class: "symbol" }, `∂L/∂${symbol.length > 1 ? `(${symbol})` : symbol}`),
    h("span", { class: "soft" }, `${tensorLabel(name.replace("gradient.", ""))}, ${height} × ${width}`),
    canvas,
    h("span", { class: "soft" }, t("largest", { x: formatShort(largestMagnitude(numbers)) })),
  );
}
