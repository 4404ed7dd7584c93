// The architecture figure: blocks from the bottom up, as in figure 1 of the paper, drawn from the blocks of the trace.

import { s } from "../dom.js";
import { hasMessage, t } from "../i18n.js";
import { blockDirection, blockPlace } from "../labels.js";
import { textWidth } from "../text_width.js";
import { tokenText } from "../tokens.js";

/** @import { Block, Child, Trace } from "../types.js" */
/** @typedef {(id: string, byKeyboard: boolean) => void} OnChoose */
/**
 * @typedef {object} FigureOptions
 * @property {number} layer
 * @property {string | undefined} chosen
 * @property {number} width
 * @property {OnChoose} onchoose
 * @property {number} [gap]  pixels between blocks
 * @property {(arrow: PlacedArrow) => Child} [beside]  what is drawn beside an arrow that goes straight up
 */
/** @typedef {{ tensor: string, from: string, to: string, x: number, y: number, width: number }} PlacedArrow
 *   x, y: its middle; width: of its column */
/** @typedef {{ x: number, y: number, width: number, middle: number, side: string, layer: number | null }} Position */
/** @typedef {Map<string, Position>} Positions  by block id */
/** @typedef {{ input: string[], output: string[] }} ColumnText  lines of tokens below and above a column */

const BLOCK_HEIGHT = 38;
const GAP = 18;
const PADDING = 14;
const LINE_HEIGHT = 18;
const WORD_GAP = 7;
const MARGIN = 20;
const COLUMN_WIDTH = 300;
/** @type {Record<string, [number, number]>} */
const ARROW_KEYS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/** @param {string} text */
const wordWidth = text => textWidth(text, 6.6, 12);

/**
 * Break words into lines.
 *
 * @param {string[]} words
 * @param {number} width
 * @param {string} [separator]
 */
function wrap(words, width, separator = "  ") {
  /** @type {string[][]} */
  const lines = [[]];
  let used = 0;
  for (const word of words) {
    const needed = wordWidth(word) + WORD_GAP;
    if (lines[lines.length - 1].length && used + needed > width) {
      lines.push([]);
      used = 0;
    }
    lines[lines.length - 1].push(word);
    used += needed;
  }
  return lines.map(line => line.join(separator));
}

/**
 * The number of layers of a side.
 *
 * @param {Trace} trace
 * @param {string} side
 */
const layerCount = (trace, side) =>
  1 + Math.max(-1, ...trace.figure.blocks.filter(block => block.side === side).map(block => block.layer ?? -1));

/**
 * The layer of a side that is shown: the sides may have different numbers of layers.
 *
 * @param {Trace} trace
 * @param {string} side
 * @param {number} layer
 */
const shownLayer = (trace, side, layer) => Math.min(layer, layerCount(trace, side) - 1);

/**
 * The blocks of each column: everything outside the layers, and one layer.
 *
 * @param {Trace} trace
 * @param {number} layer
 */
function columnsOf(trace, layer) {
  const visible = trace.figure.blocks.filter(
    block => block.layer === null || block.layer === shownLayer(trace, block.side, layer),
  );
  const encoder = visible.filter(block => block.side === "encoder");
  const rest = visible.filter(block => block.side !== "encoder");
  const decodes = rest.some(block => block.side === "decoder");
  return encoder.length && decodes ? [encoder, rest] : [visible];
}

/**
 * @param {Trace} trace
 * @param {FigureOptions} options
 */
export function architectureFigure(trace, options) {
  const { layer, width, gap = GAP } = options;
  const columns = columnsOf(trace, layer);
  const columnGap = columns.length > 1 ? Math.min(64, width * 0.1) : 0;
  const columnWidth = Math.min(COLUMN_WIDTH, (width - 2 * MARGIN - columnGap) / columns.length);
  const left = (width - columns.length * columnWidth - columnGap) / 2;
  /** @type {ColumnText[]} */
  const texts = columns.map((blocks, i) => {
    const read = blocks[0]?.side === "encoder" ? trace.source : trace.target;
    const predicted = i === columns.length - 1 ? trace.predicted : [];
    return { input: wrap(read.map(tokenText), columnWidth), output: wrap(predicted.map(tokenText), columnWidth) };
  });
  const heights = columns.map((blocks, i) => {
    const lines = texts[i].input.length + texts[i].output.length;
    return blocks.length * (BLOCK_HEIGHT + gap) + 2 * PADDING + LINE_HEIGHT * lines + 14;
  });
  const height = Math.max(...heights);
  /** @type {Positions} */
  const positions = new Map();
  const drawn = columns.map((blocks, i) => {
    const x = left + i * (columnWidth + columnGap);
    return drawColumn(trace, blocks, texts[i], positions, { ...options, gap, x, columnWidth, bottom: height });
  });
  const svg = s(
    "svg",
    { class: "drawing flow", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": t("figure title") },
    arrowHead(),
    drawn.map(column => column.layers),
    arrows(trace, positions, options),
    drawn.map(column => column.blocks),
  );
  addArrowKeys(svg, positions);
  addHighlight(svg);
  return svg;
}

const arrowHead = () =>
  s(
    "defs",
    {},
    s(
      "marker",
      { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      s("path", { class: "tip", d: "M0 0L8 4L0 8z" }),
    ),
  );

// ---------------------------------------------------------------- columns and blocks

/**
 * Draw a column from the bottom up and record where its blocks are.
 *
 * @param {Trace} trace
 * @param {Block[]} blocks
 * @param {ColumnText} text
 * @param {Positions} positions
 * @param {FigureOptions & { gap: number, x: number, columnWidth: number, bottom: number }} options
 */
function drawColumn(trace, blocks, text, positions, { gap, x, columnWidth, bottom, layer, chosen, onchoose }) {
  const middle = x + columnWidth / 2;
  const layers = [];
  const elements = [];
  let y = bottom - 4 - LINE_HEIGHT * text.input.length;
  elements.push(...tokenLines(text.input, middle, y + LINE_HEIGHT - 4));
  y -= 14;
  /** @type {{ side: string, bottom: number } | null} */
  let open = null; // the layer that is being drawn
  for (const block of [...blocks, null]) {
    const inLayer = block !== null && block.layer !== null;
    if (inLayer && open === null) {
      open = { side: block.side, bottom: y };
      y -= PADDING / 2;
    }
    if (!inLayer && open !== null) {
      const top = y + gap - PADDING;
      const frame = { x: x - 10, y: top, width: columnWidth + 20, height: open.bottom - top + 8, rx: 12 };
      layers.push(s("rect", { class: "layer", ...frame }));
      const label = t("layer of", { i: shownLayer(trace, open.side, layer) + 1, n: layerCount(trace, open.side) });
      elements.push(s("text", { class: "told", x: x + columnWidth + 6, y: top - 5, "text-anchor": "end" }, label));
      open = null;
      if (block) y -= PADDING;
    }
    if (block === null) break;
    y -= BLOCK_HEIGHT;
    positions.set(block.id, { x, y, width: columnWidth, middle, side: block.side, layer: block.layer });
    elements.push(drawBlock(block, { x, y, width: columnWidth }, chosen === block.id, onchoose));
    y -= gap;
  }
  elements.push(...tokenLines(text.output, middle, y - LINE_HEIGHT * (text.output.length - 1) + 4));
  return { layers, blocks: elements };
}

/**
 * @param {string[]} lines
 * @param {number} middle
 * @param {number} top
 */
const tokenLines = (lines, middle, top) =>
  lines.map((line, i) =>
    s("text", { class: "tokens", x: middle, y: top + i * LINE_HEIGHT, "text-anchor": "middle" }, line),
  );

/**
 * @param {Block} block
 * @param {{ x: number, y: number, width: number }} box
 * @param {boolean} chosen
 * @param {OnChoose} onchoose
 */
function drawBlock(block, { x, y, width }, chosen, onchoose) {
  const name = t(`block ${block.kind}`);
  const shown = [name, blockDirection(block)].filter(Boolean).join(", ");
  const lines = wrap(shown.split(" "), width - (width > 200 ? 24 : 20), " ");
  const [lineHeight, size] = lines.length > 2 ? [12, "11px"] : [15, null];
  const text = lines.map((line, i) => {
    const baseline = y + BLOCK_HEIGHT / 2 + 5 + (i - (lines.length - 1) / 2) * lineHeight;
    return s("text", { x: x + width / 2 + 2, y: baseline, "text-anchor": "middle", "font-size": size }, line);
  });
  return s(
    "g",
    {
      class: `block of-${block.kind}`,
      role: "button",
      tabindex: "-1",
      "data-block": block.id,
      "aria-pressed": String(chosen),
      "aria-label": [name, blockPlace(block)].filter(Boolean).join(", "),
      onclick: event => {
        event.preventDefault();
        onchoose(block.id, false);
      },
      onkeydown: event => {
        if (!["Enter", " "].includes(event.key)) return;
        event.preventDefault();
        onchoose(block.id, true);
      },
    },
    s("rect", { x, y, width, height: BLOCK_HEIGHT, rx: 8 }),
    s("rect", { class: "edge", x, y, width: 5, height: BLOCK_HEIGHT, rx: 2 }),
    text,
    hasMessage(`about ${block.kind}`) && s("title", {}, t(`about ${block.kind}`)),
  );
}

/**
 * Make the figure one stop of the Tab key. Arrow keys move up, down and to the nearest block of the other column.
 *
 * @param {SVGSVGElement} svg
 * @param {Positions} positions
 */
function addArrowKeys(svg, positions) {
  const blocks = /** @type {SVGGElement[]} */ ([...svg.querySelectorAll(".block")]);
  /** @param {SVGGElement} block */
  const positionOf = block => /** @type {Position} */ (positions.get(block.dataset.block ?? ""));
  const stop = svg.querySelector("[aria-pressed=true]") ?? blocks[0];
  stop?.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", event => {
    const from = blocks.find(block => event.target instanceof Node && block.contains(event.target));
    const direction = ARROW_KEYS[event.key];
    if (!from || !direction) return;
    event.preventDefault();
    const [across, down] = direction;
    const at = positionOf(from);
    /** @param {SVGGElement} block */
    const distance = block => Math.abs(positionOf(block).y - at.y);
    const reachable = blocks.filter(block => {
      const { x, y } = positionOf(block);
      return across ? Math.sign(x - at.x) === across : x === at.x && Math.sign(y - at.y) === down;
    });
    const [next] = reachable.sort((a, b) => distance(a) - distance(b));
    if (!next) return;
    from.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

/**
 * While the pointer or the focus is on a block, mark the blocks that it reads and the blocks that read it.
 *
 * @param {SVGSVGElement} svg
 */
function addHighlight(svg) {
  const arrowsOf = /** @param {string} end */ end =>
    /** @type {SVGElement[]} */ ([...svg.querySelectorAll(`.arrow[data-${end}]`)]);
  const mark = /** @param {Event} event */ event => {
    const block = event.target instanceof Element ? event.target.closest(".block") : null;
    const id = block?.getAttribute("data-block");
    for (const element of svg.querySelectorAll(".reads, .results")) element.classList.remove("reads", "results");
    if (!id) return;
    const marks = /** @type {const} */ ([
      ["to", "from", "reads"],
      ["from", "to", "results"],
    ]);
    for (const [end, other, name] of marks) {
      for (const arrow of arrowsOf(end).filter(one => one.dataset[end] === id)) {
        arrow.classList.add(name);
        svg.querySelector(`.block[data-block="${CSS.escape(arrow.dataset[other] ?? "")}"]`)?.classList.add(name);
      }
    }
  };
  for (const event of ["pointerover", "pointerleave", "focusin", "focusout"]) svg.addEventListener(event, mark);
}

// ---------------------------------------------------------------- arrows

/**
 * Arrows between the blocks that are shown. An arrow from a layer that is not shown starts at a block that stands for it.
 *
 * @param {Trace} trace
 * @param {Positions} positions
 * @param {FigureOptions} options
 */
function arrows(trace, positions, { gap = GAP, beside }) {
  const blocks = new Map(trace.figure.blocks.map(block => [block.id, block]));
  return trace.figure.arrows.flatMap(([fromId, toId, tensor]) => {
    const to = positions.get(toId);
    const block = blocks.get(fromId);
    if (!to || !block) return [];
    const from = positions.get(fromId) ?? substitute(block, to, positions);
    if (!from) return [];
    const straight = isAdjacent(from, to, gap);
    const left = block.kind === "rotation"; // the residual connections are on the right
    const ends = { "data-from": fromId, "data-to": toId };
    const path = s("path", {
      class: "arrow",
      "marker-end": "url(#tip)",
      d: arrowPath(from, to, straight, left),
      ...ends,
    });
    const y = (from.y + to.y + BLOCK_HEIGHT) / 2;
    return [path, straight && beside?.({ tensor, from: fromId, to: toId, x: from.middle, y, width: from.width })];
  });
}

/**
 * The block where an arrow from a hidden block starts: below the layer if the hidden block is in an earlier layer of
 * the same side, otherwise the uppermost block of the layer that is shown.
 *
 * @param {Block} hidden
 * @param {Position} to
 * @param {Positions} positions
 */
function substitute(hidden, to, positions) {
  const earlierLayer = hidden.side === to.side && hidden.layer !== null && to.layer !== null;
  const possible = [...positions.values()].filter(position =>
    earlierLayer
      ? position.side === to.side && position.layer === null && position.y > to.y
      : position.side === hidden.side && position.layer !== null,
  );
  return possible.sort((a, b) => a.y - b.y)[0];
}

/**
 * Whether a block is the next one above another.
 *
 * @param {Position} from
 * @param {Position} to
 * @param {number} gap
 */
const isAdjacent = (from, to, gap) =>
  from.x === to.x && from.y > to.y && from.y - to.y < 1.7 * (BLOCK_HEIGHT + gap) + PADDING;

/**
 * Straight up to the next block, around the blocks between (on the right, or on the left if it goes down), or across to
 * the other column.
 *
 * @param {Position} from
 * @param {Position} to
 * @param {boolean} straight
 * @param {boolean} left  whether it goes around on the left
 */
function arrowPath(from, to, straight, left) {
  const right = from.x + from.width;
  if (from.x !== to.x) {
    const turn = (right + to.x) / 2;
    return `M${right} ${from.y + BLOCK_HEIGHT / 2}H${turn}V${to.y + BLOCK_HEIGHT / 2}H${to.x - 2}`;
  }
  if (straight) return `M${from.middle} ${from.y}V${to.y + BLOCK_HEIGHT + 2}`;
  if (from.y < to.y) {
    const [start, end] = [from.y + BLOCK_HEIGHT * 0.72, to.y + BLOCK_HEIGHT * 0.32];
    return `M${from.x} ${start}h-6q-8 0 -8 8V${end - 8}q0 8 8 8h4`;
  }
  const [start, end] = [from.y + BLOCK_HEIGHT * 0.28, to.y + BLOCK_HEIGHT * 0.68];
  if (left) return `M${from.x} ${start}h-6q-8 0 -8 -8V${end + 8}q0 -8 8 -8h4`;
  return `M${right} ${start}h8q8 0 8 -8V${end + 8}q0 -8 -8 -8h-6`;
}
