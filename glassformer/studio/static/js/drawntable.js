// A table as a drawing, to take away.

import { s } from "./dom.js";

const LINE = 22, LETTER = 7.6;
const wide = text => [...text].reduce((sum, c) => sum + (c > "\u2fff" ? 13 : LETTER), 0);

/** The first of the rows are the heads of the columns. */
export function drawnTable(title, rows) {
  const widths = rows[0].map((_, c) => 18 + Math.max(...rows.map(row => wide(String(row[c])))));
  const left = widths.map((_, c) => widths.slice(0, c).reduce((a, b) => a + b, 10));
  const width = Math.max(left.at(-1) + widths.at(-1), 20 + wide(title));
  return s("svg", { class: "drawing", viewBox: `0 0 ${width} ${LINE * (rows.length + 1) + 14}`, role: "img", "aria-label": title },
    s("text", { x: 10, y: 20, "font-weight": "600" }, title),
    rows.map((cells, r) => cells.map((cell, c) => s("text", { x: left[c], y: 20 + (r + 1) * LINE,
      "font-weight": r === 0 ? "600" : "400" }, cell))));
}
