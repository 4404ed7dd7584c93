// One matrix of the worksheet, and one cell of it with the numbers that it comes from.

import * as api from "../api.js";
import { choice, h, refill, select } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap, isSigned, largest, paint } from "../heatmap.js";
import { say, translate } from "../i18n.js";
import { brief, exact, plain } from "../numbers.js";
import { tableOf, twin } from "../table.js";

const MOST = 2 ** 17;       // numbers that are fetched at once; of a larger matrix one row is
const LINE = 128;           // numbers in a line, where a row is shown alone
const MOST_DRAWN = 20_000;  // cells of a drawing that is exported
const BETWEEN = ["scores", "scaled_scores", "mask", "masked_scores", "weights"];  // their columns are tokens, too
const HUES = { query: "--query", key: "--key", value: "--value", weights: "--weights", activations: "--ff", residual: "--residual",
  positions: "--positions", logits: "--logits", context: "--value", norm: "--residual", embedding: "--embedding" };

const last = name => name.split(".").at(-1);
const hueOf = name => HUES[last(name)] ?? "--plus";

/** The tokens that the rows or columns of a tensor stand for; none where they are numbers of a vector. */
function axes(trace, name, shape) {
  const source = trace.source.map(plain), target = trace.target.map(plain);
  const decodes = name.startsWith("decoder") || (name === "logits" && target.length > 0);
  const cross = name.includes(".cross.");
  const read = cross && ["key", "value"].includes(last(name)) ? source : decodes ? target : source;
  const keys = cross ? source : read;
  const [rows, columns] = [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
  return { rows: rows === read.length ? read : rows,
    columns: BETWEEN.includes(last(name)) && columns === keys.length ? keys : columns };
}

/** What is shown of a tensor: one head, one row if it is large, all of it otherwise. */
async function shownPart(trace, state) {
  let shape = trace.tensors[state.tensor];
  const at = shape.length === 3 ? [Math.min(state.head, shape[0] - 1)] : [];
  if (shape.length === 1) shape = [shape[0], 1];  // a number a token
  const alone = shape.at(-2) * shape.at(-1) > MOST;
  const row = alone ? Math.min(state.cell?.at(-2) ?? state.row, shape.at(-2) - 1) : null;
  const { numbers } = await api.values(trace.id, state.tensor, alone ? [...at, row] : at);
  const named = axes(trace, state.tensor, shape);
  if (!alone) return { at, row, numbers, ...named, width: shape.at(-1) };
  const padded = new Float32Array(Math.ceil(numbers.length / LINE) * LINE).fill(NaN);
  padded.set(numbers);
  return { at, row, numbers: padded, rows: padded.length / LINE, columns: LINE, width: shape.at(-1), names: named.rows };
}

const listed = axis => (typeof axis === "number" ? Array.from({ length: axis }, (_, i) => String(i)) : axis);

/** `redraw(changes)` draws another matrix, `choose(changes)` notes what was chosen in this one. */
export async function tensorPanel(place, trace, state, { redraw, choose }) {
  const shape = trace.tensors[state.tensor];
  if (!shape) return refill(place, h("p", { class: "empty" }, say("no such tensor")));
  const [part, recipe] = await Promise.all([shownPart(trace, state), api.recipe(trace.id, state.tensor)]);
  const { numbers, rows, columns } = part, most = largest(numbers), signed = isSigned(numbers);
  const [R, C] = [listed(rows), listed(columns)];
  const below = h("div", { class: "cell" });
  const open = cell => showCell(below, trace, state.tensor, cell, redraw);
  const toCell = ([r, c]) => {
    if (part.row !== null) return [...part.at, part.row, Math.min(r * LINE + c, part.width - 1)];
    return shape.length === 1 ? [r] : [...part.at, r, c];
  };
  const chosen = state.cell && part.row === null ? (shape.length === 1 ? [state.cell[0], 0] : state.cell.slice(-2)) : null;
  const wide = Math.max(2, Math.min(22, Math.floor(480 / C.length)));
  const size = typeof rows === "number" && typeof columns === "number" ? Math.max(4, wide) : Math.max(12, wide);
  const map = heatmap({ numbers, rows: size >= 12 ? rows : R.length, columns: typeof columns === "number" ? C.length : columns,
    hue: hueOf(state.tensor), most, size, chosen, label: `${state.tensor}. ${say("arrow keys")}`,
    onchoose: place => { choose({ cell: toCell(place) }); open(state.cell); } });
  const title = [`${state.tensor} ${shape.join("×")}`, part.at.length && shape[0] > 1 && say("head n", { n: part.at[0] }),
    part.row !== null && `${say("row")} ${part.row}`].filter(Boolean).join(", ");
  refill(place, 
    h("p", { class: "formula" }, h("code", {}, state.tensor), ` ${shape.join(" × ")}`),
    h("p", { class: "formula" }, recipe.numpy && h("span", { class: "soft" }, "= "), say(recipe.formula)),
    h("div", { class: "controls" },
      shape.length === 3 && shape[0] > 1 && [h("span", { class: "soft" }, say("head")), choice(say("head"),
        Array.from({ length: shape[0] }, (_, i) => [i, String(i)]), part.at[0], head => redraw({ head: Number(head), row: 0, cell: null }))],
      part.row !== null && h("label", {}, say("row"), " ", select(listed(part.names).map((name, i) => [i, name]), part.row,
        row => redraw({ row: Number(row), cell: null })))),
    h("div", { class: "scroll" }, map),
    h("p", { class: "soft" }, `${say(signed ? "colour signed" : "colour says")} ${say("largest", { x: exact(most) })}`), below,
    recipe.numpy && numpy(recipe.numpy),
    twin(() => tableOf(title, ["", ...C], R.map((name, r) => [name, ...C.map((_, c) => exact(numbers[r * C.length + c]))]))),
    exports(state.tensor, {
      drawing: () => drawnMap({ numbers, rows: R.slice(0, Math.max(1, Math.floor(MOST_DRAWN / C.length))), columns: C,
        hue: hueOf(state.tensor), most, title }),
      rows: () => [["", ...C], ...R.map((name, r) => [name, ...C.map((_, c) => exact(numbers[r * C.length + c]).replace("−", "-"))])] }));
  if (state.cell) await open(state.cell);
}

function numpy(program) {
  const button = h("button", { type: "button", class: "quiet", onclick: async () => {
    await navigator.clipboard.writeText(program);
    button.textContent = say("copied");
    setTimeout(() => { button.textContent = say("copy as numpy"); }, 1500);
  } }, say("copy as numpy"));
  return h("div", { class: "numpy" }, button, h("details", {}, h("summary", {}, say("show numpy")),
    h("pre", { tabindex: "0" }, program)));
}

// ---------------------------------------------------------------- one cell

async function showCell(place, trace, name, at, redraw) {
  const mine = place.dataset.cell = at.join(",");
  const cell = await api.cell(trace.id, name, at);
  if (place.dataset.cell !== mine) return;  // another was chosen meanwhile
  const where = `${last(name)}[${at.join(", ")}]`;
  const strips = cell.operands.map(operand => strip(trace, operand, redraw));
  refill(place, h("h3", { "aria-live": "polite" }, where, " = ", h("strong", {}, exact(cell.value))),
    cell.says ? h("p", { class: "formula" }, `= ${translate(cell.message)}`) : h("p", { class: "soft" }, say(cell.without)),
    ...strips, ...terms(cell),
    cell.again !== null && h("p", { class: "soft" }, say("computed again", { x: exact(cell.again) })));
}

function strip(trace, operand, redraw) {
  const values = Array.isArray(operand.values) ? operand.values : [operand.values];
  const index = operand.at.map(i => i ?? ":").join(", "), label = `${operand.name}${index ? `[${index}]` : ""}`;
  const home = operand.tensor && trace.figure.blocks.find(block => block.tensors.includes(operand.name));
  const open = () => redraw({ block: home.id, layer: home.layer ?? 0, tensor: operand.name, row: 0, cell: null,
    head: trace.tensors[operand.name].length === 3 ? operand.at[0] ?? 0 : 0 });
  const numbers = values.map(Number);
  const canvas = paint(h("canvas", { class: "strip", "aria-hidden": "true" }), numbers, 1, numbers.length,
    { hue: hueOf(operand.name), most: largest(numbers) });
  return h("div", { class: "operand" }, h("span", { class: "role" }, operand.role),
    home ? h("button", { type: "button", class: "quiet", onclick: open }, label) : h("code", {}, label),
    values.length === 1 ? h("strong", {}, exact(values[0])) : canvas,
    values.length > 1 && twin(() => tableOf(label, ["", say("value")], values.map((x, i) => [String(i), exact(x)])),
      say("n numbers", { n: values.length })));
}

/** The first products of a sum, so that it can be followed by hand. */
function terms(cell) {
  const lists = cell.operands.filter(operand => Array.isArray(operand.values) && operand.values.length > 1).map(o => o.values);
  if (!cell.says?.startsWith("Σ") || lists.length !== 2 || lists[0].length !== lists[1].length) return [];
  const first = lists[0].slice(0, 3).map((x, i) => `${brief(x)}·${brief(lists[1][i])}`);
  return [h("p", { class: "formula small" }, `= ${first.join(" + ")}${lists[0].length > 3 ? " + …" : ""}`)];
}
