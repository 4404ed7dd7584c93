// Attention weights: all heads of all layers, one head, one token.

import { pushAddress, replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { focusedHead, headWeights, shownWeights } from "../attention_weights.js";
import { controls, emptyMessage, explanation, readout, scrollBox, withArrowKeys } from "../components.js";
import { checkbox, choice, h, ifLatest, refill } from "../dom.js";
import { exportButtons } from "../export.js";
import { heatmap, hiddenCanvas, paint } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { layerAndHead, layerLabel } from "../labels.js";
import { formatCsv, formatExact, formatShort } from "../numbers.js";
import { cellSize, range } from "../ranges.js";
import { foldedMatrix, matrixCells } from "../table.js";
import { row as matrixRow, total } from "../vectors.js";
import { attentionLines } from "./attention_lines.js";
import { barList } from "./bars.js";

/** @import { Head } from "../attention_weights.js" */
/** @import { Address, Attention, CellIndex, Matrix, Trace, ViewContext } from "../types.js" */
/**
 * @typedef {object} State
 * @property {string} kind
 * @property {string} as  "map" or "lines"
 * @property {boolean} words
 * @property {boolean} hide
 * @property {number} layer
 * @property {Head} head
 * @property {number | null} row  a token of the chosen row
 * @property {number | null} column  a token of the chosen column; null: the column with the largest weight of the row
 */
/** @typedef {Matrix<Float32Array> & { rowGroups: number[][], columnGroups: number[][] }} ShownHead */
/** @typedef {(changes?: Partial<State>) => Promise<void>} Redraw */

const KINDS = ["encoder", "cross", "question", "decoder"];

/**
 * @param {Trace} trace
 * @param {Address} address
 * @param {string[]} kinds
 * @returns {State}
 */
function initialState(trace, address, kinds) {
  const kind = kinds.find(name => name === address.kind) ?? kinds[0];
  const { layers, heads } = trace.looks[kind];
  return {
    kind,
    as: address.as ?? "map",
    words: address.words === "1",
    hide: address.hide === "1",
    layer: wholeNumber(address.layer, layers - 1),
    head: address.head === "mean" && heads > 1 ? "mean" : wholeNumber(address.head, 0),
    row: wholeNumber(address.row, null),
    column: wholeNumber(address.column, null),
  };
}

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  const kinds = KINDS.filter(kind => kind in trace.looks);
  if (!kinds.length) return place.append(emptyMessage(t("no attention")));
  const state = initialState(trace, address, kinds);
  const focus = await focusOf(trace, address, state);
  const grid = h("section", { class: "panel" });
  const detail = h("section", { class: "panel" });
  /** @type {Redraw} */
  const redraw = async (changes = {}) => {
    Object.assign(state, changes);
    const { words, hide, ...rest } = state;
    // The back button undoes the choice of a head.
    const note = "head" in changes ? pushAddress : replaceAddress;
    note({ ...rest, words: words ? 1 : null, hide: hide ? 1 : null, focus: null });
    if ("kind" in changes || !grid.childElementCount) await drawAllHeads(grid, trace, state, redraw);
    await drawHead(detail, trace, state, redraw);
    for (const button of grid.querySelectorAll(".thumb")) {
      const chosen = button.getAttribute("data-at") === `${state.layer},${state.head}`;
      button.setAttribute("aria-pressed", String(chosen));
    }
  };
  /** @param {string} kind */
  const changeKind = kind => redraw({ kind, layer: trace.looks[kind].layers - 1, head: 0, row: null, column: null });
  place.append(
    controls(
      choice(
        t("attention of"),
        kinds.map(kind => [kind, t(`kind ${kind}`)]),
        state.kind,
        changeKind,
      ),
    ),
    ...(focus ? [focus] : []),
    explanation(t("attention says")),
    h("div", { class: "two" }, grid, detail),
  );
  await redraw();
}

/**
 * Open the head that the address asks for by two words ("it,animal"), and say so.
 *
 * @param {Trace} trace
 * @param {Address} address
 * @param {State} state
 */
async function focusOf(trace, { focus }, state) {
  const [from, to] = (focus ?? "").split(",");
  const attention = trace.looks.encoder;
  if (!to || !attention) return null;
  const { bytes, shape } = await api.attentionWeights(trace.id, "encoder");
  const found = focusedHead(bytes, shape, trace.source, from, to);
  if (!found) return null;
  const { layer, head, row, keys } = found;
  const words = state.words || keys.length > 1; // a word that is split into subwords is shown as one
  Object.assign(state, { kind: "encoder", layer, head, row, column: keys[0], words });
  const { numbers } = await api.tensorValues(trace.id, attention.names[layer], [head, row]);
  const weight = total(keys.map(column => numbers[column]));
  return h("p", { class: "notice" }, t("focus says", { from, to, weight: formatShort(weight) }));
}

// ---------------------------------------------------------------- all heads

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {State} state
 * @param {Redraw} redraw
 */
async function drawAllHeads(place, trace, state, redraw) {
  const loaded = await ifLatest(place, api.attentionWeights(trace.id, state.kind));
  if (!loaded) return;
  const { bytes, shape } = loaded;
  const [layers, heads, rows, columns] = shape;
  const layerSize = heads * rows * columns;
  /** @type {(layer: number, head: Head) => HTMLElement} */
  const thumbnail = (layer, head) => {
    const layerWeights = bytes.subarray(layer * layerSize, (layer + 1) * layerSize);
    const canvas = paint(hiddenCanvas(), headWeights(layerWeights, heads, head), rows, columns, { most: 255 });
    return h(
      "button",
      {
        type: "button",
        class: "thumb",
        "data-at": `${layer},${head}`,
        "aria-label": layerAndHead(layer, head),
        onclick: () => redraw({ layer, head }),
      },
      canvas,
      head === "mean" && h("span", {}, t("mean")),
    );
  };
  /** @type {Head[]} */
  const shownHeads = heads > 1 ? [...range(heads), "mean"] : range(heads);
  const lines = range(layers).map(layer =>
    h(
      "div",
      { class: "row" },
      h("span", { class: "soft" }, layerLabel(layer)),
      h(
        "div",
        { class: "heads" },
        shownHeads.map(head => thumbnail(layer, head)),
      ),
    ),
  );
  refill(place, h("h2", {}, t("all heads")), explanation(t("all heads says")), h("div", { class: "thumbs" }, lines));
}

// ---------------------------------------------------------------- one head

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {State} state
 * @param {Redraw} redraw
 */
async function drawHead(place, trace, state, redraw) {
  const attention = trace.looks[state.kind];
  const tensor = attention.names[state.layer];
  const mean = state.head === "mean";
  if (!tensor || (state.head !== "mean" && state.head >= attention.heads)) {
    return refill(place, emptyMessage(t("no such head")));
  }
  const loading = api.tensorValues(trace.id, tensor, state.head === "mean" ? [] : [state.head]);
  const loaded = await ifLatest(place, loading);
  if (!loaded) return;
  const weights = mean ? headWeights(loaded.numbers, attention.heads, "mean") : loaded.numbers;
  const head = shownWeights(trace, attention, weights, { words: state.words, hideSpecial: state.hide });
  const title = `${t(`kind ${state.kind}`)}, ${layerAndHead(state.layer, state.head)}`;
  const exportTitle = trace.text ? `${title} · “${trace.text}”` : title;
  const matrix = interactiveHead(head, title, state);
  refill(
    place,
    h("h2", {}, title),
    headControls(trace, state, redraw),
    explanation(axesExplanation(attention, state)),
    scrollBox(matrix.drawing),
    matrix.chosenCell,
    matrix.chosenToken,
    foldedMatrix(title, head),
    exportButtons(`attention-${state.kind}-${state.layer}-${state.head}`, {
      title: matrix.drawing instanceof SVGSVGElement ? exportTitle : "",
      drawing: () =>
        matrix.drawing instanceof SVGSVGElement ? matrix.drawing : heatmapDrawing({ ...head, title: exportTitle }),
      rows: () => [["row", "column", "weight"], ...matrixCells(head, formatCsv)],
    }),
  );
}

/**
 * Draw the weights of a head as a heat map or as lines, with the chosen cell and the chosen row below.
 *
 * @param {ShownHead} head
 * @param {string} title
 * @param {State} state
 */
function interactiveHead(head, title, state) {
  const chosenCell = readout(t("choose a cell"));
  const chosenToken = h("div", { class: "token" });
  /** @type {(row: number, column: number | null) => void} */
  const choose = (row, column) => {
    state.row = head.rowGroups[row][0];
    state.column = column === null ? null : head.columnGroups[column][0];
    replaceAddress({ row: state.row, column: state.column });
    showCell([row, column ?? largestColumn(head, row)]);
  };
  const showCell = /** @param {CellIndex} cell */ ([row, column]) => {
    const weight = formatExact(head.numbers[row * head.columns.length + column]);
    refill(chosenCell, `${head.rows[row]} ⟶ ${head.columns[column]}: `, h("strong", {}, weight));
    drawToken(chosenToken, head, row);
  };
  const chosen = chosenIn(head, state);
  const size = cellSize(420, head.columns.length, 12, 26);
  const drawing =
    state.as === "lines"
      ? attentionLines({ ...head, chosen: chosen?.[0] ?? -1, label: title, onchoose: row => choose(row, null) })
      : heatmap({ ...head, label: withArrowKeys(title), size, chosen, onchoose: cell => choose(...cell) });
  if (chosen) showCell(chosen);
  return { drawing, chosenCell, chosenToken };
}

/**
 * The chosen cell of a head; null if no row is chosen.
 *
 * @param {ShownHead} head
 * @param {State} state
 * @returns {CellIndex | null}
 */
function chosenIn(head, { row, column }) {
  /** @type {(groups: number[][], token: number | null) => number} */
  const find = (groups, token) => groups.findIndex(group => token !== null && group.includes(token));
  const [chosenRow, chosenColumn] = [find(head.rowGroups, row), find(head.columnGroups, column)];
  if (chosenRow < 0) return null;
  return [chosenRow, chosenColumn < 0 ? largestColumn(head, chosenRow) : chosenColumn];
}

/**
 * @param {Trace} trace
 * @param {State} state
 * @param {Redraw} redraw
 */
const headControls = (trace, state, redraw) =>
  controls(
    choice(
      t("drawn as"),
      [
        ["map", t("as a map")],
        ["lines", t("as lines")],
      ],
      state.as,
      as => redraw({ as }),
    ),
    trace.traits.input !== "image" && [
      checkbox(t("whole words"), state.words, words => redraw({ words })),
      checkbox(t("hide special"), state.hide, hide => redraw({ hide })),
    ],
  );

/**
 * @param {Attention} attention
 * @param {State} state
 */
function axesExplanation(attention, state) {
  const down = attention.rows === "source" ? t("query tokens") : t("input predicted");
  const notes = [
    state.head === "mean" && t("mean says"),
    state.words && t("words say"),
    state.hide && t("hidden says"),
  ].filter(Boolean);
  return `${t("down")}: ${down}; ${t("across")}: ${t("key tokens")}. ${notes.join(" ")}`;
}

/**
 * The column with the largest weight of a row.
 *
 * @param {ShownHead} head
 * @param {number} row
 */
function largestColumn({ numbers, columns }, row) {
  const weights = matrixRow(numbers, columns.length, row);
  return weights.indexOf(Math.max(...weights));
}

// ---------------------------------------------------------------- one token

/**
 * @param {HTMLElement} place
 * @param {ShownHead} head
 * @param {number} row
 */
function drawToken(place, head, row) {
  const weights = matrixRow(head.numbers, head.columns.length, row);
  const bars = head.columns.map((name, c) => ({ name, share: weights[c], number: formatShort(weights[c]) }));
  refill(place, h("h3", {}, t("weights of token", { token: head.rows[row] })), barList(bars, "weights"));
}
