// Masks: the sentence with padding, each mask applied or removed, and the attention to positions that should be hidden.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import {
  controls,
  emptyMessage,
  explanation,
  panel,
  readout,
  scrollBox,
  scrollRegion,
  withArrowKeys,
} from "../components.js";
import { checkbox, choice, h, ifLatest, refill } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { layerAndHead } from "../labels.js";
import { formatChange, formatExact, formatShort } from "../numbers.js";
import { cellSize, indexOptions, range } from "../ranges.js";
import { dataTable, foldedMatrix, foldedTable, matrixCells } from "../table.js";
import { withoutLastPart } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { total } from "../vectors.js";
import { barItem, barTrack } from "./bars.js";
import { slider } from "./slider.js";

/** @import { Address, Attention, MaskedTrace, Matrix, Trace } from "../types.js" */
/**
 * @typedef {object} State
 * @property {string[]} kept  the masks that are applied
 * @property {number} padding  number of padding tokens
 * @property {string} kind
 * @property {number} layer
 * @property {number} head
 */
/**
 * @typedef {object} Model  what does not change
 * @property {string[]} masks  the masks that can be applied
 * @property {string[]} own  the masks that the model was trained with
 * @property {string[]} kinds
 * @property {boolean} encoderOnly
 */
/** @typedef {{ rows: string[], columns: string[], tokenRows: number, tokenColumns: number }} Axes  token…: without padding */

const KINDS = ["encoder", "decoder", "cross"];
/** @type {Record<string, string[]>} the masks of each kind of attention, which are added up */
const MASKS_OF_KIND = { encoder: ["padding"], decoder: ["padding", "look_ahead"], cross: ["cross"] };
const MOST_PADDING = 8;
const DEFAULT_PADDING = 3;

/**
 * @param {Model} model
 * @param {string} kind
 */
const masksOf = (model, kind) => MASKS_OF_KIND[kind].filter(mask => model.masks.includes(mask));

/**
 * @param {Trace} trace
 * @returns {Model}
 */
function modelOf(trace) {
  // A decoder may have been trained without a look-ahead mask.
  const own = trace.masks.filter(mask => mask !== "look_ahead" || trace.tensors["decoder.0.self.mask"]);
  const kinds = KINDS.filter(kind => kind in trace.looks);
  return { masks: trace.masks, own, kinds, encoderOnly: !trace.target.length };
}

/**
 * @param {Model} model
 * @param {Address} address
 * @returns {State}
 */
function initialState({ masks, own, kinds }, address) {
  const wanted = address.masks?.split(",");
  const defaultKind = kinds.includes("decoder") ? "decoder" : kinds[0];
  return {
    kept: wanted ? masks.filter(mask => wanted.includes(mask)) : own,
    padding: Math.max(1, wholeNumber(address.padding, DEFAULT_PADDING, MOST_PADDING)),
    kind: kinds.find(kind => kind === address.kind) ?? defaultKind,
    layer: wholeNumber(address.layer, 0),
    head: wholeNumber(address.head, 0),
  };
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {Address} address
 */
export async function masksPart(place, trace, address) {
  const model = modelOf(trace);
  if (!model.masks.length) {
    return refill(place, emptyMessage(t(trace.traits.input === "image" ? "no masks images" : "no masks")));
  }
  const state = initialState(model, address);
  const attention = h("div", { class: "view" });
  const outputPanel = panel();
  const summary = h("div", { class: "told", "aria-live": "polite" });
  /** @type {MaskedTrace} the latest answer, also for controls that were drawn with an earlier one */
  let masked;
  const request = async (/** @type {Partial<State>} */ changes = {}) => {
    Object.assign(state, changes);
    const { padding, kept } = state;
    try {
      const answer = await ifLatest(summary, api.maskedTrace(trace.id, { padding, masks: kept }));
      if (!answer) return;
      masked = answer;
      await draw();
    } catch (error) {
      if (api.isNotFound(error)) throw error; // the page requests the trace again
      refill(summary, errorMessage(error));
    }
  };
  const draw = async () => {
    const { kept, ...rest } = state;
    const masks = String(kept) === String(model.own) ? null : kept.join(",") || "none";
    replaceAddress({ masks, ...rest });
    await drawAttention(attention, masked, model, state, changes => {
      Object.assign(state, changes);
      return draw();
    });
    drawOutput(outputPanel, summary, masked, model, state);
  };
  refill(place, controlPanel(model, state, summary, request), attention, outputPanel);
  await request();
}

/**
 * @param {Model} model
 * @param {State} state
 * @param {HTMLElement} summary
 * @param {(changes: Partial<State>) => void} request
 */
function controlPanel({ masks }, state, summary, request) {
  /** @type {(mask: string, applied: boolean) => void} */
  const toggle = (mask, applied) =>
    request({ kept: masks.filter(other => (other === mask ? applied : state.kept.includes(other))) });
  const { padding } = state;
  return panel(
    h("h2", {}, t("masks title")),
    explanation(t("masks say")),
    h(
      "div",
      { class: "controls", role: "group", "aria-label": t("masks title") },
      masks.map(mask => checkbox(t(`mask ${mask}`), state.kept.includes(mask), applied => toggle(mask, applied))),
      slider({
        label: "padding tokens",
        min: 1,
        max: MOST_PADDING,
        value: padding,
        onchange: value => request({ padding: value }),
      }),
    ),
    summary,
    h(
      "ul",
      { class: "plain soft" },
      masks.map(mask => h("li", {}, h("strong", {}, t(`mask ${mask}`)), ": ", t(`mask ${mask} says`))),
    ),
  );
}

// ---------------------------------------------------------------- one attention layer

/**
 * @param {MaskedTrace} masked
 * @param {State} state
 * @returns {Axes}
 */
function axesOf(masked, { kind, padding }) {
  const { rows, columns } = masked.looks[kind];
  const [rowNames, columnNames] = [masked[rows].map(tokenText), masked[columns].map(tokenText)];
  return {
    rows: rowNames,
    columns: columnNames,
    tokenRows: rowNames.length - padding,
    tokenColumns: columnNames.length - padding,
  };
}

/**
 * The values of one mask: 0, or −∞ where it hides a column from a row.
 *
 * @param {string} mask
 * @param {Axes} axes
 */
function maskValues(mask, { rows, columns, tokenColumns }) {
  /** @type {(r: number, c: number) => boolean} */
  const hides = (r, c) => (mask === "look_ahead" ? c > r : c >= tokenColumns);
  return Float32Array.from(rows.flatMap((_, r) => columns.map((__, c) => (hides(r, c) ? -Infinity : 0))));
}

/**
 * @param {HTMLElement} place
 * @param {MaskedTrace} masked
 * @param {Model} model
 * @param {State} state
 * @param {(changes: Partial<State>) => Promise<void>} redraw
 */
async function drawAttention(place, masked, model, state, redraw) {
  const axes = axesOf(masked, state);
  const attention = masked.looks[state.kind];
  state.layer = Math.min(state.layer, attention.layers - 1);
  state.head = Math.min(state.head, attention.heads - 1);
  const name = attention.names[state.layer];
  const loading = Promise.all([
    api.tensorValues(masked.id, `${withoutLastPart(name)}.mask`),
    api.tensorValues(masked.id, name, [state.head]),
  ]);
  const loaded = await ifLatest(place, loading);
  if (!loaded) return;
  const [mask, weights] = loaded;
  const { rows, columns } = axes;
  // A mask of one row is the same for all rows.
  const sum = range(rows.length * columns.length).map(i => mask.numbers[i % mask.numbers.length]);
  const kinds = choice(
    t("attention of"),
    model.kinds.map(kind => [kind, t(`kind ${kind}`)]),
    state.kind,
    kind => redraw({ kind, layer: 0, head: 0 }),
  );
  const left = maskPanel(axes, Float32Array.from(sum), model, state);
  const right = weightsPanel(axes, weights.numbers, model, state, attention, redraw);
  refillKeepingFocus(place, h("div", { class: "controls tight" }, kinds), h("div", { class: "two" }, left, right));
}

/**
 * Each mask alone, and their sum, which is added to the scores.
 *
 * @param {Axes} axes
 * @param {Float32Array} sum
 * @param {Model} model
 * @param {State} state
 */
function maskPanel(axes, sum, model, state) {
  const title = t("composed title");
  const { rows, columns } = axes;
  const matrix = { numbers: sum, rows, columns };
  const masks = masksOf(model, state.kind);
  const chosen = readout(t("mask legend"));
  const figures = masks.map(mask => {
    const applied = state.kept.includes(mask);
    const values = maskValues(mask, axes);
    const numbers = applied ? values : new Float32Array(values.length);
    return maskFigure(t(`mask ${mask}`), { numbers, rows, columns }, applied, masks.length === 1, chosen);
  });
  return panel(
    h("h2", {}, title),
    explanation(t("composed says")),
    h(
      "div",
      { class: "masks" },
      figures,
      masks.length > 1 && maskFigure(t("masks together"), matrix, true, true, chosen),
    ),
    chosen,
    foldedMatrix(title, matrix),
    exportButtons(`mask-${state.kind}`, {
      drawing: () => heatmapDrawing({ ...matrix, title }),
      rows: () => [["row", "column", "mask"], ...matrixCells(matrix, x => (x === -Infinity ? "-inf" : 0))],
    }),
  );
}

/**
 * @param {string} name
 * @param {Matrix} matrix
 * @param {boolean} applied
 * @param {boolean} withNames  whether rows and columns have names
 * @param {HTMLElement} chosen
 */
function maskFigure(name, { numbers, rows, columns }, applied, withNames, chosen) {
  const size = withNames ? cellSize(300, columns.length, 12, 18) : cellSize(150, columns.length, 3, 18);
  const map = heatmap({
    numbers,
    size,
    rows: withNames ? rows : rows.length,
    columns: withNames ? columns : columns.length,
    label: withArrowKeys(name),
    onchoose: ([r, c]) => {
      const value = formatExact(numbers[r * columns.length + c]);
      refill(chosen, `${name}: ${rows[r]} ⟶ ${columns[c]}: `, h("strong", {}, value));
    },
  });
  const caption = h("figcaption", {}, h("strong", {}, name), !applied && ` – ${t("mask off")}`);
  return h("figure", { class: applied ? null : "off" }, caption, scrollBox(map));
}

/**
 * The weights of a head, and how much of each row goes to positions that the masks are there to hide.
 *
 * @param {Axes} axes
 * @param {Float32Array} weights
 * @param {Model} model
 * @param {State} state
 * @param {Attention} attention
 * @param {(changes: Partial<State>) => void} redraw
 */
function weightsPanel(axes, weights, model, state, attention, redraw) {
  const { columns, tokenRows } = axes;
  const width = columns.length;
  const masks = masksOf(model, state.kind).map(mask => maskValues(mask, axes));
  /** @param {number} i */
  const shouldHide = i => masks.some(mask => mask[i] === -Infinity);
  const rows = axes.rows.slice(0, tokenRows);
  const numbers = weights.subarray(0, tokenRows * width);
  const matrix = { numbers, rows, columns };
  const leaked = rows.map((_, r) =>
    total(range(width).map(c => (shouldHide(r * width + c) ? numbers[r * width + c] : 0))),
  );
  const title = `${t(`kind ${state.kind}`)}, ${layerAndHead(state.layer, state.head)}`;
  const chosen = readout(t("choose a cell"));
  const map = heatmap({
    numbers: numbers.map((weight, i) => (shouldHide(i) ? -weight : weight)), // a negative number has the other colour
    written: numbers,
    signed: false,
    rows,
    columns,
    size: cellSize(360, width, 12, 24),
    label: withArrowKeys(title),
    onchoose: ([r, c]) =>
      refill(chosen, `${rows[r]} ⟶ ${columns[c]}: `, h("strong", {}, formatExact(numbers[r * width + c]))),
  });
  const table = () =>
    dataTable(
      title,
      ["", ...columns, t("leak title")],
      rows.map((name, r) => [
        name,
        ...range(width).map(c => formatExact(numbers[r * width + c])),
        formatExact(leaked[r]),
      ]),
    );
  return h(
    "section",
    { class: "panel leak" },
    h("h2", {}, title),
    headControls(attention, state, redraw),
    scrollBox(map),
    chosen,
    h("h3", {}, t("leak title")),
    explanation(t("leak says")),
    leakBars(rows, leaked),
    foldedTable(table),
    exportButtons(`masked-${state.kind}-${state.layer}-${state.head}`, {
      drawing: () => heatmapDrawing({ ...matrix, title }),
      rows: () => [
        ["row", "column", "weight", "hidden"],
        ...matrixCells(matrix, formatExact).map((cell, i) => [...cell, shouldHide(i)]),
      ],
    }),
  );
}

/**
 * @param {string[]} rows
 * @param {number[]} leaked
 */
const leakBars = (rows, leaked) =>
  h(
    "ol",
    { class: "bars" },
    rows.map((name, r) =>
      barItem(name, barTrack(leaked[r], "leaking", true), formatShort(leaked[r]), formatExact(leaked[r])),
    ),
  );

/**
 * @param {Attention} attention
 * @param {State} state
 * @param {(changes: Partial<State>) => void} redraw
 */
const headControls = ({ layers, heads }, state, redraw) =>
  controls(
    h("span", { class: "soft" }, t("layer")),
    choice(t("layer"), indexOptions(layers), state.layer, layer => redraw({ layer: Number(layer) })),
    h("span", { class: "soft" }, t("head")),
    choice(t("head"), indexOptions(heads), state.head, head => redraw({ head: Number(head) })),
  );

// ---------------------------------------------------------------- the output

/**
 * Draw how the log-probabilities of the output change with the masks.
 *
 * @param {HTMLElement} place
 * @param {HTMLElement} summary
 * @param {MaskedTrace} masked
 * @param {Model} model
 * @param {State} state
 */
function drawOutput(place, summary, masked, model, state) {
  const [before, after] = [total(masked.before), total(masked.after)];
  /** @type {[string, number, number][]} */
  const lines = masked.written.map((token, i) => [tokenText(token), masked.before[i], masked.after[i]]);
  lines.push([t("sum"), before, after]);
  const columns = [t("token"), t("with masks"), t("with chosen masks"), t("change")];
  const title = t("leak change title");
  const lookAheadRemoved = model.own.includes("look_ahead") && !state.kept.includes("look_ahead");
  refillKeepingFocus(
    summary,
    h("p", { class: "strong" }, summaryText(masked, model, state, before, after)),
    lookAheadRemoved && h("p", {}, t("look ahead removed")),
  );
  const values = lines.map(([name, was, now]) => ({ name, numbers: [was, now, now - was] }));
  refillKeepingFocus(
    place,
    h("h2", {}, title),
    explanation(t(model.encoderOnly ? "leak change alone" : "leak change says")),
    scrollRegion(
      title,
      dataTable(
        title,
        columns,
        lines.map(([name, was, now]) => [name, formatShort(was), formatShort(now), formatChange(now - was)]),
      ),
    ),
    exportButtons("masks-change", {
      drawing: () =>
        heatmapDrawing({
          numbers: Float64Array.from(values.flatMap(({ numbers }) => numbers)),
          rows: values.map(({ name }) => name),
          columns: columns.slice(1),
          hue: "--plus",
          most: Math.max(...lines.flatMap(([, was, now]) => [Math.abs(was), Math.abs(now)])),
          title,
        }),
      rows: () => [["token", "before", "after", "change"], ...values.map(({ name, numbers }) => [name, ...numbers])],
    }),
  );
}

/**
 * @param {MaskedTrace} masked
 * @param {Model} model
 * @param {State} state
 * @param {number} before
 * @param {number} after
 */
function summaryText(masked, model, state, before, after) {
  if (String(state.kept) !== String(model.own)) {
    const values = { before: formatShort(before), after: formatShort(after), change: formatChange(after - before) };
    return t("masks changed", values);
  }
  return masked.apart === 0 ? t("masks identical") : t("masks whole", { x: masked.apart.toExponential(1) });
}
