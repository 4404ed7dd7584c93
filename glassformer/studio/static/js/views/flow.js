// The sentence on its way through the model: one block after the other lights up, with the tensors on the arrows.

import { linkToView, replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { explanation, panel } from "../components.js";
import { h, ifLatest, refill, s } from "../dom.js";
import { hiddenCanvas, paint } from "../heatmap.js";
import { hasMessage, t } from "../i18n.js";
import { blockPlace, tensorLabel } from "../labels.js";
import { clamp } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { tensorColour } from "../tensor_names.js";
import { largestMagnitude } from "../vectors.js";
import { architectureFigure } from "./architecture.js";
import { Player } from "./player.js";

/** @import { Block, Recipe, Trace, ViewContext } from "../types.js" */
/** @import { PlacedArrow } from "./architecture.js" */

const DEFAULT_WIDTH = 560; // pixels of the figure before it is in the page
const RESIZE_TOLERANCE = 8; // pixels
const GAP = 40; // pixels between blocks, for the strips beside the arrows
const STRIP = { width: 84, height: 20 }; // pixels
const MOST_NUMBERS = 2 ** 16; // of a tensor that is drawn
const DURATION = 1500; // milliseconds per block

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  const { blocks } = trace.figure;
  let step = clamp(wholeNumber(address.step, 0), 0, blocks.length - 1);
  const figure = h("div", { class: "figure" });
  const detail = h("section", { class: "panel detail", "aria-live": "polite" });
  const redraw = async (/** @type {number} */ wanted) => {
    const moved = figure.childElementCount > 0;
    step = clamp(wanted, 0, blocks.length - 1);
    replaceAddress({ step: step || null });
    player.show(step, blockTitle(blocks[step]));
    await drawFigure(figure, trace, step, open, moved);
    await drawStep(detail, trace, step);
  };
  const open = (/** @type {string} */ id) => {
    player.pause();
    return redraw(blocks.findIndex(block => block.id === id));
  };
  const player = new Player(t("step"), redraw, DURATION);
  player.setCount(blocks.length);
  const introduction = [h("h2", {}, t("view flow")), explanation(t("flow says")), player.element];
  place.append(h("div", { class: "two worksheet playing" }, panel(introduction, figure, stepTable(trace)), detail));
  await redraw(step);
  const resizing = new ResizeObserver(() => {
    const drawn = figure.querySelector("svg")?.viewBox.baseVal.width;
    const width = figure.clientWidth;
    if (drawn && width && Math.abs(drawn - width) > RESIZE_TOLERANCE) drawFigure(figure, trace, step, open);
  });
  resizing.observe(figure);
  return () => {
    player.pause();
    resizing.disconnect();
  };
}

/** @param {Block} block */
const blockTitle = block => [t(`block ${block.kind}`), blockPlace(block)].filter(Boolean).join(" · ");

/** @param {Trace} trace */
const stepTable = trace =>
  foldedTable(() =>
    dataTable(
      t("view flow"),
      [t("step"), t("block"), t("output shape")],
      trace.figure.blocks.map((block, i) => {
        const last = block.tensors[block.tensors.length - 1];
        return [String(i + 1), blockTitle(block), shapeText(trace.tensors[last])];
      }),
    ),
  );

/** @param {number[]} shape */
const shapeText = shape => shape.join(" × ");

// ---------------------------------------------------------------- the figure

/**
 * Draw the layer of the current block. Blocks that were computed are filled, and so are the arrows that leave them.
 *
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {number} step
 * @param {(id: string) => void} onchoose
 * @param {boolean} [moved]  whether to scroll to the block
 */
async function drawFigure(place, trace, step, onchoose, moved = false) {
  const { blocks, arrows } = trace.figure;
  const done = new Set(blocks.slice(0, step + 1).map(block => block.id));
  const layer = blocks[step].layer ?? (blocks[step].side === "encoder" && step > 0 ? lastLayer(blocks) : 0);
  const visible = new Set(blocks.flatMap(block => (block.layer === null || block.layer <= layer ? [block.id] : [])));
  const shown = arrows.filter(([from, to]) => done.has(from) && visible.has(to)).map(([, , tensor]) => tensor);
  const loaded = await ifLatest(place, Promise.all([...new Set(shown)].map(name => loadStrip(trace, name))));
  if (!loaded) return;
  const strips = new Map(loaded);
  const beside = (/** @type {PlacedArrow} */ arrow) =>
    done.has(arrow.from) && strips.has(arrow.tensor) && arrowLabel(trace, arrow, strips.get(arrow.tensor) ?? null);
  const width = place.clientWidth || DEFAULT_WIDTH;
  const focused = place.contains(document.activeElement);
  const svg = architectureFigure(trace, { layer, chosen: blocks[step].id, width, gap: GAP, onchoose, beside });
  for (const element of svg.querySelectorAll(".block")) {
    element.classList.toggle("done", done.has(element.getAttribute("data-block") ?? ""));
  }
  for (const element of svg.querySelectorAll(".arrow")) {
    element.classList.toggle("waiting-arrow", !done.has(element.getAttribute("data-from") ?? ""));
  }
  refill(place, svg);
  const current = svg.querySelector("g[aria-pressed=true]");
  if (focused && current instanceof SVGElement) current.focus({ preventScroll: true });
  if (moved) current?.scrollIntoView({ block: "nearest" });
}

/** @param {Block[]} blocks */
const lastLayer = blocks => Math.max(0, ...blocks.map(block => (block.side === "encoder" ? (block.layer ?? 0) : 0)));

/**
 * The numbers of a tensor as one canvas: one row per token, one column per dimension. Heads are side by side.
 *
 * @param {Trace} trace
 * @param {string} name
 * @returns {Promise<[string, HTMLCanvasElement | null]>}  null for a tensor that is too large
 */
async function loadStrip(trace, name) {
  const shape = trace.tensors[name];
  if (shape.reduce((a, b) => a * b, 1) > MOST_NUMBERS) return [name, null];
  const { numbers } = await api.tensorValues(trace.id, name);
  const width = shape.length > 1 ? shape[shape.length - 1] : 1;
  const colours = { hue: tensorColour(name), most: largestMagnitude(numbers) };
  return [name, paint(hiddenCanvas("strip"), numbers, numbers.length / width, width, colours)];
}

/**
 * The shape of the tensor on an arrow, and its numbers as colours.
 *
 * @param {Trace} trace
 * @param {PlacedArrow} arrow
 * @param {HTMLCanvasElement | null} strip
 */
function arrowLabel(trace, { tensor, x, y, width: column }, strip) {
  const width = Math.min(STRIP.width, column / 2 - 14);
  const box = { x: x - width - 10, y: y - STRIP.height / 2, width, height: STRIP.height };
  const copy = strip && paintedCopy(strip);
  return s(
    "g",
    { class: "on-arrow" },
    copy && s("foreignObject", box, copy),
    s("text", { x: x + 10, y: y + 4 }, shapeText(trace.tensors[tensor])),
    s("title", {}, `${tensorLabel(tensor)}, ${shapeText(trace.tensors[tensor])}`),
  );
}

/**
 * An element can be in one place only, and a tensor may be on several arrows.
 *
 * @param {HTMLCanvasElement} canvas
 */
function paintedCopy(canvas) {
  const copy = hiddenCanvas("strip");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  copy.getContext("2d")?.drawImage(canvas, 0, 0);
  return copy;
}

// ---------------------------------------------------------------- the current block

/**
 * What the current block reads and computes. The tensor under the pointer marks its operands and results.
 *
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {number} step
 */
async function drawStep(place, trace, step) {
  const { blocks, arrows } = trace.figure;
  const block = blocks[step];
  const read = [...new Set(arrows.filter(([, to]) => to === block.id).map(([, , tensor]) => tensor))];
  const names = [...read, ...block.tensors];
  const loading = Promise.all([
    Promise.all(block.tensors.map(name => api.recipe(trace.id, name))),
    Promise.all(names.map(name => loadStrip(trace, name))),
  ]);
  const loaded = await ifLatest(place, loading);
  if (!loaded) return;
  const [recipes, strips] = loaded;
  const recipeOf = new Map(block.tensors.map((name, i) => [name, recipes[i]]));
  /** @param {string} name */
  const saysOf = name => {
    const recipe = recipeOf.get(name);
    if (recipe) return `= ${formulaOf(recipe)}`;
    const from = blocks.find(({ tensors }) => tensors.includes(name));
    return from ? t("flow from", { block: blockTitle(from) }) : "";
  };
  const items = new Map(strips.map(([name, strip]) => [name, tensorItem(trace, name, strip, saysOf(name))]));
  linkItems(items, recipeOf);
  /** @param {string[]} list */
  const listOf = list =>
    h(
      "ul",
      { class: "tensors" },
      list.map(name => items.get(name) ?? null),
    );
  const address = linkToView("worksheet", { block: block.id, layer: block.layer || null });
  refill(
    place,
    h("p", { class: "soft" }, t("step n of", { n: step + 1, all: blocks.length })),
    h("h2", { tabindex: "-1" }, t(`block ${block.kind}`), " ", h("span", { class: "soft" }, blockPlace(block))),
    hasMessage(`about ${block.kind}`) && h("p", {}, t(`about ${block.kind}`)),
    read.length > 0 && [h("h3", {}, t("flow reads")), listOf(read)],
    h("h3", {}, t("flow computes")),
    listOf(block.tensors),
    h("p", {}, h("a", { href: address }, t("open in worksheet"))),
    foldedTable(() =>
      dataTable(
        blockTitle(block),
        [t("matrices"), t("shape"), t("formula")],
        names.map(name => [tensorLabel(name), shapeText(trace.tensors[name]), formulaOf(recipeOf.get(name))]),
      ),
    ),
  );
}

/** @param {Recipe | undefined} recipe */
const formulaOf = recipe => (recipe ? t(recipe.formula) : "");

/**
 * @param {Trace} trace
 * @param {string} name
 * @param {HTMLCanvasElement | null} strip
 * @param {string} says  the formula, or where it comes from
 */
const tensorItem = (trace, name, strip, says) =>
  h(
    "li",
    { title: name, tabindex: "0" },
    h("span", {}, tensorLabel(name), " ", h("span", { class: "soft" }, shapeText(trace.tensors[name]))),
    h("span", { class: "soft" }, says),
    strip,
  );

/**
 * @param {Map<string, HTMLElement>} items  by tensor
 * @param {Map<string, Recipe>} recipeOf
 */
function linkItems(items, recipeOf) {
  for (const [name, item] of items) {
    const mark = (/** @type {boolean} */ on) => {
      for (const [other, element] of items) {
        element.classList.toggle("reads", on && (recipeOf.get(name)?.parents.includes(other) ?? false));
        element.classList.toggle("results", on && (recipeOf.get(other)?.parents.includes(name) ?? false));
      }
    };
    for (const event of ["pointerenter", "focus"]) item.addEventListener(event, () => mark(true));
    for (const event of ["pointerleave", "blur"]) item.addEventListener(event, () => mark(false));
  }
}
