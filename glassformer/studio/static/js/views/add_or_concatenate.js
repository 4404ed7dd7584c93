// Embedding and positional encoding in one vector: added, as in the paper, or concatenated, and what each does to a
// dot product.

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
import { choice, h, ifLatest, refill, select } from "../dom.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { heatmap, hiddenCanvas, paint } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { formatShort } from "../numbers.js";
import { cellSize, clamp, indexOptions } from "../ranges.js";
import { dataTable, foldedMatrix, matrixCells } from "../table.js";
import { lastPart } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { add, largestMagnitude, norm, pairwiseDotProducts, row } from "../vectors.js";
import { isRotary, noPositionsMessage, sidesWithPositions } from "./positional_encoding.js";

/** @import { Address, CellIndex, Numbers, Trace } from "../types.js" */
/** @typedef {{ side: string, a: number, b: number }} State  a, b: the two chosen tokens */
/**
 * @typedef {object} Vectors
 * @property {string} result  name of the tensor that the first layer reads
 * @property {string} formula
 * @property {string[]} tokens
 * @property {number} width
 * @property {Numbers} embeddings
 * @property {Numbers} encodings
 * @property {Numbers} sums
 * @property {Float64Array[]} terms  dot products: word·word, word·position, position·word, position·position
 * @property {Float64Array} added  dot products of the sums
 * @property {Float64Array} concatenated  dot products of the concatenations
 */
/** @typedef {{ element: HTMLElement, update: () => void }} Part */

const TERMS = ["word word", "word place", "place word", "place place"]; // keys of messages
const ALSO_CONCATENATED = [true, false, false, true]; // whether a term is part of the concatenations' dot product

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {Address} address
 */
export async function addOrConcatenatePart(place, trace, address) {
  const sides = isRotary(trace) ? [] : sidesWithPositions(trace); // nothing is added to the embeddings
  if (!sides.length) return refill(place, emptyMessage(noPositionsMessage(trace)));
  /** @type {State} */
  const state = {
    side: sides.find(side => side === address.side) ?? sides[0],
    a: wholeNumber(address.a, 1),
    b: wholeNumber(address.b, 0),
  };
  const redraw = async (/** @type {Partial<State>} */ changes = {}) => {
    Object.assign(state, changes);
    const vectors = await ifLatest(place, loadVectors(trace, state.side));
    if (!vectors) return;
    const content = h("div", { class: "view" });
    const sideChoice = choice(
      t("side"),
      sides.map(side => [side, t(`side ${side}`)]),
      state.side,
      side => redraw({ side, a: 1, b: 0 }),
    );
    refillKeepingFocus(place, sides.length > 1 && h("div", { class: "controls tight" }, sideChoice), content);
    drawVectors(content, vectors, state);
  };
  await redraw();
}

/**
 * @param {Trace} trace
 * @param {string} side
 * @returns {Promise<Vectors>}
 */
async function loadVectors(trace, side) {
  const result = trace.tensors[`${side}.sum`] ? `${side}.sum` : `${side}.input`;
  const segmentName = `${side}.segment_vectors`;
  const [embedding, encoding, sum, segments, recipe] = await Promise.all([
    api.tensorValues(trace.id, `${side}.embedding`),
    api.tensorValues(trace.id, `${side}.positions`),
    api.tensorValues(trace.id, result),
    trace.tensors[segmentName] ? api.tensorValues(trace.id, segmentName) : null,
    api.recipe(trace.id, result),
  ]);
  const width = encoding.shape[1];
  const embeddings = segments ? add(embedding.numbers, segments.numbers) : embedding.numbers;
  const encodings = encoding.numbers;
  const terms = [embeddings, encodings].flatMap(x =>
    [embeddings, encodings].map(y => pairwiseDotProducts(x, y, width)),
  );
  const concatenated = add(terms[0], terms[3]);
  return {
    result,
    formula: recipe.formula,
    tokens: (side === "encoder" ? trace.source : trace.target).map(tokenText),
    width,
    embeddings,
    encodings,
    sums: sum.numbers,
    terms,
    added: add(add(terms[0], terms[1]), add(terms[2], terms[3])),
    concatenated,
  };
}

/**
 * @param {HTMLElement} place
 * @param {Vectors} vectors
 * @param {State} state
 */
function drawVectors(place, vectors, state) {
  const last = vectors.tokens.length - 1;
  const choose = (/** @type {CellIndex} */ [a, b]) => {
    Object.assign(state, { a, b });
    replaceAddress({ side: state.side, a, b });
    for (const part of [top, ...maps]) part.update();
  };
  const top = vectorsPanel(vectors, state, choose);
  const maps = [
    productMap("added", vectors, vectors.added, state, choose),
    productMap("concatenated", vectors, vectors.concatenated, state, choose),
  ];
  refill(
    place,
    top.element,
    h(
      "div",
      { class: "two" },
      maps.map(({ element }) => element),
    ),
  );
  choose([clamp(state.a, 0, last), clamp(state.b, 0, last)]);
}

/**
 * Two tokens, the vectors of the first, and the four products that add up to the dot product of the sums.
 *
 * @param {Vectors} vectors
 * @param {State} state
 * @param {(cell: CellIndex) => void} choose
 * @returns {Part}
 */
function vectorsPanel(vectors, state, choose) {
  const { width, tokens, embeddings, encodings, sums } = vectors;
  const options = indexOptions(tokens.length, i => `${i + 1} ${tokens[i]}`);
  const first = select(options, state.a, value => choose([Number(value), state.b]));
  const second = select(options, state.b, value => choose([state.a, Number(value)]));
  const content = h("div", {});
  const update = () => {
    first.value = String(state.a);
    second.value = String(state.b);
    const title = t("products title", { a: options[state.a][1], b: options[state.b][1] });
    refill(
      content,
      vectorStrip(t("word vector"), row(embeddings, width, state.a), "--embedding"),
      vectorStrip(t("place vector"), row(encodings, width, state.a), "--positions"),
      vectorStrip(t("both vector"), row(sums, width, state.a), "--plus"),
      scrollRegion(title, dataTable(title, ["", t("added"), t("concatenated")], termRows(vectors, state))),
    );
  };
  const element = panel(
    h("h2", {}, t("together title")),
    explanation(t("together says", { n: width, m: 2 * width })),
    h(
      "p",
      { class: "formula" },
      `${t("this model")}: `,
      h("code", {}, `${lastPart(vectors.result)} = ${vectors.formula}`),
    ),
    controls(
      h("label", { class: "range" }, t("first token"), " ", first),
      h("label", { class: "range" }, t("second token"), " ", second),
    ),
    content,
    explanation(t("products say")),
  );
  return { element, update };
}

/**
 * @param {Vectors} vectors
 * @param {State} state
 */
function termRows({ tokens, terms, added, concatenated }, { a, b }) {
  const i = a * tokens.length + b;
  const rows = TERMS.map((term, n) => {
    const product = formatShort(terms[n][i]);
    return [t(term), product, ALSO_CONCATENATED[n] ? product : "–"];
  });
  return [...rows, [t("sum"), formatShort(added[i]), formatShort(concatenated[i])]];
}

/**
 * @param {string} name
 * @param {Numbers} vector
 * @param {string} hue
 */
const vectorStrip = (name, vector, hue) =>
  h(
    "div",
    { class: "operand" },
    h("span", { class: "role" }, name),
    paint(hiddenCanvas("strip"), vector, 1, vector.length, { hue, most: largestMagnitude(vector) }),
    h("span", { class: "soft number" }, t("length n", { n: formatShort(norm(vector)) })),
  );

/**
 * Dot products of all pairs of tokens. Both maps share one colour scale.
 *
 * @param {string} name  "added" or "concatenated": keys of messages
 * @param {Vectors} vectors
 * @param {Float64Array} numbers
 * @param {State} state
 * @param {(cell: CellIndex) => void} choose
 * @returns {Part}
 */
function productMap(name, { tokens, terms, added }, numbers, state, choose) {
  const title = t(`product ${name}`);
  const matrix = { numbers, rows: tokens, columns: tokens };
  const colours = { hue: "--embedding", most: largestMagnitude(added) };
  const chosen = readout();
  const map = heatmap({
    ...matrix,
    ...colours,
    size: cellSize(380, tokens.length, 12, 26),
    label: withArrowKeys(title),
    onchoose: choose,
  });
  const update = () => {
    const { a, b } = state;
    map.markCell([a, b]);
    const product = formatShort(numbers[a * tokens.length + b]);
    refill(chosen, `${tokens[a]} · ${tokens[b]}: `, h("strong", {}, product));
  };
  const element = panel(
    h("h2", {}, title),
    explanation(t(`product ${name} says`)),
    scrollBox(map),
    chosen,
    foldedMatrix(title, matrix, formatShort),
    exportButtons(`positions-${name}`, {
      drawing: () => heatmapDrawing({ ...matrix, ...colours, title }),
      rows: () => [
        ["row", "column", ...TERMS, "product"],
        ...matrixCells(matrix, x => x).map(([a, b, x], i) => [a, b, ...terms.map(term => term[i]), x]),
      ],
    }),
  );
  return { element, update };
}
