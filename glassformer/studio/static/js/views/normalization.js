// Normalization: a vector before and after it, and what it is computed over: the features of a token (layer
// normalization) or the tokens of a feature (batch normalization).

import * as api from "../api.js";
import { controls, emptyMessage, explanation, scrollBox, scrollRegion, withArrowKeys } from "../components.js";
import { choice, find, h, ifLatest, refill, s, select } from "../dom.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { formatExact, formatShort } from "../numbers.js";
import { clamp, countedNames, indexOptions, range } from "../ranges.js";
import { dataTable, foldedMatrix, foldedTable } from "../table.js";
import { withoutLastPart } from "../tensor_names.js";
import { column, largestMagnitude, meanAndDeviation, norm, row } from "../vectors.js";
import { availableWidth } from "./line_plot.js";
import { streamLabel } from "./stream_labels.js";

/** @import { Numbers, Option, StreamTensor, Trace } from "../types.js" */
/** @import { StreamState } from "./residual_stream.js" */
/** @typedef {StreamTensor & { normalizes: string }} Normalized */
/** @typedef {(changes: Partial<StreamState>) => void} Choose */
/**
 * @typedef {object} Normalization
 * @property {Normalized} chosen
 * @property {Float32Array} before
 * @property {Float32Array} after
 * @property {number} width  features per token
 * @property {Float32Array | null} mean  as the model computed it, if it was recorded
 * @property {Float32Array | null} deviation
 * @property {boolean} perToken  whether the model normalizes each token (layer normalization)
 */
/** @typedef {{ trace: Trace, tensors: StreamTensor[], tokens: string[], state: StreamState, choose: Choose }} Context */
/** @typedef {{ name: string, numbers: Float32Array, hue: string, tensor: string }} Distribution */

const BINS = 41;
const MOST_WIDTH = 460;
const HISTOGRAM_HEIGHT = 74;
const HISTOGRAM_GAP = 26;
const MARGIN = 10;
const ROW_HEIGHT = 18;
const WAYS = ["read", "layer", "batch"];

/**
 * @param {StreamTensor} tensor
 * @returns {tensor is Normalized}
 */
const isNormalized = tensor => tensor.normalizes !== null;

/**
 * @param {HTMLElement} place
 * @param {Context} context
 */
export async function drawNormalization(place, context) {
  const normalized = context.tensors.filter(isNormalized);
  if (!normalized.length) return refill(place, emptyMessage(t("no normalization")));
  const { state } = context;
  const chosen = normalized.find(({ name }) => name === state.place) ?? normalized[0];
  const found = await ifLatest(place, loadNormalization(context.trace, chosen));
  if (!found) return;
  state.feature = clamp(state.feature, 0, found.width - 1);
  const scrolled = place.querySelector(".axes .scroll")?.scrollLeft ?? 0;
  refillKeepingFocus(place, beforeAndAfter(found, normalized, context), axesPanel(found, context));
  find(place, ".axes .scroll").scrollLeft = scrolled;
}

/**
 * @param {Trace} trace
 * @param {Normalized} chosen
 * @returns {Promise<Normalization>}
 */
async function loadNormalization(trace, chosen) {
  const block = withoutLastPart(chosen.name);
  const meanShape = trace.tensors[`${block}.mean`];
  const [before, after, mean, deviation] = await Promise.all([
    api.tensorValues(trace.id, chosen.normalizes),
    api.tensorValues(trace.id, chosen.name),
    meanShape ? api.tensorValues(trace.id, `${block}.mean`) : null,
    meanShape ? api.tensorValues(trace.id, `${block}.deviation`) : null,
  ]);
  return {
    chosen,
    before: before.numbers,
    after: after.numbers,
    width: before.shape[1],
    mean: mean && mean.numbers,
    deviation: deviation && deviation.numbers,
    perToken: meanShape?.length === 2,
  };
}

// ---------------------------------------------------------------- before and after

/**
 * @param {Normalization} found
 * @param {Normalized[]} normalized
 * @param {Context} context
 */
function beforeAndAfter({ chosen, before, after, width }, normalized, { tokens, state, choose }) {
  const { token } = state;
  const title = t("normalization title", { place: streamLabel(chosen.name), token: tokens[token] });
  const [was, now] = [row(before, width, token), row(after, width, token)];
  /** @type {Distribution[]} */
  const distributions = [
    { name: t("norm before"), numbers: was, hue: "--residual", tensor: tensorLabel(chosen.normalizes) },
    { name: t("norm after"), numbers: now, hue: "--accent", tensor: tensorLabel(chosen.name) },
  ];
  const statistics = distributions.map(({ name, numbers }) => {
    const { mean, deviation } = meanAndDeviation(numbers);
    return [name, ...[mean, deviation, Math.min(...numbers), Math.max(...numbers), norm(numbers)].map(formatShort)];
  });
  const columns = ["", t("mean"), t("deviation"), t("least"), t("most"), t("length")];
  const drawing = histograms(distributions, title);
  /** @type {Option[]} */
  const places = normalized.map(({ name }) => [name, streamLabel(name)]);
  const placeSelect = select(places, chosen.name, name => choose({ place: name }));
  const tokenNames = indexOptions(tokens.length, i => `${i + 1} ${tokens[i]}`);
  const tokenSelect = select(tokenNames, token, value => choose({ token: Number(value) }));
  return h(
    "section",
    { class: "panel normalization" },
    h("h2", {}, t("before and after")),
    explanation(t("normalization says")),
    controls(
      h("label", { class: "range" }, t("place in model"), " ", placeSelect),
      h("label", { class: "range" }, t("token"), " ", tokenSelect),
    ),
    drawing,
    scrollRegion(title, dataTable(title, columns, statistics)),
    explanation(t("gamma says")),
    foldedTable(() =>
      dataTable(
        title,
        [t("feature"), t("norm before"), t("norm after")],
        range(width).map(i => [String(i + 1), formatExact(was[i]), formatExact(now[i])]),
      ),
    ),
    exportButtons(`normalized-${chosen.name}-${token}`, {
      drawing: () => drawing,
      rows: () => [["feature", "before", "after"], ...range(width).map(i => [i, was[i], now[i]])],
    }),
  );
}

/**
 * Histograms of vectors, one below the other on the same scale.
 *
 * @param {Distribution[]} distributions
 * @param {string} title
 */
function histograms(distributions, title) {
  const reach = Math.max(...distributions.map(({ numbers }) => largestMagnitude(numbers))) || 1;
  const width = availableWidth(MOST_WIDTH);
  const bottom = distributions.length * (HISTOGRAM_HEIGHT + HISTOGRAM_GAP);
  /** @type {[number, number, string][]} */
  const scale = [
    [-reach, MARGIN, "start"],
    [0, width / 2, "middle"],
    [reach, width - MARGIN, "end"],
  ];
  return s(
    "svg",
    { class: "drawing histograms", viewBox: `0 0 ${width} ${bottom + 22}`, role: "img", "aria-label": title },
    distributions.map((one, i) => histogram(one, reach, width, (i + 1) * (HISTOGRAM_HEIGHT + HISTOGRAM_GAP))),
    scale.map(([value, x, anchor]) => {
      const text = value === 0 ? "0" : formatShort(value);
      return s("text", { class: "told", x, y: bottom + 16, "text-anchor": anchor }, text);
    }),
  );
}

/**
 * @param {Distribution} distribution
 * @param {number} reach  the bins cover −reach to reach
 * @param {number} width
 * @param {number} bottom
 */
function histogram({ name, numbers, hue, tensor }, reach, width, bottom) {
  const binWidth = (width - 2 * MARGIN) / BINS;
  const counts = range(BINS).map(() => 0);
  for (const value of numbers) counts[Math.min(BINS - 1, Math.floor(((value + reach) / (2 * reach)) * BINS))]++;
  const most = Math.max(...counts);
  const bars = counts.map((count, bin) => {
    const height = (HISTOGRAM_HEIGHT * count) / most;
    const box = { x: MARGIN + bin * binWidth, y: bottom - height, width: binWidth - 1, height };
    const label = s("title", {}, t("n numbers", { n: count }));
    return count > 0 && s("rect", { ...box, fill: `var(${hue})` }, label);
  });
  const heading = s("tspan", { class: "told", dx: 8 }, tensor);
  return [
    s("text", { x: MARGIN, y: bottom - HISTOGRAM_HEIGHT - 8 }, name, heading),
    bars,
    s("line", { class: "zero", x1: MARGIN, x2: width - MARGIN, y1: bottom, y2: bottom }),
  ];
}

// ---------------------------------------------------------------- layer and batch normalization

/**
 * Normalize each row ("layer") or each column ("batch") to mean 0 and deviation 1.
 *
 * @param {string} way
 * @param {Numbers} numbers
 * @param {number} width
 */
function normalizedBy(way, numbers, width) {
  const perRow = way === "layer";
  const statistics = perRow
    ? range(numbers.length / width).map(r => meanAndDeviation(row(numbers, width, r)))
    : range(width).map(c => meanAndDeviation(column(numbers, width, c)));
  return Float64Array.from(numbers, (value, i) => {
    const { mean, deviation } = statistics[perRow ? Math.floor(i / width) : i % width];
    return deviation > 0 ? (value - mean) / deviation : 0;
  });
}

/**
 * Mean, deviation and result of the chosen number: by layer, by batch, and as the model computed it.
 *
 * @param {Normalization} found
 * @param {Context} context
 */
function statisticsRows({ before, after, width, mean, deviation, perToken }, { tokens, state }) {
  const { token, feature } = state;
  const value = before[token * width + feature];
  /** @type {(name: string, over: string, numbers: Numbers) => string[]} */
  const line = (name, over, numbers) => {
    const found = meanAndDeviation(numbers);
    const result = found.deviation > 0 ? formatShort((value - found.mean) / found.deviation) : "–";
    return [name, over, formatShort(found.mean), formatShort(found.deviation), result];
  };
  const rows = [
    line(t("layer normalization"), t("over features", { n: width }), row(before, width, token)),
    line(t("batch normalization"), t("over tokens", { n: tokens.length }), column(before, width, feature)),
  ];
  if (mean && deviation) {
    const i = perToken ? token : feature;
    const over = t(perToken ? "over features" : "over training", { n: width });
    const numbers = [mean[i], deviation[i], after[token * width + feature]].map(formatShort);
    rows.push([t("the model itself"), over, ...numbers]);
  }
  return rows;
}

/**
 * @param {Normalization} found
 * @param {Context} context
 */
function axesPanel(found, context) {
  const { before, width, chosen, mean, perToken } = found;
  const { tokens, state, choose } = context;
  const { token, feature, as } = state;
  const title = t("axes title");
  const numbers = as === "read" ? before : normalizedBy(as, before, width);
  const matrix = { numbers, rows: tokens, columns: countedNames(width) };
  const colours = { hue: "--residual", most: largestMagnitude(numbers) };
  /** @type {[number, number]} */
  const size = [Math.max(4, Math.floor(420 / width)), ROW_HEIGHT];
  const map = heatmap({
    numbers,
    rows: tokens,
    columns: width,
    ...colours,
    size,
    chosen: [token, feature],
    label: withArrowKeys(title),
    onchoose: ([r, c]) => choose({ token: r, feature: c }),
  });
  find(map, ".field").append(...outlines(token, feature, tokens.length, width, size));
  const columns = ["", t("taken over"), t("mean"), t("deviation"), t("result")];
  const value = h("strong", {}, formatExact(before[token * width + feature]));
  return h(
    "section",
    { class: "panel axes" },
    h("h2", {}, title),
    explanation(t("axes say")),
    controls(
      choice(
        title,
        WAYS.map(way => [way, t(`axes ${way}`)]),
        as,
        way => choose({ as: way }),
      ),
    ),
    explanation(`${t("down")}: ${t("tensor tokens")}; ${t("across")}: ${t("feature")}.`),
    scrollBox(map),
    h(
      "p",
      { class: "readout", "aria-live": "polite" },
      `${tensorLabel(chosen.normalizes)} [${tokens[token]}, ${feature + 1}] = `,
      value,
    ),
    scrollRegion(title, dataTable(title, columns, statisticsRows(found, context))),
    explanation(t(mean && perToken ? "axes epsilon" : "axes batch here")),
    foldedMatrix(`${chosen.normalizes}, ${t(`axes ${as}`)}`, matrix, formatShort),
    exportButtons(`axes-${as}-${chosen.normalizes}`, {
      drawing: () => heatmapDrawing({ ...matrix, ...colours, title }),
      rows: () => [
        ["token", ...matrix.columns],
        ...tokens.map((name, r) => [name, ...Array.from(row(numbers, width, r))]),
      ],
    }),
  );
}

/**
 * Outlines of the row and the column that the two normalizations are computed over.
 *
 * @param {number} token
 * @param {number} feature
 * @param {number} rows
 * @param {number} columns
 * @param {[number, number]} size
 */
function outlines(token, feature, rows, columns, [width, height]) {
  /** @type {(className: string, left: number, top: number, right: number, bottom: number) => HTMLElement} */
  const outline = (className, left, top, right, bottom) => {
    const element = h("span", { class: `band ${className}` });
    Object.assign(element.style, {
      left: `${left * width}px`,
      top: `${top * height}px`,
      width: `${(right - left) * width}px`,
      height: `${(bottom - top) * height}px`,
    });
    return element;
  };
  return [outline("row", 0, token, columns, token + 1), outline("column", feature, 0, feature + 1, rows)];
}
