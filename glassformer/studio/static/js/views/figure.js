// The figure: blocks from the bottom up, as in the paper, drawn from what the model told of itself.

import { s } from "../dom.js";
import { say } from "../i18n.js";
import { plain } from "../numbers.js";

const HIGH = 38, GAP = 18, PAD = 14, LINE = 18;
const wide = text => [...text].reduce((sum, c) => sum + (c > "\u2fff" ? 12 : 6.6), 0);

/** Words in lines that fit. */
function wrapped(words, width, between = "  ") {
  const rows = [[]];
  let used = 0;
  for (const word of words) {
    if (rows.at(-1).length && used + wide(word) + 7 > width) { rows.push([]); used = 0; }
    rows.at(-1).push(word);
    used += wide(word) + 7;
  }
  return rows.map(row => row.join(between));
}

/** The blocks of a column: both ends, and between them one layer. */
function columns(trace, layer) {
  const visible = trace.figure.blocks.filter(block => block.layer === null || block.layer === shownLayer(trace, block.side, layer));
  const encoder = visible.filter(block => block.side === "encoder");
  const rest = visible.filter(block => block.side !== "encoder");
  const decodes = rest.some(block => block.side === "decoder");
  return encoder.length && decodes ? [encoder, rest] : [[...encoder, ...rest]];
}

const layersOf = (trace, side) => 1 + Math.max(-1, ...trace.figure.blocks.filter(b => b.side === side).map(b => b.layer ?? -1));
const shownLayer = (trace, side, layer) => Math.min(layer, layersOf(trace, side) - 1);

export function figure(trace, { layer, chosen, width, onchoose }) {
  const sides = columns(trace, layer), between = sides.length > 1 ? Math.min(64, width * 0.1) : 0;
  const margin = 20, across = Math.min(300, (width - 2 * margin - between) / sides.length);
  const left = (width - sides.length * across - between) / 2;
  const texts = sides.map((blocks, i) => {
    const encodes = blocks[0]?.side === "encoder";
    const pieces = encodes ? trace.source : trace.target;
    const out = i === sides.length - 1 ? trace.predicted : [];
    return { read: wrapped(pieces.map(plain), across), out: wrapped(out.map(plain), across) };
  });
  const tall = Math.max(...sides.map((blocks, i) => blocks.length * (HIGH + GAP) + 2 * PAD
    + LINE * (texts[i].read.length + texts[i].out.length) + 14));
  const places = new Map();
  const drawn = sides.map((blocks, i) => column(trace, blocks, texts[i], places,
    { x: left + i * (across + between), width: across, bottom: tall, layer, chosen, onchoose }));
  const svg = s("svg", { class: "drawing flow", viewBox: `0 0 ${width} ${tall}`, role: "group", "aria-label": say("figure title") },
    s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      s("path", { class: "tip", d: "M0 0L8 4L0 8z" }))),
    drawn.map(part => part.boxes), arrows(trace, places, layer), drawn.map(part => part.blocks));
  walkable(svg, places);
  return svg;
}

/** One stop of the Tab key for all blocks: arrow keys move up, down and to the block beside. */
function walkable(svg, places) {
  const blocks = [...svg.querySelectorAll(".block")], of = block => places.get(block.dataset.block);
  const stop = svg.querySelector("[aria-pressed=true]") ?? blocks[0];
  stop?.setAttribute("tabindex", "0");
  const nearest = (here, there) => there.sort((a, b) => Math.abs(of(a).y - of(here).y) - Math.abs(of(b).y - of(here).y))[0];
  svg.addEventListener("keydown", event => {
    const here = event.target.closest(".block"), way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!here || !way) return;
    event.preventDefault();
    const [across, down] = way, at = of(here);
    const next = nearest(here, blocks.filter(block => (across ? Math.sign(of(block).x - at.x) === across
      : of(block).x === at.x && Math.sign(of(block).y - at.y) === down)));
    if (!next) return;
    here.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

function column(trace, blocks, texts, places, { x, width, bottom, layer, chosen, onchoose }) {
  const middle = x + width / 2, boxes = [], made = [];
  const write = (rows, from) => rows.map((row, i) => s("text", { class: "tokens", x: middle, y: from + i * LINE, "text-anchor": "middle" }, row));
  let y = bottom - 4 - LINE * texts.read.length;
  made.push(write(texts.read, y + LINE - 4));
  y -= 14;
  let inside = null;  // where the layer begins
  const close = () => {
    const { side } = blocks.find(block => block.layer !== null);
    boxes.push(s("rect", { class: "layer", x: x - 10, y: y + GAP - PAD, width: width + 20, height: inside - y - GAP + PAD + 8, rx: 12 }));
    made.push(s("text", { class: "told", x: x + width + 6, y: y + GAP - PAD - 5, "text-anchor": "end" },
      say("layer of", { i: shownLayer(trace, side, layer), n: layersOf(trace, side) })));
    inside = null;
  };
  for (const block of blocks) {
    if (block.layer !== null && inside === null) { y -= PAD / 2; inside = y + PAD / 2; }
    if (block.layer === null && inside !== null) { close(); y -= PAD; }
    y -= HIGH;
    places.set(block.id, { x, y, width, middle, side: block.side, layer: block.layer });
    made.push(drawBlock(block, { x, y, width, chosen: chosen === block.id, onchoose }));
    y -= GAP;
  }
  if (inside !== null) close();
  made.push(write(texts.out, y - LINE * (texts.out.length - 1) + 4));
  return { boxes, blocks: made };
}

function drawBlock(block, { x, y, width, chosen, onchoose }) {
  const name = say(`block ${block.kind}`), lines = wrapped(name.split(" "), width - 12, " ");
  const act = event => {
    if (event.type === "keydown" && !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    onchoose(block.id, event.type === "keydown");
  };
  return s("g", { class: `block of-${block.kind}`, role: "button", tabindex: "-1", "data-block": block.id,
    "aria-pressed": chosen ? "true" : "false", "aria-label": `${name}, ${block.id}`, onclick: act, onkeydown: act },
    s("rect", { x, y, width, height: HIGH, rx: 8 }), s("rect", { class: "edge", x, y, width: 5, height: HIGH, rx: 2 }),
    lines.map((line, i) => s("text", { x: x + width / 2 + 2, y: y + HIGH / 2 + 5 + (i - (lines.length - 1) / 2) * 15,
      "text-anchor": "middle" }, line)));
}

/** Arrows between blocks that are shown; what comes from another layer comes in from below. */
function arrows(trace, places, layer) {
  const entrance = to => [...places.values()].filter(p => p.side === to.side && p.layer === null && p.y > to.y)
    .sort((a, b) => a.y - b.y)[0];
  return trace.figure.arrows.flatMap(([from, to]) => {
    const b = places.get(to);
    if (!b) return [];
    const gone = trace.figure.blocks.find(block => block.id === from);
    const a = places.get(from) ?? (gone.side === b.side && gone.layer !== null && b.layer !== null ? entrance(b) : topOf(places, gone));
    return a ? [s("path", { class: "arrow", "marker-end": "url(#tip)", d: way(a, b) })] : [];
  });
}

/** The uppermost block that is shown of a layer that is not. */
function topOf(places, gone) {
  const shown = [...places.values()].filter(p => p.side === gone.side && p.layer !== null);
  return shown.sort((a, b) => a.y - b.y)[0];
}

function way(a, b) {
  if (a.x === b.x) {
    const near = a.y - b.y < 1.7 * (HIGH + GAP) + PAD;
    if (near) return `M${a.middle} ${a.y}V${b.y + HIGH + 2}`;
    const side = a.x + a.width;
    const [from, to] = [a.y + HIGH * 0.28, b.y + HIGH * 0.68];
    return `M${side} ${from}h8q8 0 8 -8V${to + 8}q0 -8 -8 -8h-6`;
  }
  const turn = (a.x + a.width + b.x) / 2;
  return `M${a.x + a.width} ${a.y + HIGH / 2}H${turn}V${b.y + HIGH / 2}H${b.x - 2}`;
}
