// Recurrent models: the layers unrolled over time, states and gates as heat maps, and the attention of the decoder.

import * as api from "../api.js";
import { emptyMessage, explanation, panel } from "../components.js";
import { h } from "../dom.js";
import { hiddenCanvas, paint } from "../heatmap.js";
import { t } from "../i18n.js";
import { layerLabel, tensorLabel } from "../labels.js";
import { formatShort } from "../numbers.js";
import { foldedMatrix } from "../table.js";
import { lastPart, tensorColour } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { largestMagnitude, total, transpose } from "../vectors.js";
import { alignmentPanel } from "./alignment.js";
import { linePlot } from "./line_plot.js";
import { TensorPanel } from "./tensor_panel.js";
import { unrolledFigure } from "./unrolled.js";

/** @import { RecurrentLayer, RecurrentModel, Trace, ViewContext } from "../types.js" */

const CELLS = ["rnn", "lstm", "gru"];
const GATE_COLOURS = ["--query", "--key", "--value"];

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  const isRecurrent = trace.figure.blocks.some(({ kind }) => CELLS.includes(kind));
  if (!isRecurrent) return place.append(emptyMessage(t("not recurrent")));
  const model = await api.recurrentModel(trace.id);
  const groups = model.layers.map(layer => ({
    title: recurrentLayerLabel(layer),
    tensors: [...layer.states, ...layer.gates],
  }));
  if (model.alignment) groups.push({ title: t(`alignment ${model.alignment.kind}`), tensors: model.alignment.steps });
  const detail = new TensorPanel(trace, groups, address);
  const open = detail.open.bind(detail);
  const figures = h("div", { class: "stack" });
  place.append(
    panel(
      h("h2", {}, t("unrolled title")),
      explanation(t("unrolled says")),
      await unrolledFigure(trace, model, open),
      bottleneckNote(model, trace),
    ),
  );
  for (const layer of model.layers) figures.append(await gatesPanel(trace, layer, open));
  if (model.alignment) figures.append(await alignmentPanel(trace, model.alignment, open));
  place.append(h("div", { class: "two worksheet recurrent" }, figures, detail.element));
  await detail.start(model.layers[0].states[0]);
}

/**
 * "encoder, layer 1, forwards, LSTM".
 *
 * @param {RecurrentLayer} layer
 */
export const recurrentLayerLabel = ({ side, layer, direction, bidirectional, cell }) =>
  [t(`side ${side}`), layerLabel(layer), bidirectional && t(`direction ${direction}`), cell.toUpperCase()]
    .filter(Boolean)
    .join(", ");

/**
 * What connects encoder and decoder.
 *
 * @param {RecurrentModel} model
 * @param {Trace} trace
 */
function bottleneckNote({ handovers, alignment }, trace) {
  if (!handovers.length) return null;
  const values = { n: trace.tensors[handovers[0].last][0], tokens: trace.source.length };
  return h("p", { class: "notice" }, t(alignment ? "no bottleneck" : "bottleneck", values));
}

/**
 * States and gates of a layer as small heat maps, dimensions × time, and the mean of each gate over time.
 *
 * @param {Trace} trace
 * @param {RecurrentLayer} layer
 * @param {(tensor: string) => void} open
 */
async function gatesPanel(trace, layer, open) {
  const names = [...layer.states, ...layer.gates];
  const loaded = await Promise.all(names.map(name => api.tensorValues(trace.id, name)));
  const values = new Map(names.map((name, i) => [name, loaded[i].numbers]));
  const gates = layer.gates.filter(name => lastPart(name).endsWith("_gate"));
  return panel(
    h("h2", {}, recurrentLayerLabel(layer)),
    explanation(t(`cell ${layer.cell}`), " ", t(layer.in_reading_order ? "gates reversed" : "gates say")),
    h(
      "div",
      { class: "gate-maps" },
      names.map(name => gateMap(name, values.get(name) ?? new Float32Array(), layer.tokens, open)),
    ),
    gates.length > 0 && meanGates(gates, values, layer.tokens.map(tokenText)),
  );
}

/**
 * The mean of each gate over its dimensions, step by step.
 *
 * @param {string[]} gates
 * @param {Map<string, Float32Array>} values
 * @param {string[]} tokens
 */
function meanGates(gates, values, tokens) {
  const title = t("mean gates");
  const means = gates.map(name => rowMeans(values.get(name) ?? new Float32Array(), tokens.length));
  const series = gates.map((name, i) => ({ name: tensorLabel(name), hue: GATE_COLOURS[i], numbers: means[i] }));
  const matrix = { numbers: Float64Array.from(means.flat()), rows: gates.map(tensorLabel), columns: tokens };
  return [
    linePlot({ series, title, axis: title, ends: [tokens[0], tokens[tokens.length - 1]], dots: true }),
    foldedMatrix(title, matrix, formatShort),
  ];
}

/**
 * @param {Float32Array} numbers
 * @param {number} rows
 */
function rowMeans(numbers, rows) {
  const width = numbers.length / rows;
  return Array.from({ length: rows }, (_, r) => total(numbers.subarray(r * width, (r + 1) * width)) / width);
}

/**
 * A button with a heat map: time from left to right, dimensions from top to bottom.
 *
 * @param {string} name
 * @param {Float32Array} numbers
 * @param {string[]} tokens
 * @param {(tensor: string) => void} open
 */
function gateMap(name, numbers, tokens, open) {
  const width = numbers.length / tokens.length;
  const colours = { hue: tensorColour(name), most: largestMagnitude(numbers) };
  const canvas = paint(hiddenCanvas(), transpose(numbers, width), width, tokens.length, colours);
  return h(
    "button",
    { type: "button", class: "gate-map", "data-tensor": name, onclick: () => open(name) },
    h("span", {}, tensorLabel(name)),
    canvas,
  );
}
