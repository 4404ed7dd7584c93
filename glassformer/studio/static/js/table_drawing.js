// A table as an SVG drawing, for export.

import { s } from "./dom.js";
import { textWidth } from "./text_width.js";

const LINE_HEIGHT = 22;
const COLUMN_GAP = 18;

/**
 * @param {string} title
 * @param {readonly (readonly string[])[]} rows  the first row holds the column headings
 */
export function tableDrawing(title, rows) {
  const widths = rows[0].map((_, c) => COLUMN_GAP + Math.max(...rows.map(row => textWidth(row[c]))));
  const left = widths.map((_, c) => widths.slice(0, c).reduce((a, b) => a + b, 10));
  const right = widths.reduce((a, b) => a + b, 10);
  const width = Math.max(right, 20 + textWidth(title));
  const height = LINE_HEIGHT * (rows.length + 1) + 14;
  return s(
    "svg",
    { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    s("text", { x: 10, y: 20, "font-weight": "600" }, title),
    rows.map((cells, r) =>
      cells.map((cell, c) => {
        const weight = r === 0 ? "600" : "400";
        return s("text", { x: left[c], y: 20 + (r + 1) * LINE_HEIGHT, "font-weight": weight }, cell);
      }),
    ),
  );
}
