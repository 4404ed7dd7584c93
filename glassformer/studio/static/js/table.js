// Every drawing is also available as a table of its numbers, for screen readers and for exact reading.

import { scrollRegion } from "./components.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";
import { formatExact } from "./numbers.js";

/** @import { Child, Numbers } from "./types.js" */

/**
 * Create a table: `dataTable("caption", ["a", "b"], [["1", "2"]])`. The first cell of a row is its heading.
 *
 * @param {string} caption
 * @param {readonly string[]} columns
 * @param {readonly (readonly Child[])[]} rows
 */
export function dataTable(caption, columns, rows) {
  const head = columns.map(column => h("th", { scope: "col" }, column));
  const body = rows.map(([name, ...cells]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      cells.map(cell => h("td", {}, cell)),
    ),
  );
  return h(
    "table",
    { class: "numbers" },
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head)),
    h("tbody", {}, body),
  );
}

/**
 * Create a folded table that is built when it is opened.
 *
 * @param {() => Node} build
 * @param {string} [label]
 */
export function foldedTable(build, label = t("as a table")) {
  const details = h("details", { class: "twin" }, h("summary", {}, label));
  details.addEventListener("toggle", () => {
    if (!details.open || details.dataset.built) return;
    details.dataset.built = "yes";
    details.append(scrollRegion(label, build()));
  });
  return details;
}

/**
 * The rows of a table of a matrix: the name of each row and its formatted numbers.
 *
 * @param {{ numbers: ArrayLike<number>, rows: readonly string[], columns: readonly string[] }} matrix
 * @param {(x: number) => string} [format]
 */
export const matrixRows = ({ numbers, rows, columns }, format = formatExact) =>
  rows.map((name, r) => [name, ...columns.map((_, c) => format(numbers[r * columns.length + c]))]);

/**
 * A folded table of a matrix.
 *
 * @param {string} caption
 * @param {{ numbers: Numbers, rows: readonly string[], columns: readonly string[] }} matrix
 * @param {(x: number) => string} [format]
 * @param {string} [corner]  heading of the column of row names
 */
export const foldedMatrix = (caption, matrix, format = formatExact, corner = "") =>
  foldedTable(() => dataTable(caption, [corner, ...matrix.columns], matrixRows(matrix, format)));

/**
 * One line per cell of a matrix, for CSV: row, column, number.
 *
 * @template T
 * @param {{ numbers: ArrayLike<number>, rows: readonly string[], columns: readonly string[] }} matrix
 * @param {(x: number) => T} format
 * @returns {(string | T)[][]}
 */
export const matrixCells = ({ numbers, rows, columns }, format) =>
  rows.flatMap((row, r) => columns.map((column, c) => [row, column, format(numbers[r * columns.length + c])]));
