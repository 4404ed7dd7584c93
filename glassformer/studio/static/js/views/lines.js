// Attention as two columns of words with lines between them: the stronger, the more of the attention.

import { s } from "../dom.js";

const LINE = 24, BETWEEN = 120, MARGIN = 16;
const FAINT = 0.02;  // below, a line could not be seen

const wide = text => [...text].reduce((sum, letter) => sum + (letter > "\u2fff" ? 13 : 7.6), 0);
const widest = names => Math.max(...names.map(wide));

export function lines({ numbers, rows, columns, chosen, label, onchoose }) {
  const height = LINE * Math.max(rows.length, columns.length) + 12, C = columns.length;
  const y = i => LINE * i + 20;
  const [left, right] = [MARGIN + widest(rows), MARGIN + widest(rows) + BETWEEN];
  const width = right + widest(columns) + MARGIN;
  const drawn = rows.flatMap((_, r) => columns.flatMap((__, c) => {
    const weight = numbers[r * C + c];
    return weight < FAINT ? [] : [s("line", { class: "look", "data-row": r, x1: left, y1: y(r) - 5, x2: right, y2: y(c) - 5,
      "stroke-opacity": weight.toFixed(3) })];
  }));
  const svg = s("svg", { class: "drawing lines", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label });
  const pick = row => {
    for (const line of drawn) line.classList.toggle("off", row >= 0 && Number(line.dataset.row) !== row);
    for (const name of svg.querySelectorAll("[role=button]"))
      name.setAttribute("aria-pressed", Number(name.dataset.row) === row);
  };
  const act = row => { pick(row); onchoose(row); };
  svg.append(...drawn,
    ...rows.map((name, r) => s("text", { class: "pick", role: "button", tabindex: "0", "data-row": r, x: left - 8, y: y(r),
      "text-anchor": "end", onclick: () => act(r),
      onkeydown: event => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); act(r); } } }, name)),
    ...columns.map((name, c) => s("text", { x: right + 8, y: y(c) }, name)));
  pick(chosen);
  return svg;
}
