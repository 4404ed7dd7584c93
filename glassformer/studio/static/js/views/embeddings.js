// Token embeddings: the cosine similarity of the tokens of the sentence, and the nearest tokens of the vocabulary.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { controls, emptyMessage, explanation, readout, scrollBox, withArrowKeys } from "../components.js";
import { choice, h, ifLatest, refill } from "../dom.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { formatExact, formatShort } from "../numbers.js";
import { cellSize, clamp } from "../ranges.js";
import { dataTable, foldedMatrix, foldedTable } from "../table.js";
import { tokenText } from "../tokens.js";
import { norm, pairwiseDotProducts, row } from "../vectors.js";
import { barItem, barTrack } from "./bars.js";

/** @import { Trace, ViewContext } from "../types.js" */
/** @typedef {{ side: string, what: string, token: number }} State */

const SIDES = ["encoder", "decoder"];
/** Tensors whose rows are compared: without context, with position, with context. */
const KINDS = ["vectors", "input", "memory", "hidden"];

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  const sides = SIDES.filter(side => trace.tensors[`${side}.vectors`]);
  if (!sides.length) return place.append(emptyMessage(t("no embeddings")));
  const state = {
    side: sides.find(side => side === address.side) ?? sides[0],
    what: address.what ?? "vectors",
    token: wholeNumber(address.token, 0),
  };
  const [similarities, neighbours] = [h("section", { class: "panel" }), h("section", { class: "panel" })];
  const redraw = async (/** @type {Partial<State>} */ changes = {}) => {
    Object.assign(state, changes);
    const tokens = tokensOf(trace, state.side);
    state.token = clamp(state.token, 0, tokens.length - 1);
    if (!kindsOf(trace, state.side).includes(state.what)) state.what = "vectors";
    await drawSimilarities(similarities, trace, state, sides, redraw, chooseToken);
    await chooseToken(state.token);
  };
  const chooseToken = async (/** @type {number} */ token) => {
    state.token = token;
    replaceAddress({ ...state, what: state.what === "vectors" ? null : state.what });
    await drawNeighbours(neighbours, trace, state, tokensOf(trace, state.side));
  };
  place.append(h("div", { class: "two even" }, similarities, neighbours));
  await redraw();
}

/**
 * The kinds of vectors of a side. Without positional vectors, the input of the first layer is left out.
 *
 * @param {Trace} trace
 * @param {string} side
 */
const kindsOf = (trace, side) =>
  KINDS.filter(kind => trace.tensors[`${side}.${kind}`] && (kind !== "input" || `${side}.positions` in trace.tensors));

/**
 * @param {Trace} trace
 * @param {string} side
 */
const tokensOf = (trace, side) => (side === "encoder" ? trace.source : trace.target).map(tokenText);

/**
 * The cosine similarities of all pairs of rows.
 *
 * @param {Float32Array} numbers
 * @param {number} width
 */
function cosines(numbers, width) {
  const products = pairwiseDotProducts(numbers, numbers, width);
  const count = numbers.length / width;
  const norms = Array.from({ length: count }, (_, i) => norm(row(numbers, width, i)));
  return products.map((product, i) => product / (norms[Math.floor(i / count)] * norms[i % count] || 1));
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {State} state
 * @param {string[]} sides
 * @param {(changes: Partial<State>) => void} redraw
 * @param {(token: number) => void} chooseToken
 */
async function drawSimilarities(place, trace, state, sides, redraw, chooseToken) {
  const tokens = tokensOf(trace, state.side);
  const loaded = await ifLatest(place, api.tensorValues(trace.id, `${state.side}.${state.what}`));
  if (!loaded) return;
  const { numbers, shape } = loaded;
  const matrix = { numbers: cosines(numbers, shape[1]), rows: tokens, columns: tokens };
  const kinds = kindsOf(trace, state.side);
  const title = `${t("token similarity title")}: ${t(`compare ${state.what}`)}`;
  const chosen = readout(t("choose a similarity"));
  const map = heatmap({
    ...matrix,
    hue: "--embedding",
    most: 1,
    size: cellSize(400, tokens.length, 12, 34),
    label: withArrowKeys(title),
    onchoose: ([r, c]) => {
      const value = h("strong", {}, formatShort(matrix.numbers[r * tokens.length + c]));
      refill(chosen, `${tokens[r]} · ${tokens[c]}: `, value);
      if (r !== state.token) chooseToken(r);
    },
  });
  refillKeepingFocus(
    place,
    h("h2", {}, t("token similarity title")),
    explanation(t("token similarity says")),
    controls(
      sides.length > 1 &&
        choice(
          t("side"),
          sides.map(side => [side, t(`side ${side}`)]),
          state.side,
          side => redraw({ side, token: 0 }),
        ),
      choice(
        t("compared vectors"),
        kinds.map(kind => [kind, t(`compare ${kind}`)]),
        state.what,
        what => redraw({ what }),
      ),
    ),
    scrollBox(map),
    chosen,
    foldedMatrix(title, matrix),
    exportButtons(`similarity-${state.side}-${state.what}`, {
      drawing: () => heatmapDrawing({ ...matrix, hue: "--embedding", most: 1, title }),
      rows: () => [["", ...tokens], ...tokens.map((name, r) => [name, ...row(matrix.numbers, tokens.length, r)])],
    }),
  );
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {State} state
 * @param {string[]} tokens
 */
async function drawNeighbours(place, trace, { side, token }, tokens) {
  const found = await ifLatest(place, api.nearestTokens(trace.id, side, token));
  if (!found) return;
  const title = t("nearest title", { token: tokens[token] });
  const bars = found.map(({ piece, similarity }) =>
    barItem(
      tokenText(piece),
      barTrack(Math.max(0, similarity), "embedding"),
      formatShort(similarity),
      formatExact(similarity),
    ),
  );
  refill(
    place,
    h("h2", { "aria-live": "polite" }, title),
    explanation(t("nearest says")),
    h("ol", { class: "bars" }, bars),
    foldedTable(() =>
      dataTable(
        title,
        [t("token"), t("similarity")],
        found.map(({ piece, similarity }) => [tokenText(piece), formatExact(similarity)]),
      ),
    ),
  );
}
