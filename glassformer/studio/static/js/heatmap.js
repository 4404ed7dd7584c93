// Matrices as colour. The canvas has one pixel per number; the style sheet enlarges it (`image-rendering: pixelated`).

import { colourScale, parseHex, readableOn } from "./colour_scale.js";
import { cssVariable, h, refill } from "./dom.js";
import { formatCell, formatShort } from "./numbers.js";
import { clamp } from "./ranges.js";
import { textWidth } from "./text_width.js";
import { hideTip, showTip } from "./tip.js";
import { hasNegative, largestMagnitude } from "./vectors.js";

/** @import { CellIndex } from "./types.js" */

/** @typedef {string[] | number} Axis  names, or only the length of a long axis without names */
/**
 * @typedef {object} ColourOptions
 * @property {string} [hue]  the CSS variable of the colour of positive numbers
 * @property {number} [most]  the number that has the full colour
 * @property {boolean} [signed]  whether the blue and orange of signed matrices are used instead of `hue`
 */
/** @typedef {{ row: number | null, column: number | null, columns?: number }} Region  null: all rows or columns */
/**
 * @typedef {HTMLElement & { markCell: (cell: CellIndex) => void, highlight: (regions: Region[]) => void }} Heatmap
 *   `markCell` moves the mark without calling `onchoose`; `highlight` marks operands of a cell of another matrix
 */

const SMALLEST_NAME_SIZE = 16; // pixels per cell below which names get a smaller font
const TINY = 0.1; // the largest number of a matrix whose small numbers are written with an exponent
const MOST_NUMBERED = 8; // rows and columns up to which the cells contain their numbers
const NUMBERED_CELL = [46, 28]; // least width and height in pixels of a cell that contains its number
/** @type {Record<string, CellIndex>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * The colours of the current theme. All signed matrices share one scale: blue above 0, orange below.
 *
 * @param {ArrayLike<number>} numbers
 * @param {ColourOptions} options
 */
export function themeScale(numbers, { hue = "--weights", most = 1, signed = hasNegative(numbers) }) {
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

/** @param {Axis} axis */
const axisLength = axis => (typeof axis === "number" ? axis : axis.length);

/**
 * Whether the cells of a matrix contain their numbers.
 *
 * @param {number} rows
 * @param {number} columns
 */
export const isNumbered = (rows, columns) => rows <= MOST_NUMBERED && columns <= MOST_NUMBERED;

/**
 * Create a heat map with a cell that is chosen by mouse or arrow keys. The row and the column under the pointer are
 * marked; a small matrix contains its numbers.
 *
 * @param {ColourOptions & {
 *   numbers: ArrayLike<number>, written?: ArrayLike<number>, rows: Axis, columns: Axis, label: string,
 *   size?: number | [number, number], numbered?: boolean,
 *   chosen?: CellIndex | null, onchoose?: (cell: CellIndex) => void, onhover?: (cell: CellIndex | null) => void,
 * }} options
 *   written: the numbers in the cells, if they differ from the numbers that have the colours;
 *   size: of a cell in pixels, or [width, height], enlarged for numbers unless `numbered` is given;
 *   onhover: null when the pointer leaves
 * @returns {Heatmap}
 */
export function heatmap({ numbers, rows, columns, label, size = 22, chosen = null, onchoose, onhover, ...options }) {
  const [height, width] = [axisLength(rows), axisLength(columns)];
  const { numbered = isNumbered(height, width), written = numbers, ...colours } = options;
  const [cellWidth, cellHeight] = cellBox(size, numbered && options.numbered === undefined);
  const canvas = paint(hiddenCanvas(), numbers, height, width, colours);
  const mark = h("span", { class: "mark", hidden: true });
  const lit = h("span", { class: "lit" });
  const field = h(
    "div",
    { class: "field", tabindex: "0", role: "application", "aria-label": label },
    canvas,
    numbered && cellNumbers(numbers, written, width, colours),
    lit,
    mark,
  );
  field.style.width = `${width * cellWidth}px`;
  field.style.height = `${height * cellHeight}px`;
  /** @param {Region} region */
  const box = region => regionBox(region, [height, width], [cellWidth, cellHeight]);
  let marked = chosen;
  const markCell = /** @param {CellIndex} cell */ cell => {
    marked = cell;
    mark.hidden = false;
    Object.assign(mark.style, box({ row: cell[0], column: cell[1] }));
  };
  const highlight = /** @param {Region[]} regions */ regions =>
    refill(
      lit,
      regions.map(region => {
        const part = h("span", {});
        Object.assign(part.style, box(region));
        return part;
      }),
    );
  /** @type {(row: number, column: number) => CellIndex} */
  const nearest = (row, column) => [clamp(row, 0, height - 1), clamp(column, 0, width - 1)];
  const choose = /** @param {CellIndex} cell */ cell => {
    markCell(cell);
    onchoose?.(cell);
  };
  /** @param {MouseEvent} event */
  const cellUnder = event => {
    const { left, top } = field.getBoundingClientRect();
    return nearest(Math.floor((event.clientY - top) / cellHeight), Math.floor((event.clientX - left) / cellWidth));
  };
  field.addEventListener("click", event => choose(cellUnder(event)));
  field.addEventListener("keydown", event => {
    const arrow = ARROWS[event.key];
    if (!arrow) return;
    event.preventDefault();
    const [row, column] = marked ?? [0, -1];
    choose(nearest(row + arrow[0], column + arrow[1]));
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  if (chosen && chosen[0] < height && chosen[1] < width) markCell(chosen);
  const across = names("across", columns, cellWidth, column => choose(nearest(marked?.[0] ?? 0, column)));
  const down = names("down", rows, cellHeight, row => choose(nearest(row, marked?.[1] ?? 0)));
  const text = /** @param {CellIndex} cell */ cell => cellText({ numbers: written, rows, columns }, cell);
  addHover(field, { cellUnder, box, across, down, onhover, text });
  return Object.assign(h("div", { class: "map" }, across, down, field), { markCell, highlight });
}

/**
 * @param {number | [number, number]} size
 * @param {boolean} enlarged  so that the cells can contain numbers
 */
function cellBox(size, enlarged) {
  const box = typeof size === "number" ? [size, size] : size;
  return enlarged ? box.map((pixels, i) => Math.max(pixels, NUMBERED_CELL[i])) : box;
}

/**
 * Position and size of some cells.
 *
 * @param {Region} region
 * @param {number[]} shape  rows and columns
 * @param {number[]} cell  width and height in pixels
 */
const regionBox = ({ row, column, columns = 1 }, [height, width], [cellWidth, cellHeight]) => ({
  left: `${(column ?? 0) * cellWidth}px`,
  top: `${(row ?? 0) * cellHeight}px`,
  width: `${(column === null ? width : columns) * cellWidth}px`,
  height: `${(row === null ? height : 1) * cellHeight}px`,
});

/**
 * The numbers of all cells, each on the colour of its cell.
 *
 * @param {ArrayLike<number>} numbers  that have the colours
 * @param {ArrayLike<number>} written
 * @param {number} width
 * @param {ColourOptions} colours
 */
function cellNumbers(numbers, written, width, colours) {
  const scale = themeScale(numbers, colours);
  const tiny = largestMagnitude(numbers) < TINY;
  const cells = Array.from(numbers, (x, i) => {
    const cell = h("span", {}, Number.isNaN(x) ? "" : formatCell(written[i], tiny));
    const colour = scale(x);
    Object.assign(cell.style, { background: `rgb(${colour})`, color: `rgb(${readableOn(colour)})` });
    return cell;
  });
  const grid = h("div", { class: "cell-numbers", "aria-hidden": "true" }, cells);
  grid.style.gridTemplateColumns = `repeat(${width}, 1fr)`;
  return grid;
}

/**
 * "row → column: number".
 *
 * @param {{ numbers: ArrayLike<number>, rows: Axis, columns: Axis }} matrix
 * @param {CellIndex} cell
 */
function cellText({ numbers, rows, columns }, [row, column]) {
  /** @type {(axis: Axis, i: number) => string} */
  const name = (axis, i) => (typeof axis === "number" ? String(i + 1) : axis[i]);
  return `${name(rows, row)} → ${name(columns, column)}: ${formatShort(numbers[row * axisLength(columns) + column])}`;
}

/**
 * Mark the row, the column and the names of the cell under the pointer, and show its number.
 *
 * @param {HTMLElement} field
 * @param {{ cellUnder: (event: MouseEvent) => CellIndex, box: (region: Region) => object, across: Element, down: Element,
 *   onhover?: (cell: CellIndex | null) => void, text: (cell: CellIndex) => string }} parts
 */
function addHover(field, { cellUnder, box, across, down, onhover, text }) {
  const bands = h("div", { class: "bands", "aria-hidden": "true" }, h("span", {}), h("span", {}));
  let shown = "";
  const clear = () => {
    shown = "";
    bands.remove();
    hideTip();
    for (const name of [...across.children, ...down.children]) name.classList.remove("on");
  };
  field.addEventListener("pointermove", event => {
    if (event.pointerType === "touch") return; // a tap chooses a cell
    const cell = cellUnder(event);
    if (String(cell) === shown) return;
    clear();
    shown = String(cell);
    const [row, column] = cell;
    [
      { row, column: null },
      { row: null, column },
    ].forEach((region, i) => {
      Object.assign(/** @type {HTMLElement} */ (bands.children[i]).style, box(region));
    });
    across.children[column]?.classList.add("on");
    down.children[row]?.classList.add("on");
    field.append(bands);
    showTip(text(cell), event);
    onhover?.(cell);
  });
  field.addEventListener("pointerleave", () => {
    clear();
    onhover?.(null);
  });
}

/**
 * The names of an axis. A click on one chooses its row or column.
 *
 * @param {"across" | "down"} direction
 * @param {Axis} axis
 * @param {number} size
 * @param {(index: number) => void} onchoose
 */
function names(direction, axis, size, onchoose) {
  const list = h("div", { class: `names ${direction}`, "aria-hidden": "true" });
  if (typeof axis === "number") return list;
  const isFlat = direction === "across" && axis.every(name => textWidth(name, 6.4, 11.5) <= size - 4);
  list.classList.toggle("flat", isFlat);
  axis.forEach((name, i) => {
    const item = h("span", { onclick: () => onchoose(i) }, name);
    item.style[direction === "across" ? "width" : "height"] = `${size}px`;
    if (size < SMALLEST_NAME_SIZE) item.style.fontSize = `${Math.max(7, size - 1)}px`;
    list.append(item);
  });
  return list;
}
