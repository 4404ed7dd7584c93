// Matrices as colour. The canvas has one pixel per number; the style sheet enlarges it (`image-rendering: pixelated`).

import { colourScale, parseHex } from "./colour_scale.js";
import { cssVariable, h, s } from "./dom.js";
import { clamp } from "./ranges.js";
import { hasNegative } from "./vectors.js";

/** @import { CellIndex, Matrix } from "./types.js" */

/** @typedef {string[] | number} Axis  names, or only the length of a long axis without names */
/**
 * @typedef {object} ColourOptions
 * @property {string} [hue]  the CSS variable of the colour of positive numbers
 * @property {number} [most]  the number that has the full colour
 * @property {boolean} [signed]  whether the blue and orange of signed matrices are used instead of `hue`
 */
/** @typedef {HTMLElement & { markCell: (cell: CellIndex) => void }} Heatmap */

const SMALLEST_NAME_SIZE = 16; // pixels per cell below which names get a smaller font
const DRAWN_CELL = 20;
/** @type {Record<string, CellIndex>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * The colours of the current theme. All signed matrices share one scale: blue above 0, orange below.
 *
 * @param {ArrayLike<number>} numbers
 * @param {ColourOptions} options
 */
function themeScale(numbers, { hue = "--weights", most = 1, signed = hasNegative(numbers) }) {
  const colour = /** @param {string} name */ name => parseHex(cssVariable(name));
  const palette = {
    zero: colour("--panel"),
    positive: colour(signed ? "--plus" : hue),
    negative: colour("--minus"),
    infinite: colour("--never"),
  };
  return colourScale(palette, most);
}

/**
 * Draw a matrix on a canvas.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {ArrayLike<number>} numbers
 * @param {number} rows
 * @param {number} columns
 * @param {ColourOptions} [options]
 */
export function paint(canvas, numbers, rows, columns, options = {}) {
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows);
  const scale = themeScale(numbers, options);
  for (let i = 0; i < rows * columns; i++) image.data.set([...scale(numbers[i]), 255], 4 * i);
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

/** Create a canvas that screen readers skip: the same numbers are in a table. */
export const hiddenCanvas = (className = "") => h("canvas", { class: className || null, "aria-hidden": "true" });

/**
 * Create a heat map with a cell that is chosen by mouse or arrow keys. `markCell` moves the mark without calling
 * `onchoose`.
 *
 * @param {ColourOptions & {
 *   numbers: ArrayLike<number>, rows: Axis, columns: Axis, label: string,
 *   size?: number | [number, number],
 *   chosen?: CellIndex | null, onchoose?: (cell: CellIndex) => void }} options  size: of a cell in pixels, or [width, height]
 * @returns {Heatmap}
 */
export function heatmap({ numbers, rows, columns, label, size = 22, chosen = null, onchoose, ...colours }) {
  const [height, width] = [rows, columns].map(axis => (typeof axis === "number" ? axis : axis.length));
  const [cellWidth, cellHeight] = typeof size === "number" ? [size, size] : size;
  const canvas = paint(hiddenCanvas(), numbers, height, width, colours);
  const mark = h("span", { class: "mark", hidden: true });
  const field = h("div", { class: "field", tabindex: "0", role: "application", "aria-label": label }, canvas, mark);
  field.style.width = `${width * cellWidth}px`;
  field.style.height = `${height * cellHeight}px`;
  let marked = chosen;
  const markCell = /** @param {CellIndex} cell */ cell => {
    marked = cell;
    mark.hidden = false;
    Object.assign(mark.style, {
      left: `${cell[1] * cellWidth}px`,
      top: `${cell[0] * cellHeight}px`,
      width: `${cellWidth}px`,
      height: `${cellHeight}px`,
    });
  };
  /** @type {(row: number, column: number) => void} */
  const choose = (row, column) => {
    /** @type {CellIndex} */
    const cell = [clamp(row, 0, height - 1), clamp(column, 0, width - 1)];
    markCell(cell);
    onchoose?.(cell);
  };
  field.addEventListener("click", event => {
    const box = field.getBoundingClientRect();
    choose(Math.floor((event.clientY - box.top) / cellHeight), Math.floor((event.clientX - box.left) / cellWidth));
  });
  field.addEventListener("keydown", event => {
    const arrow = ARROWS[event.key];
    if (!arrow) return;
    event.preventDefault();
    const [row, column] = marked ?? [0, -1];
    choose(row + arrow[0], column + arrow[1]);
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  if (chosen && chosen[0] < height && chosen[1] < width) markCell(chosen);
  const map = h("div", { class: "map" }, names("across", columns, cellWidth), names("down", rows, cellHeight), field);
  return Object.assign(map, { markCell });
}

/**
 * @param {"across" | "down"} direction
 * @param {Axis} axis
 * @param {number} size
 */
function names(direction, axis, size) {
  const list = h("div", { class: `names ${direction}`, "aria-hidden": "true" });
  if (typeof axis === "number") return list;
  for (const name of axis) {
    const item = h("span", {}, name);
    item.style[direction === "across" ? "width" : "height"] = `${size}px`;
    if (size < SMALLEST_NAME_SIZE) item.style.fontSize = `${Math.max(7, size - 1)}px`;
    list.append(item);
  }
  return list;
}

/**
 * Draw a matrix as SVG, for export.
 *
 * @param {Matrix & ColourOptions & { title: string }} options
 */
export function heatmapDrawing({ numbers, rows, columns, title, ...colours }) {
  /** @param {string[]} axis */
  const nameWidth = axis => 8 + 7.5 * Math.max(...axis.map(name => name.length));
  const [left, top] = [nameWidth(rows), nameWidth(columns) + 24];
  const scale = themeScale(numbers, colours);
  const cells = rows.flatMap((rowName, r) =>
    columns.map((columnName, c) => {
      const x = numbers[r * columns.length + c];
      const corner = { x: left + c * DRAWN_CELL, y: top + r * DRAWN_CELL };
      return s(
        "rect",
        { ...corner, width: DRAWN_CELL - 1, height: DRAWN_CELL - 1, fill: `rgb(${scale(x).join(",")})` },
        s("title", {}, `${rowName} → ${columnName}: ${x}`),
      );
    }),
  );
  const width = Math.max(left + columns.length * DRAWN_CELL + 8, 9 * title.length);
  const height = top + rows.length * DRAWN_CELL + 8;
  return s(
    "svg",
    { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    s("text", { x: 6, y: 16 }, title),
    rows.map((name, r) => s("text", { x: left - 6, y: top + r * DRAWN_CELL + 14, "text-anchor": "end" }, name)),
    columns.map((name, c) => {
      const x = left + c * DRAWN_CELL + 14;
      return s("text", { x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})` }, name);
    }),
    cells,
  );
}
