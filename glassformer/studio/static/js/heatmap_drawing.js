// A matrix as an SVG drawing, for export.

import { readableOn } from "./colour_scale.js";
import { s } from "./dom.js";
import { isNumbered, themeScale } from "./heatmap.js";
import { formatCell } from "./numbers.js";
import { textWidth } from "./text_width.js";

/** @import { Matrix } from "./types.js" */
/** @import { ColourOptions } from "./heatmap.js" */

const CELL = 20; // pixels
const NUMBERED_CELL = 44; // pixels across, if the cells contain their numbers
const TITLE_HEIGHT = 24;

/**
 * @param {Matrix & ColourOptions & { title: string }} options
 */
export function heatmapDrawing({ numbers, rows, columns, title, ...colours }) {
  /** @param {string[]} axis */
  const nameWidth = axis => 8 + Math.max(...axis.map(name => textWidth(name)));
  const numbered = isNumbered(rows.length, columns.length);
  const cell = { width: numbered ? NUMBERED_CELL : CELL, height: numbered ? 26 : CELL };
  const [left, top] = [nameWidth(rows), nameWidth(columns) + TITLE_HEIGHT];
  const scale = themeScale(numbers, colours);
  const cells = rows.flatMap((rowName, r) =>
    columns.map((columnName, c) => {
      const x = numbers[r * columns.length + c];
      const [cx, cy] = [left + c * cell.width, top + r * cell.height];
      const colour = scale(x);
      const text = { x: cx + cell.width / 2 - 0.5, y: cy + cell.height / 2 + 4, "text-anchor": "middle" };
      return [
        s(
          "rect",
          { x: cx, y: cy, width: cell.width - 1, height: cell.height - 1, fill: `rgb(${colour})` },
          s("title", {}, `${rowName} → ${columnName}: ${x}`),
        ),
        numbered && s("text", { ...text, class: "in-cell", fill: `rgb(${readableOn(colour)})` }, formatCell(x)),
      ];
    }),
  );
  const width = Math.max(left + columns.length * cell.width + 8, 16 + textWidth(title));
  const height = top + rows.length * cell.height + 8;
  return s(
    "svg",
    { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    s("text", { x: 6, y: 16 }, title),
    rows.map((name, r) => s("text", { x: left - 6, y: top + (r + 0.7) * cell.height, "text-anchor": "end" }, name)),
    columns.map((name, c) => {
      const x = left + (c + 0.5) * cell.width + 4;
      return s("text", { x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})` }, name);
    }),
    cells,
  );
}
