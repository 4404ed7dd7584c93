// Numbers as colour, on a canvas: one pixel a number, enlarged by the style sheet's `pixelated`.

import { colour, h, s } from "./dom.js";

const parts = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));

/**
 * Shades from the panel's colour (0) to `hue` (`most`), and to `--minus` below 0; −∞ is `--never`.
 * Numbers of both signs have one scale in all maps, blue above 0 and orange below, which no hue comes near.
 */
function shades(hue, signed) {
  const [panel, plus, minus, never] = ["--panel", signed ? "--plus" : hue, "--minus", "--never"].map(name => parts(colour(name)));
  return (x, most) => {
    if (!Number.isFinite(x)) return never;
    const strength = most > 0 ? Math.min(1, Math.abs(x) / most) : 0;
    const to = x < 0 ? minus : plus;
    return panel.map((from, i) => Math.round(from + (to[i] - from) * strength));
  };
}

export const largest = numbers =>
  numbers.reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0);

export const isSigned = numbers => numbers.some(x => Number.isFinite(x) && x < 0);

export function paint(canvas, numbers, rows, columns, { hue = "--weights", most = 1, signed = isSigned(numbers) } = {}) {
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows), shade = shades(hue, signed);
  for (let i = 0; i < rows * columns; i++) image.data.set([...shade(numbers[i], most), 255], 4 * i);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/**
 * A map to walk on by mouse or arrow keys, with names beside it.
 * rows, columns  names; a long axis without names is given as a number
 * size           of a cell, in pixels; [width, height] of one that is no square
 * signed         whether numbers below 0 are told apart from those above by the two colours of all such maps
 * onchoose       told [row, column] of the cell that is chosen
 */
export function heatmap({ numbers, rows, columns, hue, most = 1, signed, label, size = 22, chosen = null, onchoose }) {
  const [R, C] = [rows, columns].map(axis => (typeof axis === "number" ? axis : axis.length));
  const [wide, high = wide] = [size].flat();
  const canvas = paint(h("canvas", { "aria-hidden": "true" }), numbers, R, C, { hue, most, signed });
  const mark = h("span", { class: "mark", hidden: true });
  const field = h("div", { class: "field", tabindex: "0", role: "application", "aria-label": label }, canvas, mark);
  field.style.width = `${C * wide}px`;
  field.style.height = `${R * high}px`;
  const place = cell => {
    chosen = cell;
    mark.hidden = false;
    Object.assign(mark.style, { left: `${cell[1] * wide}px`, top: `${cell[0] * high}px`,
      width: `${wide}px`, height: `${high}px` });
  };
  const choose = (row, column) => {
    place([Math.max(0, Math.min(R - 1, row)), Math.max(0, Math.min(C - 1, column))]);
    onchoose?.(chosen);
  };
  field.addEventListener("click", event => {
    const box = field.getBoundingClientRect();
    choose(Math.floor((event.clientY - box.top) / high), Math.floor((event.clientX - box.left) / wide));
  });
  field.addEventListener("keydown", event => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [row, column] = chosen ?? [0, -1];
    choose(row + step[0], column + step[1]);
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  if (chosen && chosen[0] < R && chosen[1] < C) place(chosen);
  const map = h("div", { class: "map" }, names("across", columns, wide), names("down", rows, high), field);
  return Object.assign(map, { place });  // so that others can move the mark
}

function names(way, axis, size) {
  const list = h("div", { class: `names ${way}`, "aria-hidden": "true" });
  if (typeof axis !== "number") {
    list.append(...axis.map(name => {
      const item = h("span", {}, name);
      item.style[way === "across" ? "width" : "height"] = `${size}px`;
      if (size < 16) item.style.fontSize = `${Math.max(7, size - 1)}px`;
      return item;
    }));
  }
  return list;
}

/** The same as a drawing, for export. */
export function drawnMap({ numbers, rows, columns, hue = "--weights", most = 1, signed = isSigned(numbers), title }) {
  const size = 20, wide = names => 8 + 7.5 * Math.max(...names.map(name => name.length));
  const [left, top] = [wide(rows), wide(columns) + 24], shade = shades(hue, signed);
  const cells = rows.flatMap((row, r) => columns.map((column, c) => {
    const x = numbers[r * columns.length + c];
    return s("rect", { x: left + c * size, y: top + r * size, width: size - 1, height: size - 1,
      fill: `rgb(${shade(x, most).join(",")})` }, s("title", {}, `${row} → ${column}: ${x}`));
  }));
  const width = Math.max(left + columns.length * size + 8, 9 * title.length), height = top + rows.length * size + 8;
  return s("svg", { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    s("text", { x: 6, y: 16 }, title),
    rows.map((name, r) => s("text", { x: left - 6, y: top + r * size + 14, "text-anchor": "end" }, name)),
    columns.map((name, c) => {
      const x = left + c * size + 14;
      return s("text", { x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})` }, name);
    }), cells);
}
