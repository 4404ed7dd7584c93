// An image as the Vision Transformer reads it: the picture, the grid of patches, and the attention of each head on it.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { controls, emptyMessage, explanation, panel, readout } from "../components.js";
import { checkbox, h, ifLatest } from "../dom.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { hiddenCanvas, paint } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { layerAndHead, layerLabel } from "../labels.js";
import { formatCsv, formatShort } from "../numbers.js";
import { clamp, countedNames, range } from "../ranges.js";
import { foldedMatrix, matrixRows } from "../table.js";
import { largestMagnitude, row as matrixRow, softmax, total } from "../vectors.js";
import { barList } from "./bars.js";

/** @import { CellIndex, Trace, ViewContext } from "../types.js" */
/** @typedef {{ layer: number, head: number, row: number, picture: boolean, colour: boolean }} State
 *   row: 0 is the class token; picture, colour: whether the image and the attention weights are shown */

const PICTURE_WIDTH = 320; // pixels
const CLASS_TOKEN = 0;
const SHOWN_LABELS = 6;
/** @type {Record<string, CellIndex>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  if (!trace.grid) return place.append(emptyMessage(t("no image")));
  const { layers, heads } = trace.looks.encoder;
  /** @type {State} */
  const state = {
    layer: Math.min(wholeNumber(address.layer, layers - 1), layers - 1),
    head: Math.min(wholeNumber(address.head, 0), heads - 1),
    row: Math.min(wholeNumber(address.row, CLASS_TOKEN), trace.source.length - 1),
    picture: address.picture !== "0",
    colour: address.colour !== "0",
  };
  const [overlay, grid] = [h("section", { class: "panel" }), h("section", { class: "panel" })];
  const redraw = async (/** @type {Partial<State>} */ changes = {}) => {
    Object.assign(state, changes);
    replaceAddress({ ...state, picture: state.picture ? null : 0, colour: state.colour ? null : 0 });
    await drawOverlay(overlay, trace, state, redraw);
    await drawHeads(grid, trace, state, redraw);
  };
  place.append(h("div", { class: "two even" }, overlay, grid), await labelsPanel(trace));
  await redraw();
}

/**
 * The picture on a canvas, one pixel per pixel.
 *
 * @param {Trace} trace
 */
async function pictureCanvas(trace) {
  const { numbers, shape } = await api.tensorValues(trace.id, "encoder.pixels");
  const [channels, height, width] = shape;
  const canvas = h("canvas", { width, height, class: "picture", role: "img", "aria-label": t("picture") });
  const image = new ImageData(width, height);
  const size = height * width;
  for (let i = 0; i < size; i++) {
    const colour = range(3).map(channel => numbers[(channels === 3 ? channel : 0) * size + i]);
    image.data.set([...colour, 255], 4 * i);
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

/**
 * @param {Trace} trace
 * @param {number} row
 */
const queryName = (trace, row) => (row === CLASS_TOKEN ? t("class token") : t("patch at", { at: trace.source[row] }));

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {State} state
 * @param {(changes: Partial<State>) => void} redraw
 */
async function drawOverlay(place, trace, state, redraw) {
  const name = trace.looks.encoder.names[state.layer];
  const loading = Promise.all([
    api.tensorValues(trace.id, name, [state.head]),
    state.picture ? pictureCanvas(trace) : null,
  ]);
  const loaded = await ifLatest(place, loading);
  if (!loaded) return;
  const [{ numbers }, canvas] = loaded;
  const weights = matrixRow(numbers, trace.source.length, state.row);
  const title = t("image attention", {
    query: queryName(trace, state.row),
    head: layerAndHead(state.layer, state.head),
  });
  const [down, across] = /** @type {[number, number]} */ (trace.grid);
  const matrix = { numbers: weights.slice(1), rows: countedNames(down), columns: countedNames(across) };
  const best = 1 + weights.subarray(1).indexOf(Math.max(...weights.subarray(1)));
  const values = { patch: trace.source[best], x: formatShort(weights[best]), y: formatShort(weights[CLASS_TOKEN]) };
  refillKeepingFocus(
    place,
    h("h2", {}, t("image title")),
    explanation(t("image says", { n: trace.source.length - 1 })),
    h("h3", { "aria-live": "polite" }, title),
    patchGrid(trace, state, weights, canvas, redraw),
    readout(t("image weights", values)),
    controls(
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(state.row === CLASS_TOKEN),
          onclick: () => redraw({ row: CLASS_TOKEN }),
        },
        t("class token"),
      ),
      checkbox(t("show picture"), state.picture, picture => redraw({ picture })),
      checkbox(t("show weights of patches"), state.colour, colour => redraw({ colour })),
    ),
    foldedMatrix(title, matrix),
    exportButtons("image-attention", {
      drawing: () => heatmapDrawing({ ...matrix, most: largestMagnitude(matrix.numbers), title }),
      rows: () => [["", ...matrix.columns], ...matrixRows(matrix, formatCsv)],
    }),
  );
}

/**
 * The picture under a grid of patches; the more weight a patch has, the stronger its colour. A patch is chosen by mouse
 * or arrow keys.
 *
 * @param {Trace} trace
 * @param {State} state
 * @param {Float32Array} weights  of the class token and of all patches
 * @param {HTMLCanvasElement | null} canvas  the picture; null if it is not shown
 * @param {(changes: Partial<State>) => void} redraw
 */
function patchGrid(trace, state, weights, canvas, redraw) {
  const [down, across] = /** @type {[number, number]} */ (trace.grid);
  const most = largestMagnitude(weights.subarray(1)) || 1;
  const cells = range(down * across).map(i => {
    const cell = h("span", { class: state.row === i + 1 ? "chosen" : null, title: formatShort(weights[i + 1]) });
    cell.style.setProperty("--share", String(weights[i + 1] / most));
    return cell;
  });
  const choose = (/** @type {number} */ y, /** @type {number} */ x) =>
    redraw({ row: 1 + clamp(y, 0, down - 1) * across + clamp(x, 0, across - 1) });
  const field = h(
    "div",
    {
      class: "field patches",
      tabindex: "0",
      role: "application",
      "aria-label": `${t("patch grid")}. ${t("arrow keys")}`,
      onclick: event => {
        const box = field.getBoundingClientRect();
        const share = [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
        choose(Math.floor(share[0] * down), Math.floor(share[1] * across));
      },
      onkeydown: event => {
        const arrow = ARROWS[event.key];
        if (!arrow) return;
        event.preventDefault();
        const at = Math.max(0, state.row - 1);
        choose(Math.floor(at / across) + arrow[0], (at % across) + arrow[1]);
      },
    },
    canvas,
    h("div", { class: state.colour ? "overlay" : "overlay bare", "aria-hidden": "true" }, cells),
  );
  field.style.aspectRatio = `${across} / ${down}`;
  field.style.width = `min(100%, ${PICTURE_WIDTH}px)`;
  field.style.setProperty("--across", String(across));
  return field;
}

/**
 * All heads of all layers: the attention of the chosen query to the patches.
 *
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {State} state
 * @param {(changes: Partial<State>) => void} redraw
 */
async function drawHeads(place, trace, state, redraw) {
  const { names } = trace.looks.encoder;
  const loaded = await ifLatest(place, Promise.all(names.map(name => api.tensorValues(trace.id, name))));
  if (!loaded) return;
  const lines = loaded.map(({ numbers, shape }, layer) => {
    const [heads, tokens] = shape;
    const thumbs = range(heads).map(head => {
      const weights = matrixRow(numbers, tokens, head * tokens + state.row);
      return headThumb(trace, weights, layerAndHead(layer, head), layer === state.layer && head === state.head, () =>
        redraw({ layer, head }),
      );
    });
    return h(
      "div",
      { class: "row" },
      h("span", { class: "soft" }, layerLabel(layer)),
      h("div", { class: "heads" }, thumbs),
    );
  });
  refillKeepingFocus(
    place,
    h("h2", {}, t("all heads")),
    explanation(t("image heads say", { query: queryName(trace, state.row) })),
    h("div", { class: "thumbs" }, lines),
  );
}

/**
 * @param {Trace} trace
 * @param {Float32Array} weights
 * @param {string} label
 * @param {boolean} chosen
 * @param {() => void} onclick
 */
function headThumb(trace, weights, label, chosen, onclick) {
  const [down, across] = /** @type {[number, number]} */ (trace.grid);
  const patches = weights.subarray(1);
  const canvas = paint(hiddenCanvas(), patches, down, across, { most: largestMagnitude(patches) });
  return h(
    "button",
    {
      type: "button",
      class: "thumb",
      "data-value": label,
      "aria-label": `${label}: ${t("weight of patches", { x: formatShort(total(patches)) })}`,
      "aria-pressed": String(chosen),
      onclick,
    },
    canvas,
  );
}

/** @param {Trace} trace */
async function labelsPanel(trace) {
  const [[...labels], { numbers }] = await Promise.all([
    api.candidates(trace.id, SHOWN_LABELS).then(([first]) => first),
    api.tensorValues(trace.id, "logits"),
  ]);
  const probabilities = softmax(numbers);
  const element = panel(h("h2", {}, t("could choose")));
  const bars = labels.map(({ token, piece }) => ({
    name: piece,
    share: probabilities[token],
    marked: piece === trace.output,
  }));
  element.append(barList(bars));
  return element;
}
