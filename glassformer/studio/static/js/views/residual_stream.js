// The residual stream: the norm of its vectors by sub-layer and token, normalization, and the logit lens.

import { linkToView, replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { controls, emptyMessage, explanation, panel, readout, scrollBox, withArrowKeys } from "../components.js";
import { choice, h, ifLatest, refill } from "../dom.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { formatShort } from "../numbers.js";
import { cellSize, clamp } from "../ranges.js";
import { foldedMatrix } from "../table.js";
import { STREAM_ENDS, lastPart, withoutLastPart } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { linePlot } from "./line_plot.js";
import { lensPanel } from "./logit_lens.js";
import { drawNormalization } from "./normalization.js";
import { streamLabel } from "./stream_labels.js";

/** @import { Address, StreamTensor, Trace, ViewContext } from "../types.js" */
/**
 * @typedef {object} StreamState
 * @property {string} side
 * @property {string} what  "residual", "output" or "norm"
 * @property {string | undefined} place  the tensor whose normalization is shown
 * @property {number} token
 * @property {number} feature
 * @property {string} as  "read", "layer" or "batch"
 */
/**
 * @typedef {object} Stream
 * @property {Trace} trace
 * @property {StreamTensor[]} tensors
 * @property {string[]} tokens
 * @property {StreamState} state
 * @property {(changes: Partial<StreamState>) => void} choose
 */

const SIDES = ["encoder", "decoder"];
const KINDS = ["residual", "output", "norm"];
/** @type {Record<string, string>} */
const COLOURS = { residual: "--residual", output: "--ff", norm: "--accent" };
const ROW_HEIGHT = 18;

/**
 * The sides that have Transformer layers.
 *
 * @param {Trace} trace
 */
const sidesOf = trace =>
  SIDES.filter(side =>
    Object.keys(trace.tensors).some(name => name.startsWith(`${side}.0.`) && name.endsWith(".ff.output")),
  );

/**
 * @param {Address} address
 * @param {string[]} sides
 * @returns {StreamState}
 */
const initialState = (address, sides) => ({
  side: sides.find(side => side === address.side) ?? sides[sides.length - 1],
  what: KINDS.find(kind => kind === address.what) ?? "residual",
  place: address.place,
  token: wholeNumber(address.token, 0),
  feature: wholeNumber(address.feature, 0),
  as: address.as ?? "read",
});

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  const sides = sidesOf(trace);
  if (!sides.length) return place.append(emptyMessage(t("no stream")));
  const state = initialState(address, sides);
  const norms = panel();
  const normalization = h("div", { class: "two" });
  const redraw = async (/** @type {Partial<StreamState>} */ changes = {}) => {
    Object.assign(state, changes);
    const tensors = await ifLatest(norms, api.residualStream(trace.id, state.side));
    if (!tensors) return;
    const tokens = (state.side === "encoder" ? trace.source : trace.target).map(tokenText);
    state.token = clamp(state.token, 0, tokens.length - 1);
    if (!tensors.some(({ name }) => name === state.place)) {
      state.place = (tensors.find(({ normalizes }) => normalizes !== null) ?? tensors[0]).name;
    }
    const choose = async (/** @type {Partial<StreamState>} */ chosen) => {
      Object.assign(state, chosen);
      const { feature, as } = state;
      replaceAddress({ ...state, feature: feature || null, as: as === "read" ? null : as });
      await drawNormalization(normalization, stream);
    };
    const stream = { trace, tensors, tokens, state, choose };
    drawNorms(norms, stream, redraw);
    await choose({});
  };
  if (sides.length > 1) {
    const sideChoice = choice(
      t("side"),
      sides.map(side => [side, t(`side ${side}`)]),
      state.side,
      side => redraw({ side, place: undefined, token: 0 }),
    );
    place.append(h("div", { class: "controls tight" }, sideChoice));
  }
  place.append(norms, normalization);
  await redraw();
  place.append(await lensPanel(trace, { layer: wholeNumber(address.lens, null), row: wholeNumber(address.at, 0) }));
}

/**
 * The tensors of one kind; the residual stream includes its input and its output.
 *
 * @param {StreamTensor[]} tensors
 * @param {string} kind
 */
const tensorsOf = (tensors, kind) =>
  tensors.filter(({ name }) => {
    const last = lastPart(name);
    return last === kind || (kind === "residual" && STREAM_ENDS.includes(last));
  });

/**
 * Whether sub-layers normalize their input (pre-norm) instead of their output (post-norm).
 *
 * @param {Trace} trace
 * @param {StreamTensor[]} tensors
 */
function isPreNorm(trace, tensors) {
  const order = Object.keys(trace.tensors);
  const output = tensors.find(({ name }) => lastPart(name) === "output")?.name ?? "";
  return order.indexOf(`${withoutLastPart(output)}.norm`) < order.indexOf(output);
}

/**
 * Draw the norms of all vectors as a heat map, and the norms of one token as lines.
 *
 * @param {HTMLElement} place
 * @param {Stream} stream
 * @param {(changes: Partial<StreamState>) => void} redraw
 */
function drawNorms(place, { trace, tensors, tokens, state, choose }, redraw) {
  const kinds = KINDS.filter(kind => tensors.some(({ name }) => lastPart(name) === kind));
  if (!kinds.includes(state.what)) state.what = kinds[0];
  const shown = tensorsOf(tensors, state.what);
  const numbers = Float64Array.from(shown.flatMap(({ norms }) => norms));
  const matrix = { numbers, rows: shown.map(({ name }) => streamLabel(name)), columns: tokens };
  const colours = { hue: COLOURS[state.what], most: Math.max(...numbers) };
  const title = `${t("lengths title")}: ${t(`length ${state.what}`)}`;
  const chosen = readout(t("choose a length"));
  const plot = h("div", {});
  const map = heatmap({
    ...matrix,
    ...colours,
    size: [cellSize(420, tokens.length, 14, 34), ROW_HEIGHT],
    label: withArrowKeys(title),
    onchoose: ([r, token]) => {
      const { name, norms, normalizes } = shown[r];
      const value = h("strong", {}, formatShort(norms[token]));
      refill(chosen, `${matrix.rows[r]}, ${tokens[token]}: `, value, " · ", vectorLink(trace, name));
      drawTokenNorms(plot, tensors, kinds, tokens, token);
      choose(normalizes === null ? { token } : { token, place: name });
    },
  });
  refillKeepingFocus(
    place,
    h("h2", {}, t("lengths title")),
    explanation(t(isPreNorm(trace, tensors) ? "lengths pre" : "lengths post")),
    controls(
      choice(
        t("lengths title"),
        kinds.map(kind => [kind, t(`length ${kind}`)]),
        state.what,
        what => redraw({ what }),
      ),
    ),
    h("div", { class: "side-by-side" }, h("div", {}, scrollBox(map), chosen), plot),
    foldedMatrix(title, matrix, formatShort),
    exportButtons(`stream-${state.side}-${state.what}`, {
      drawing: () => heatmapDrawing({ ...matrix, ...colours, title }),
      rows: () => [
        ["tensor", "row", "token", "length"],
        ...shown.flatMap(({ name, norms }) => norms.map((x, i) => [name, i, tokens[i], x])),
      ],
    }),
  );
  drawTokenNorms(plot, tensors, kinds, tokens, state.token);
}

/**
 * @param {Trace} trace
 * @param {string} tensor
 */
function vectorLink(trace, tensor) {
  const block = trace.figure.blocks.find(({ tensors }) => tensors.includes(tensor));
  const href = linkToView("worksheet", { block: block?.id, layer: block?.layer || null, tensor });
  return h("a", { href }, t("see the vector"));
}

/**
 * @param {HTMLElement} place
 * @param {StreamTensor[]} tensors
 * @param {string[]} kinds
 * @param {string[]} tokens
 * @param {number} token
 */
function drawTokenNorms(place, tensors, kinds, tokens, token) {
  const title = t("lengths of", { token: `${token + 1} ${tokens[token]}` });
  const series = kinds.map(kind => ({
    name: t(`length ${kind}`),
    hue: COLOURS[kind],
    numbers: tensors.filter(({ name }) => lastPart(name) === kind).map(({ norms }) => norms[token]),
  }));
  const subLayers = tensorsOf(tensors, "output").map(({ name }) => streamLabel(name));
  /** @type {[string, string]} */
  const ends = [subLayers[0], subLayers[subLayers.length - 1]];
  refill(place, h("h3", {}, title), linePlot({ series, title, axis: t("sub-layers"), ends, dots: true }));
}
