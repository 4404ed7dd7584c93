// Heat maps of attention weights: a small picture per head, and a table that can be read cell by cell.

import { h } from "../../studio/static/js/dom.js";
import { tokenText } from "../../studio/static/js/tokens.js";

/** @import { Attention } from "./types.js" */

/** @param {number} weight */
const shade = weight => `color-mix(in srgb, var(--accent) ${Math.round(100 * Math.sqrt(weight))}%, var(--panel))`;

/** @param {number} weight */
export const percent = weight => `${(100 * weight).toFixed(1)}\u202f%`;

/**
 * A small picture of one head.
 *
 * @param {Float32Array} weights
 * @param {number} columns
 */
export function thumbnail(weights, columns) {
  const canvas = h("canvas", { width: columns, height: weights.length / columns, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent");
  if (!context) return canvas;
  context.fillStyle = colour;
  weights.forEach((weight, i) => {
    context.globalAlpha = Math.sqrt(weight);
    context.fillRect(i % columns, Math.floor(i / columns), 1, 1);
  });
  return canvas;
}

/**
 * The weights of one head as a table. `read` is called with the row and column of the cell that is looked at.
 *
 * @param {Attention} attention
 * @param {Float32Array} weights
 * @param {string} name
 * @param {(row: number, column: number) => void} read
 */
export function weightTable(attention, weights, name, read) {
  const width = attention.columns.length;
  const cells = Array.from(weights, (weight, i) => {
    const cell = h("td", { tabindex: i === 0 ? "0" : "-1", "aria-label": percent(weight) });
    cell.style.backgroundColor = shade(weight);
    cell.addEventListener("focus", () => read(Math.floor(i / width), i % width));
    cell.addEventListener("mouseenter", () => read(Math.floor(i / width), i % width));
    return cell;
  });
  const header = attention.columns.map(token => h("th", { scope: "col" }, h("span", {}, tokenText(token))));
  const body = attention.rows.map((token, row) =>
    h("tr", {}, h("th", { scope: "row" }, tokenText(token)), cells.slice(row * width, (row + 1) * width)),
  );
  const table = h(
    "table",
    { class: "weights", "aria-label": name },
    h("thead", {}, h("tr", {}, h("td"), header)),
    h("tbody", {}, body),
  );
  table.addEventListener("keydown", event => moveFocus(event, cells, width));
  return table;
}

/**
 * Move the focus between cells with the arrow keys, Home and End.
 *
 * @param {KeyboardEvent} event
 * @param {HTMLElement[]} cells
 * @param {number} width
 */
function moveFocus(event, cells, width) {
  const at = cells.findIndex(cell => cell === event.target),
    column = at % width;
  /** @type {Record<string, number>} */
  const next = {
    ArrowLeft: column > 0 ? at - 1 : at,
    ArrowRight: column < width - 1 ? at + 1 : at,
    ArrowUp: at - width,
    ArrowDown: at + width,
    Home: at - column,
    End: at - column + width - 1,
  };
  const to = cells[next[event.key] ?? -1];
  if (at < 0 || !to) return;
  event.preventDefault();
  cells[at].tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}
