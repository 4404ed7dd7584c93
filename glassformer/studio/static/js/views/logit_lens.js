// The logit lens: what the output layer would predict from the residual stream after each decoder layer.

import { replaceAddress } from "../address.js";
import * as api from "../api.js";
import { explanation, panel, readout, scrollBox, withArrowKeys } from "../components.js";
import { find, h, ifLatest, refill } from "../dom.js";
import { exportButtons } from "../export.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { formatExact, formatPercent, formatShort } from "../numbers.js";
import { clamp } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { inputAndPrediction, tokenText } from "../tokens.js";
import { barDrawing, barList } from "./bars.js";

/** @import { CellIndex, LensLayer, Matrix, Trace } from "../types.js" */

/** @type {[number, number]} width and height of a cell */
const CELL_SIZE = [84, 26];
const FULL_COLOUR = 2.5; // above 1, so that text stays readable on the strongest colour

/**
 * @param {Trace} trace
 * @param {{ layer: number | null, row: number }} wanted  the cell of the address; null: the last layer
 */
export async function lensPanel(trace, wanted) {
  const title = t("lens title");
  const introduction = [h("h2", {}, title), explanation(t("lens says"))];
  // Classifiers and taggers have no output layer over a vocabulary.
  if (!trace.tensors["decoder.input"] || !trace.tensors.logits) return panel(introduction, h("p", {}, t("no lens")));
  const layers = await api.logitLens(trace.id);
  /** @type {Matrix} */
  const matrix = {
    numbers: Float64Array.from(layers.flatMap(layer => layer.probabilities)),
    rows: layers.map((_, i) => (i === 0 ? t("end input") : t("after layer", { n: i }))),
    columns: trace.target.map((token, i) => inputAndPrediction(token, trace.written[i])),
  };
  const chosen = readout();
  const candidates = h("div", {});
  const choose = async (/** @type {CellIndex} */ [layer, row]) => {
    replaceAddress({ lens: layer, at: row });
    refill(chosen, cellText(trace, layers[layer], matrix.rows[layer], row));
    await drawCandidates(candidates, trace, layers, matrix, [layer, row]);
  };
  /** @type {CellIndex} */
  const start = [
    clamp(wanted.layer ?? layers.length - 1, 0, layers.length - 1),
    clamp(wanted.row, 0, matrix.columns.length - 1),
  ];
  const map = heatmap({
    numbered: false, // the cells contain tokens
    ...matrix,
    hue: "--probability",
    most: FULL_COLOUR,
    size: CELL_SIZE,
    chosen: start,
    label: withArrowKeys(title),
    onchoose: choose,
  });
  find(map, ".field").append(predictedTokens(layers, trace.written));
  const element = h(
    "section",
    { class: "panel lens" },
    introduction,
    explanation(`${t("down")}: ${t("lens down")}; ${t("across")}: ${t("lens across")}.`),
    scrollBox(map),
    chosen,
    foldedTable(() => lensTable(title, layers, matrix)),
    lensExport(title, trace, layers, matrix),
    candidates,
  );
  await choose(start);
  return element;
}

/**
 * @param {Trace} trace
 * @param {LensLayer} layer
 * @param {string} layerName
 * @param {number} row
 */
const cellText = (trace, layer, layerName, row) => [
  t("lens cell", {
    where: layerName,
    read: tokenText(trace.target[row]),
    token: tokenText(layer.pieces[row]),
    p: formatPercent(layer.probabilities[row]),
  }),
  " ",
  t("lens written", {
    token: tokenText(trace.written[row]),
    rank: layer.ranks[row],
    x: formatShort(layer.log_probabilities[row]),
  }),
];

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {LensLayer[]} layers
 * @param {Matrix} matrix
 * @param {CellIndex} cell
 */
async function drawCandidates(place, trace, layers, matrix, [layer, row]) {
  const candidates = await ifLatest(place, api.logitLensCandidates(trace.id, layers[layer].name, row));
  if (!candidates) return;
  const bars = candidates.map(({ piece, probability }) => ({
    name: tokenText(piece),
    share: probability,
    marked: piece === trace.written[row],
  }));
  const title = `${matrix.rows[layer]}, ${matrix.columns[row]}`;
  refill(
    place,
    h("h3", {}, title),
    barList(bars),
    foldedTable(() =>
      dataTable(
        title,
        [t("token"), t("probability")],
        bars.map(({ name, share }) => [name, formatExact(share)]),
      ),
    ),
    exportButtons(`lens-${layer}-${row}`, {
      drawing: () => barDrawing(title, bars),
      rows: () => [["token", "probability"], ...candidates.map(({ piece, probability }) => [piece, probability])],
    }),
  );
}

/**
 * @param {string} title
 * @param {LensLayer[]} layers
 * @param {Matrix} matrix
 */
function lensTable(title, layers, { rows, columns }) {
  /** @type {(layer: LensLayer, i: number) => string} */
  const cell = ({ pieces, probabilities }, i) => `${tokenText(pieces[i])} ${formatExact(probabilities[i])}`;
  const lines = layers.map((layer, r) => [rows[r], ...columns.map((_, i) => cell(layer, i))]);
  return dataTable(title, ["", ...columns], lines);
}

/**
 * @param {string} title
 * @param {Trace} trace
 * @param {LensLayer[]} layers
 * @param {Matrix} matrix
 */
function lensExport(title, trace, layers, matrix) {
  const columns = [
    "after",
    "read",
    "written",
    "likeliest",
    "probability",
    "log_probability of written",
    "rank of written",
  ];
  /** @type {(layer: LensLayer, i: number) => (string | number)[]} */
  const line = (layer, i) => [
    layer.name,
    trace.target[i],
    trace.written[i],
    layer.pieces[i],
    layer.probabilities[i],
    layer.log_probabilities[i],
    layer.ranks[i],
  ];
  return exportButtons("lens", {
    drawing: () => heatmapDrawing({ ...matrix, hue: "--probability", title }),
    rows: () => [columns, ...layers.flatMap(layer => layer.pieces.map((_, i) => line(layer, i)))],
  });
}

/**
 * The likeliest tokens on top of the colours, in bold where a token is the one that was finally written.
 *
 * @param {LensLayer[]} layers
 * @param {string[]} written
 */
function predictedTokens(layers, written) {
  const tokens = layers.flatMap(layer =>
    layer.pieces.map((token, i) => {
      const text = tokenText(token);
      return h("span", { class: token === written[i] ? "right" : null, title: text }, text);
    }),
  );
  const grid = h("div", { class: "words", "aria-hidden": "true" }, tokens);
  const [width, height] = CELL_SIZE;
  grid.style.gridTemplate = `repeat(${layers.length}, ${height}px) / repeat(${written.length}, ${width}px)`;
  return grid;
}
