// Attention as two columns of tokens with lines between them: the larger the weight, the stronger the line.

import { s } from "../dom.js";
import { formatShort } from "../numbers.js";
import { textWidth } from "../text_width.js";

/** @import { Matrix } from "../types.js" */

const LINE_HEIGHT = 24;
const GAP = 120;
const MARGIN = 16;
const SMALLEST_WEIGHT = 0.02; // a line below that weight would be invisible

/** @param {string[]} names */
const widest = names => Math.max(...names.map(name => textWidth(name)));

/**
 * @param {Matrix & { chosen: number, label: string, onchoose: (row: number) => void }} options  chosen: a row, or −1
 */
export function attentionLines({ numbers, rows, columns, chosen, label, onchoose }) {
  const height = LINE_HEIGHT * Math.max(rows.length, columns.length) + 12;
  /** @param {number} i */
  const y = i => LINE_HEIGHT * i + 20;
  const left = MARGIN + widest(rows);
  const right = left + GAP;
  const width = right + widest(columns) + MARGIN;
  const lines = rows.flatMap((_, r) =>
    columns.flatMap((__, c) => {
      const weight = numbers[r * columns.length + c];
      if (weight < SMALLEST_WEIGHT) return [];
      const ends = { x1: left, y1: y(r) - 5, x2: right, y2: y(c) - 5 };
      const text = `${rows[r]} → ${columns[c]}: ${formatShort(weight)}`;
      const line = { class: "look", "data-row": r, ...ends, "stroke-opacity": weight.toFixed(3) };
      return [s("line", line, s("title", {}, text))];
    }),
  );
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const svg = s("svg", { class: "drawing lines", ...size, role: "group", "aria-label": label });
  const highlight = /** @param {number} row */ row => {
    for (const line of lines) line.classList.toggle("off", row >= 0 && Number(line.dataset.row) !== row);
    rowNames.forEach((name, r) => name.setAttribute("aria-pressed", String(r === row)));
  };
  const choose = /** @param {number} row */ row => {
    highlight(row);
    onchoose(row);
  };
  const rowNames = rows.map((name, r) =>
    s(
      "text",
      {
        class: "pick",
        role: "button",
        tabindex: "0",
        "data-row": r,
        x: left - 8,
        y: y(r),
        "text-anchor": "end",
        onclick: () => choose(r),
        onkeydown: event => {
          if (!["Enter", " "].includes(event.key)) return;
          event.preventDefault();
          choose(r);
        },
      },
      name,
    ),
  );
  svg.append(...lines, ...rowNames, ...columns.map((name, c) => s("text", { x: right + 8, y: y(c) }, name)));
  highlight(chosen);
  highlightUnderPointer(svg, highlight);
  return svg;
}

/**
 * While the pointer is on a line or a name, highlight its row; then the chosen row again.
 *
 * @param {SVGSVGElement} svg
 * @param {(row: number) => void} highlight
 */
function highlightUnderPointer(svg, highlight) {
  const pressed = () => Number(svg.querySelector(".pick[aria-pressed=true]")?.getAttribute("data-row") ?? -1);
  let chosen = pressed();
  svg.addEventListener("click", () => {
    chosen = pressed();
  });
  svg.addEventListener("pointerover", event => {
    const row = event.target instanceof SVGElement ? event.target.dataset.row : undefined;
    highlight(row === undefined ? chosen : Number(row));
  });
  svg.addEventListener("pointerleave", () => highlight(chosen));
}
