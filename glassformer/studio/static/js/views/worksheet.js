// The architecture with the sentence in it: a block, its matrices, one cell and where it comes from.

import { note, step, whole } from "../address.js";
import { choice, h, refill } from "../dom.js";
import { exports } from "../export.js";
import { known, say } from "../i18n.js";
import { plain } from "../numbers.js";
import { keepFocus } from "../refocus.js";
import { twin, tableOf } from "../table.js";
import { figure } from "./figure.js";
import { tensorPanel } from "./tensor.js";

/** What a block is opened at, if it has it. */
const TELLING = ["weights", "activations", "norm", "input", "embedding", "states", "positions", "memory", "hidden", "logits"];
const last = name => name.split(".").at(-1);

export async function show(place, { trace, address }) {
  const { blocks } = trace.figure;
  const layers = 1 + Math.max(-1, ...blocks.map(block => block.layer ?? -1));
  const state = { layer: Math.min(whole(address.layer, 0), Math.max(0, layers - 1)), block: address.block, tensor: address.tensor,
    head: whole(address.head, 0), row: whole(address.row, 0), cell: /^\d+(,\d+)*$/.test(address.cell ?? "") ? address.cell.split(",").map(Number) : null };
  const drawn = h("div", { class: "figure" }), panel = h("section", { class: "panel detail", "aria-live": "off" });
  const written = () => ({ layer: state.layer || null, block: state.block, tensor: state.tensor, head: state.head || null,
    row: state.row || null, cell: state.cell?.join(",") });
  /** A choice is a step that the back button undoes; moving on to a cell beside the chosen one is not. */
  const choose = changes => {
    const moves = Object.keys(changes).every(key => key === "cell") && state.cell;
    Object.assign(state, changes);
    (moves ? note : step)(written());
  };
  const redraw = async (changes = null) => {
    if (changes) choose(changes);
    else note(written());
    const inFigure = drawn.contains(document.activeElement), giveBack = keepFocus(panel);
    refill(drawn, figure(trace, { layer: state.layer, chosen: state.block, width: drawn.clientWidth || 620, onchoose: open }));
    if (inFigure) drawn.querySelector("[aria-pressed=true]")?.focus({ preventScroll: true });
    await detail(panel, trace, state, { redraw, choose });
    giveBack();
  };
  /** Opens a block, and goes to its numbers where they cannot be seen from here, or were asked for by keyboard. */
  const open = async (id, byKeyboard) => {
    await redraw(opened(blocks.find(block => block.id === id)));
    if (byKeyboard || panel.getBoundingClientRect().top > innerHeight / 2) {
      panel.querySelector("h2").focus({ preventScroll: true });
      panel.scrollIntoView({ block: "start" });
    }
  };
  panel.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    const block = drawn.querySelector("[aria-pressed=true]");
    block?.focus({ preventScroll: true });
    block?.scrollIntoView({ block: "nearest" });
  });
  const changeLayer = value => {
    const layer = Number(value), same = (state.block ?? "").replace(/\.\d+/, `.${layer}`);
    const block = blocks.find(one => one.id === same);
    redraw({ layer, cell: null, ...(block ? opened(block, state.tensor && last(state.tensor)) : {}) });
  };
  const numbers = Array.from({ length: layers }, (_, i) => [i, String(i)]);
  place.append(h("div", { class: "two worksheet" },
    h("section", { class: "panel" }, h("h2", {}, say("figure title")), h("p", { class: "soft" }, say("figure says")),
      layers > 1 && h("div", { class: "controls" }, h("span", { class: "soft" }, say("layer")),
        choice(say("layer"), numbers, state.layer, changeLayer)),
      drawn, twin(() => blockTable(blocks)),
      exports("worksheet", { title: say("figure title"), drawing: () => drawn.querySelector("svg"),
        rows: () => [["block", "kind", "tensors"], ...blocks.map(b => [b.id, b.kind, b.tensors.join(" ")])] })),
    panel));
  const watch = new ResizeObserver(() => {
    const svg = drawn.querySelector("svg");
    if (svg && drawn.clientWidth && Math.abs(svg.viewBox.baseVal.width - drawn.clientWidth) > 8) redraw();
  });
  await redraw();
  watch.observe(drawn);
  return () => watch.disconnect();
}

/** What changes when a block is opened: its most telling tensor, or one that has the same name. */
function opened(block, same) {
  const named = name => block.tensors.find(tensor => last(tensor) === name);
  const tensor = named(same) ?? TELLING.map(named).find(Boolean) ?? block.tensors.at(-1);
  return { block: block.id, layer: block.layer ?? 0, tensor, head: 0, row: 0, cell: null };
}

async function detail(place, trace, state, { redraw, choose }) {
  const block = trace.figure.blocks.find(one => one.id === state.block);
  if (!block) return refill(place, start(trace));
  const about = `about ${block.kind}`;
  const names = block.tensors.map(name => [name, known(`tensor ${last(name)}`) ? say(`tensor ${last(name)}`) : last(name)]);
  const inner = h("div", {});
  refill(place, 
    h("h2", { tabindex: "-1" }, say(`block ${block.kind}`), " ", h("code", { class: "soft" }, block.id)),
    known(about) && h("p", {}, say(about)),
    choice(say("matrices"), names, state.tensor, tensor => redraw({ tensor, row: 0, cell: null })), inner);
  await tensorPanel(inner, trace, state, { redraw, choose });
}

/** Before a block is chosen: what went in and what came out, in words. */
function start(trace) {
  const chips = pieces => h("p", { class: "chips" }, pieces.map(piece => h("span", {}, plain(piece))));
  return h("div", {}, h("h2", {}, say("start title")), h("p", {}, say("start says")),
    trace.source.length > 0 && [h("h3", {}, say("read by encoder")), chips(trace.source)],
    trace.target.length > 0 && [h("h3", {}, say("read by decoder")), chips(trace.target)],
    trace.predicted.length > 0 && [h("h3", {}, say("likeliest next")), chips(trace.predicted)],
    h("p", { class: "soft" }, say("real numbers", { n: Object.keys(trace.tensors).length })));
}

const blockTable = blocks => tableOf(say("figure title"), [say("block"), say("kind"), say("matrices")],
  blocks.map(block => [block.id, say(`block ${block.kind}`), block.tensors.map(last).join(", ")]));
