// One cell of a tensor: its value, and the numbers that it is computed from.

import * as api from "../api.js";
import { explanation } from "../components.js";
import { h, ifLatest, refill } from "../dom.js";
import { hiddenCanvas, paint } from "../heatmap.js";
import { t, translate } from "../i18n.js";
import { headLabel, tensorLabel } from "../labels.js";
import { formatExact, formatShort } from "../numbers.js";
import { dataTable, foldedTable } from "../table.js";
import { tensorColour } from "../tensor_names.js";
import { tokenText } from "../tokens.js";
import { largestMagnitude } from "../vectors.js";

/** @import { Cell, Operand, Trace } from "../types.js" */
/** @import { WorksheetState } from "./tensor.js" */

const SHOWN_TERMS = 3;

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {string} tensor
 * @param {number[]} at
 * @param {{ rows: string[], columns: string[], redraw: (changes: Partial<WorksheetState>) => void }} options
 *   rows, columns: the names of all rows and columns
 */
export async function drawCell(place, trace, tensor, at, { rows, columns, redraw }) {
  const cell = await ifLatest(place, api.cell(trace.id, tensor, at));
  if (!cell) return;
  const value = h("strong", {}, formatExact(cell.value));
  const [row, column] = at.length === 1 ? [at[0], 0] : at.slice(-2);
  const names = [rows[row], at.length > 1 && (cell.column !== null ? tokenText(cell.column) : columns[column])];
  const head = at.length === 3 && trace.tensors[tensor][0] > 1 ? `, ${headLabel(at[0])}` : "";
  const where = names.filter(Boolean).join(", ");
  refill(
    place,
    h("h3", { "aria-live": "polite" }, `${tensorLabel(tensor)} [${where}]${head}`, " = ", value),
    cell.message
      ? h("p", { class: "formula" }, `= ${translate(cell.message)}`)
      : explanation(t(cell.without ?? "no formula")),
    cell.operands.map(operand => operandStrip(trace, operand, redraw)),
    firstTerms(cell),
    h("p", { class: "exact-name" }, h("code", {}, `${tensor}[${at.join(", ")}]`)),
    cell.again !== null && explanation(t("computed again", { x: formatExact(cell.again) })),
  );
}

/**
 * The values of an operand: one number, or a strip of colours with a table.
 *
 * @param {Trace} trace
 * @param {Operand} operand
 * @param {(changes: Partial<WorksheetState>) => void} redraw
 */
function operandStrip(trace, { role, name, tensor, symbol, at, values }, redraw) {
  const list = Array.isArray(values) ? values : [values];
  const index = at.map(i => i ?? ":").join(", ");
  const exact = index ? `${name}[${index}]` : name;
  const label = tensor ? tensorLabel(name) : (symbol ?? exact);
  const block = tensor && trace.figure.blocks.find(({ tensors }) => tensors.includes(name));
  const numbers = list.map(Number);
  const colours = { hue: tensorColour(name), most: largestMagnitude(numbers) };
  const canvas = paint(hiddenCanvas("strip"), numbers, 1, numbers.length, colours);
  const open = () => {
    if (!block) return;
    const head = trace.tensors[name].length === 3 ? Number(at[0] ?? 0) : 0;
    redraw({ block: block.id, layer: block.layer ?? 0, tensor: name, row: 0, cell: null, head });
  };
  const table = () =>
    dataTable(
      exact,
      ["", t("value")],
      list.map((x, i) => [String(i + 1), formatExact(x)]),
    );
  return h(
    "div",
    { class: "operand", title: exact },
    h("span", { class: "role" }, role),
    block
      ? h("button", { type: "button", class: "quiet", onclick: open }, label)
      : h("span", { class: "symbol" }, label),
    h("code", { class: "exact-name" }, exact),
    list.length === 1 ? h("strong", {}, formatExact(list[0])) : canvas,
    list.length > 1 && foldedTable(table, t("n numbers", { n: list.length })),
  );
}

/**
 * The first products of a dot product, so that it can be followed by hand.
 *
 * @param {Cell} cell
 */
function firstTerms({ says, operands }) {
  const lists = operands.flatMap(({ values }) => (Array.isArray(values) && values.length > 1 ? [values] : []));
  const [a, b] = lists;
  if (!says?.startsWith("Σ") || lists.length !== 2 || a.length !== b.length) return null;
  const terms = a.slice(0, SHOWN_TERMS).map((x, i) => `${formatShort(x)}·${formatShort(b[i])}`);
  return h("p", { class: "formula small" }, `= ${terms.join(" + ")}${a.length > SHOWN_TERMS ? " + …" : ""}`);
}
