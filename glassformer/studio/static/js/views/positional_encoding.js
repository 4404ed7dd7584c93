// Positional encodings: as a heat map, one feature along the positions, and the similarity of positions.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { controls, emptyMessage, explanation, panel, readout, scrollBox, withArrowKeys } from "../components.js";
import { choice, h, ifLatest, refill, select } from "../dom.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { formatCsv, formatExact, formatShort } from "../numbers.js";
import { indexNames } from "../ranges.js";
import { foldedMatrix, matrixCells, matrixRows } from "../table.js";
import { POSITION_TENSORS } from "../tensor_names.js";
import { column, largestMagnitude, pairwiseDotProducts, row } from "../vectors.js";
import { linePlot } from "./line_plot.js";
import { slider } from "./slider.js";

/** @import { Address, Option, Trace } from "../types.js" */
/** @typedef {{ side: string, length: number, place: number, feature: number }} State  place: a position */
/**
 * @typedef {object} Encodings
 * @property {Float32Array} numbers
 * @property {number} length  number of positions
 * @property {number} width  features per position
 * @property {string} formula
 * @property {boolean} learned  whether they are learned instead of sinusoids
 * @property {boolean} rotary  whether they are the sines and cosines by which queries and keys are rotated
 */
/** @typedef {{ element: HTMLElement, update: () => void }} Part */
/** @typedef {(changes: Partial<State>) => void} Choose */

const LENGTHS = [32, 64, 128, 256];
const DEFAULT_LENGTH = 64;
const MOST_DRAWN_CELLS = 20_000; // in an exported drawing
const SIDES = ["encoder", "decoder"];
const WAVELENGTH_BASE = 10000; // section 3.5 of the paper

/** @param {Trace} trace */
export const sidesWithPositions = trace => SIDES.filter(side => positionsName(trace, side));

/**
 * Whether the model rotates queries and keys, in place of positional encodings of the embeddings.
 *
 * @param {Trace} trace
 */
export const isRotary = trace => SIDES.some(side => trace.tensors[`${side}.rotation`]);

/**
 * The name of the tensor that tells a side the order of its tokens; undefined if it has none.
 *
 * @param {Trace} trace
 * @param {string} side
 */
const positionsName = (trace, side) =>
  POSITION_TENSORS.map(name => `${side}.${name}`).find(name => trace.tensors[name]);

/**
 * Why nothing is added to the embeddings: queries and keys are rotated instead, the model was trained without
 * positional encodings, or it is recurrent and needs none.
 *
 * @param {Trace} trace
 */
export function noPositionsMessage(trace) {
  if (isRotary(trace)) return t("positions not added");
  const transformer = Object.keys(trace.tensors).some(name => name.endsWith(".self.weights"));
  return t(transformer ? "no positions here" : "no positions needed");
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {Address} address
 */
export async function positionalEncodingPart(place, trace, address) {
  const sides = sidesWithPositions(trace);
  if (!sides.length) return refill(place, emptyMessage(noPositionsMessage(trace)));
  /** @type {State} */
  const state = {
    side: sides.find(side => side === address.side) ?? sides[0],
    length: LENGTHS.find(length => length === Number(address.length)) ?? DEFAULT_LENGTH,
    place: wholeNumber(address.place, 8),
    feature: wholeNumber(address.feature, 4),
  };
  const redraw = async (/** @type {Partial<State>} */ changes = {}) => {
    Object.assign(state, changes);
    const encodings = await ifLatest(place, loadEncodings(trace, state));
    if (!encodings) return;
    state.place = Math.min(state.place, encodings.length - 1);
    state.feature = Math.min(state.feature, encodings.width - 1);
    const choose = (/** @type {Partial<State>} */ chosen) => {
      Object.assign(state, chosen);
      replaceAddress({ ...state });
      for (const part of parts) part.update();
    };
    const parts = [encodingPanel(encodings, state, choose), similarityPanel(encodings, state, choose)];
    refillKeepingFocus(
      place,
      rangeControls(sides, state, redraw),
      h(
        "div",
        { class: "two" },
        parts.map(({ element }) => element),
      ),
    );
    choose({});
  };
  await redraw();
}

/**
 * @param {Trace} trace
 * @param {State} state
 * @returns {Promise<Encodings>}
 */
async function loadEncodings(trace, state) {
  const [{ numbers, shape }, recipe] = await Promise.all([
    api.positionalEncodings(trace.id, state.side, state.length),
    api.recipe(trace.id, positionsName(trace, state.side) ?? ""),
  ]);
  const [length, width] = shape;
  return {
    numbers,
    length,
    width,
    formula: recipe.formula,
    learned: recipe.weights.length > 0,
    rotary: isRotary(trace),
  };
}

/**
 * @param {string[]} sides
 * @param {State} state
 * @param {(changes: Partial<State>) => void} redraw
 */
function rangeControls(sides, state, redraw) {
  const sideChoice = choice(
    t("side"),
    sides.map(side => [side, t(`side ${side}`)]),
    state.side,
    side => redraw({ side }),
  );
  /** @type {Option[]} */
  const lengths = LENGTHS.map(n => [n, String(n)]);
  const lengthSelect = select(lengths, state.length, length => redraw({ length: Number(length) }));
  return h(
    "div",
    { class: "controls tight" },
    sides.length > 1 && sideChoice,
    h("label", { class: "range" }, t("places"), " ", lengthSelect),
  );
}

// ---------------------------------------------------------------- encodings

/**
 * @param {Encodings} encodings
 * @param {State} state
 * @param {Choose} choose
 * @returns {Part}
 */
function encodingPanel(encodings, state, choose) {
  const { numbers, length, width, learned, rotary, formula } = encodings;
  const title = t(rotary ? "rotation map" : "positions map");
  const matrix = { numbers, rows: indexNames(length), columns: indexNames(width) };
  const colours = { hue: "--positions", most: largestMagnitude(numbers) };
  const chosen = readout();
  const plot = h("div", {});
  const map = heatmap({
    numbers,
    rows: length,
    columns: width,
    ...colours,
    label: withArrowKeys(title),
    size: [Math.max(3, Math.floor(440 / width)), Math.max(3, Math.floor(320 / length))],
    chosen: [state.place, state.feature],
    onchoose: ([position, feature]) => choose({ place: position, feature }),
  });
  const featureSlider = slider({
    label: "feature",
    max: width - 1,
    value: state.feature,
    onchange: feature => choose({ feature }),
  });
  const update = () => {
    map.markCell([state.place, state.feature]);
    featureSlider.set(state.feature);
    refill(chosen, encodingText(encodings, state));
    refill(plot, featurePlot(encodings, state));
  };
  const drawnRows = Math.max(1, Math.floor(MOST_DRAWN_CELLS / width));
  const element = panel(
    h("h2", {}, title),
    explanation(t(rotary ? "rotation says" : learned ? "positions learned" : "positions say")),
    h("p", { class: "formula" }, formula),
    explanation(`${t("down")}: ${t("place")}; ${t("across")}: ${t("feature")}.`),
    scrollBox(map),
    chosen,
    controls(featureSlider),
    plot,
    foldedMatrix(title, matrix, formatExact, t("place")),
    exportButtons("positions", {
      drawing: () => heatmapDrawing({ ...matrix, rows: matrix.rows.slice(0, drawnRows), ...colours, title }),
      rows: () => [["place", ...matrix.columns], ...matrixRows(matrix, formatCsv)],
    }),
  );
  return { element, update };
}

/**
 * The chosen number, and for sinusoids how it is computed.
 *
 * @param {Encodings} encodings
 * @param {State} state
 */
function encodingText({ numbers, width, learned }, { place: position, feature }) {
  const name = t("place and feature", { place: position, feature });
  const wave = feature % 2 ? "cos" : "sin";
  const exponent = `${feature - (feature % 2)}/${width}`;
  return [
    `${name}: `,
    h("strong", {}, formatExact(numbers[position * width + feature])),
    !learned && h("span", { class: "soft" }, ` = ${wave}(${position} / ${WAVELENGTH_BASE}^(${exponent}))`),
  ];
}

/**
 * The chosen feature along the positions; a sinusoid together with the sine or cosine of the same wavelength.
 *
 * @param {Encodings} encodings
 * @param {State} state
 */
function featurePlot({ numbers, width, learned }, { place: position, feature }) {
  const even = feature - (feature % 2);
  const features = learned ? [feature] : [even, even + 1].filter(i => i < width);
  const series = features.map((i, n) => ({
    name: `${learned ? "" : n ? "cos, " : "sin, "}${t("feature n", { n: i })}`,
    hue: n ? "--residual" : "--positions",
    numbers: column(numbers, width, i),
  }));
  const title = t("curve title", { i: features.join(", ") });
  const wavelength = 2 * Math.PI * WAVELENGTH_BASE ** (even / width);
  return [
    linePlot({ title, axis: t("place"), marked: position, series }),
    !learned && explanation(t("wavelength", { n: formatShort(wavelength) })),
  ];
}

// ---------------------------------------------------------------- similarity

/**
 * Dot products of the encodings of all pairs of positions.
 *
 * @param {Encodings} encodings
 * @param {State} state
 * @param {Choose} choose
 * @returns {Part}
 */
function similarityPanel({ numbers, length, width, learned, rotary }, state, choose) {
  const title = t("similarity title");
  const products = pairwiseDotProducts(numbers, numbers, width);
  const matrix = { numbers: products, rows: indexNames(length), columns: indexNames(length) };
  const colours = { hue: "--positions", most: largestMagnitude(products) };
  const chosen = readout();
  const plot = h("div", {});
  let other = state.place;
  const map = heatmap({
    numbers: products,
    rows: length,
    columns: length,
    ...colours,
    label: withArrowKeys(title),
    size: Math.max(2, Math.floor(320 / length)),
    chosen: [state.place, other],
    onchoose: ([first, second]) => {
      other = second;
      choose({ place: first });
    },
  });
  const positionSlider = slider({
    label: "place",
    max: length - 1,
    value: state.place,
    onchange: position => choose({ place: position }),
  });
  const update = () => {
    const { place: position } = state;
    map.markCell([position, other]);
    positionSlider.set(position);
    refill(
      chosen,
      `${t("product of places", { a: position, b: other })} `,
      h("strong", {}, formatShort(products[position * length + other])),
      h("span", { class: "soft" }, ` · ${t("distance n", { n: Math.abs(position - other) })}`),
    );
    const name = t("similarity of", { p: position });
    const series = [{ name, hue: "--positions", numbers: row(products, length, position) }];
    refill(plot, linePlot({ title: name, axis: t("place"), marked: position, series }));
  };
  const drawnRows = Math.max(1, Math.floor(MOST_DRAWN_CELLS / length));
  const element = panel(
    h("h2", {}, title),
    explanation(t(rotary ? "similarity rotated" : learned || width % 2 ? "similarity learned" : "similarity says")),
    scrollBox(map),
    chosen,
    controls(positionSlider),
    plot,
    foldedMatrix(title, matrix, formatShort, t("place")),
    exportButtons("positions-alike", {
      drawing: () => heatmapDrawing({ ...matrix, rows: matrix.rows.slice(0, drawnRows), ...colours, title }),
      rows: () => [["place", "other", "product"], ...matrixCells(matrix, x => x)],
    }),
  );
  return { element, update };
}
