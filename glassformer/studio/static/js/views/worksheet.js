// The architecture with the sentence in it: a block, its tensors, one cell and how it is computed.

import { isEmbedded, linkToView, pushAddress, replaceAddress, wholeNumber } from "../address.js";
import { controls, explanation, panel, tokenChips } from "../components.js";
import { checkbox, choice, find, h, ifLatest, refill } from "../dom.js";
import { exportButtons } from "../export.js";
import { rememberFocus } from "../focus.js";
import { hasMessage, t } from "../i18n.js";
import { blockPlace, tensorLabel } from "../labels.js";
import { indexOptions } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { SHOWN_FIRST, lastPart } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { activationSteps } from "./activation_steps.js";
import { architectureFigure } from "./architecture.js";
import { attentionEquation } from "./attention_equation.js";
import { exactNamesCheckbox } from "./exact_names.js";
import { drawTensor } from "./tensor.js";

/** @import { Address, Block, Option, Trace, ViewContext } from "../types.js" */
/** @import { WorksheetActions, WorksheetState } from "./tensor.js" */

const DEFAULT_WIDTH = 620; // pixels of the figure before it is in the page
const RESIZE_TOLERANCE = 8; // pixels
const FRAME_MARGIN = 8; // pixels above the numbers

/**
 * @param {Address} address
 * @param {number} layers
 * @returns {WorksheetState}
 */
const initialState = (address, layers) => ({
  wide: address.wide === "1",
  layer: Math.min(wholeNumber(address.layer, 0), Math.max(0, layers - 1)),
  block: address.block,
  tensor: address.tensor,
  head: wholeNumber(address.head, 0),
  row: wholeNumber(address.row, 0),
  cell: address.cell && /^\d+(,\d+)*$/.test(address.cell) ? address.cell.split(",").map(Number) : null,
});

/** @param {WorksheetState} state */
const addressOf = ({ wide, layer, block, tensor, head, row, cell }) => ({
  wide: wide ? 1 : null,
  layer: layer || null,
  block,
  tensor,
  head: head || null,
  row: row || null,
  cell: cell?.join(","),
});

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  const { blocks } = trace.figure;
  const layers = 1 + Math.max(-1, ...blocks.map(block => block.layer ?? -1));
  const state = initialState(address, layers);
  const linked = blocks.find(({ id }) => id === state.block);
  if (linked && !state.tensor) Object.assign(state, openedBlock(linked), { head: state.head, row: state.row });
  const figure = h("div", { class: "figure" });
  const detail = h("section", { class: "panel detail", "aria-live": "off" });
  const redraw = async (/** @type {Partial<WorksheetState> | null} */ changes = null) => {
    if (changes) choose(state, changes);
    else replaceAddress(addressOf(state));
    const focusInFigure = figure.contains(document.activeElement);
    const restoreFocus = rememberFocus(detail);
    const width = figure.clientWidth || DEFAULT_WIDTH;
    refill(figure, architectureFigure(trace, { layer: state.layer, chosen: state.block, width, onchoose: open }));
    if (focusInFigure) chosenBlock(figure)?.focus({ preventScroll: true });
    columns.classList.toggle("wide", state.wide);
    await drawDetail(detail, trace, state, { redraw, choose: chosen => choose(state, chosen) });
    restoreFocus();
  };
  const open = async (/** @type {string} */ id, /** @type {boolean} */ byKeyboard) => {
    const block = blocks.find(one => one.id === id);
    if (block) await redraw(openedBlock(block));
    // Go to the numbers if they are out of sight or were opened by keyboard.
    if (!byKeyboard && detail.getBoundingClientRect().top <= innerHeight / 2) return;
    find(detail, "h2").focus({ preventScroll: true });
    detail.scrollIntoView({ block: "start" });
  };
  detail.addEventListener("keydown", event => {
    if (event.key === "Escape") returnToFigure(figure);
  });
  const changeLayer = (/** @type {string} */ layer) => redraw(sameBlockInLayer(blocks, state, Number(layer)));
  const columns = h("div", { class: "two worksheet" }, figurePanel(trace, figure, layers, state, changeLayer), detail);
  place.append(columns);
  await redraw();
  if (isEmbedded() && state.block) {
    requestAnimationFrame(async () => {
      await redraw(); // now in the page, the figure gets its own width and height
      scrollFrameTo(detail);
    });
  }
  const resizing = new ResizeObserver(() => {
    const drawn = figure.querySelector("svg")?.viewBox.baseVal.width;
    const width = figure.clientWidth;
    if (drawn && width && Math.abs(drawn - width) > RESIZE_TOLERANCE) redraw();
  });
  resizing.observe(figure);
  return () => resizing.disconnect();
}

/**
 * Scroll a frame of a lesson to the numbers if they are below the figure, as on a phone. The lesson is not scrolled.
 *
 * @param {Element} detail
 */
function scrollFrameTo(detail) {
  const { top } = detail.getBoundingClientRect();
  if (top > innerHeight / 2) scrollTo(0, scrollY + top - FRAME_MARGIN);
}

/**
 * Note a choice in the address. The back button undoes it, except for moving from one cell to another.
 *
 * @param {WorksheetState} state
 * @param {Partial<WorksheetState>} changes
 */
function choose(state, changes) {
  const movesCell = state.cell !== null && Object.keys(changes).every(key => key === "cell");
  Object.assign(state, changes);
  (movesCell ? replaceAddress : pushAddress)(addressOf(state));
}

/**
 * @param {Element} figure
 * @returns {SVGElement | null}
 */
const chosenBlock = figure => figure.querySelector("g[aria-pressed=true]");

/** @param {Element} figure */
function returnToFigure(figure) {
  const block = chosenBlock(figure);
  block?.focus({ preventScroll: true });
  block?.scrollIntoView({ block: "nearest" });
}

/**
 * The state after a block is opened: at the tensor with the wanted name, or at the first one of SHOWN_FIRST.
 *
 * @param {Block} block
 * @param {string} [wanted]
 * @returns {Partial<WorksheetState>}
 */
function openedBlock(block, wanted) {
  /** @param {string | undefined} last */
  const tensorNamed = last => block.tensors.find(name => lastPart(name) === last);
  const usual = SHOWN_FIRST.find(tensorNamed);
  const tensor = tensorNamed(wanted) ?? tensorNamed(usual) ?? block.tensors[block.tensors.length - 1];
  return { block: block.id, layer: block.layer ?? 0, tensor, head: 0, row: 0, cell: null };
}

/**
 * The state after changing to another layer: the same block and tensor there, if there is one.
 *
 * @param {Block[]} blocks
 * @param {WorksheetState} state
 * @param {number} layer
 * @returns {Partial<WorksheetState>}
 */
function sameBlockInLayer(blocks, state, layer) {
  const id = (state.block ?? "").replace(/\.\d+/, `.${layer}`);
  const block = blocks.find(one => one.id === id);
  const opened = block ? openedBlock(block, state.tensor && lastPart(state.tensor)) : {};
  return { cell: null, ...opened, layer };
}

/**
 * @param {Trace} trace
 * @param {HTMLElement} figure
 * @param {number} layers
 * @param {WorksheetState} state
 * @param {(layer: string) => void} changeLayer
 */
function figurePanel(trace, figure, layers, state, changeLayer) {
  const { blocks } = trace.figure;
  const layerChoice = [
    h("span", { class: "soft" }, t("layer")),
    choice(t("layer"), indexOptions(layers), state.layer, changeLayer),
  ];
  const table = () =>
    dataTable(
      t("figure title"),
      [t("block"), t("exact name"), t("matrices")],
      blocks.map(block => [
        [t(`block ${block.kind}`), blockPlace(block)].filter(Boolean).join(", "),
        block.id,
        block.tensors.map(lastPart).join(", "),
      ]),
    );
  return panel(
    h("h2", {}, t("figure title")),
    explanation(t("figure says")),
    layers > 1 && controls(layerChoice),
    figure,
    foldedTable(table),
    exportButtons("worksheet", {
      title: `${t("figure title")} · “${trace.text}”`,
      drawing: () => /** @type {SVGSVGElement} */ (figure.querySelector("svg")),
      rows: () => [
        ["block", "kind", "tensors"],
        ...blocks.map(({ id, kind, tensors }) => [id, kind, tensors.join(" ")]),
      ],
    }),
  );
}

// ---------------------------------------------------------------- the chosen block

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {WorksheetState} state
 * @param {WorksheetActions} actions
 */
async function drawDetail(place, trace, state, actions) {
  const block = trace.figure.blocks.find(({ id }) => id === state.block);
  if (!block) {
    delete place.dataset.block;
    return refill(place, inputAndOutput(trace));
  }
  const about = `about ${block.kind}`;
  /** @type {Option[]} */
  const tensors = block.tensors.map(name => [name, tensorLabel(name)]);
  const chooseTensor = (/** @type {string} */ tensor) => actions.redraw({ tensor, row: 0, cell: null });
  const content = h("div", {});
  const equation = h("div", {});
  const title = h(
    "h2",
    { tabindex: "-1" },
    t(`block ${block.kind}`),
    " ",
    h("span", { class: "soft" }, blockPlace(block)),
  );
  refill(
    place,
    title,
    h("code", { class: "exact-name" }, block.id),
    hasMessage(about) && h("p", {}, t(about)),
    detailOptions(place, state, actions),
    equation,
    choice(t("matrices"), tensors, state.tensor, chooseTensor),
    content,
  );
  const drawing = Promise.all([
    block.kind === "ff"
      ? activationSteps(trace, block, actions.redraw)
      : attentionEquation(trace, block, state, actions.redraw),
    drawTensor(content, trace, state, actions),
  ]);
  const drawn = await ifLatest(place, drawing);
  if (!drawn) return;
  refill(equation, drawn[0]);
  Object.assign(place.dataset, { block: block.id, tensor: state.tensor });
}

/**
 * Switches for the width of the panel and for the names that the code uses.
 *
 * @param {HTMLElement} place
 * @param {WorksheetState} state
 * @param {WorksheetActions} actions
 */
const detailOptions = (place, state, { redraw }) =>
  controls(
    checkbox(t("full width"), state.wide, wide => redraw({ wide })),
    exactNamesCheckbox(place),
  );

/**
 * What is shown before a block is chosen: the tokens of input and output.
 *
 * @param {Trace} trace
 */
function inputAndOutput(trace) {
  const writesNext = trace.traits.output === "tokens" && !trace.traits.blanks;
  /** @type {(title: string, tokens: string[]) => false | HTMLElement[]} */
  const tokenList = (title, tokens) => tokens.length > 0 && [h("h3", {}, title), tokenChips(tokens.map(tokenText))];
  return h(
    "div",
    {},
    h("h2", {}, t("start title")),
    h("p", {}, t(trace.traits.input === "image" ? "start says image" : "start says")),
    tokenList(t("read by encoder"), trace.source),
    tokenList(t("read by decoder"), trace.target),
    tokenList(t(writesNext ? "likeliest next" : "prediction"), trace.predicted),
    explanation(t("real numbers", { n: Object.keys(trace.tensors).length })),
    !isEmbedded() && firstSteps(),
  );
}

/** Where somebody who sees the studio for the first time can go. */
const firstSteps = () => [
  h("h3", {}, t("first steps")),
  h(
    "ul",
    { class: "first-steps" },
    ["lessons", "flow", "worked"].map(view => h("li", {}, h("a", { href: linkToView(view) }, t(`first ${view}`)))),
  ),
];
