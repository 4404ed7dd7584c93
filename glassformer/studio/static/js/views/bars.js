// Shares of a whole as bars: a list to read, and the same as a drawing to take away.

import { h, s } from "../dom.js";

const LINE = 24, NAME = 130, WIDTH = 460;

/** Entries {name, share, number, exact, marked, button}; the list has `drawing(title)`. */
export function bars(entries, hue = "probability") {
  const list = h("ol", { class: entries.some(entry => entry.button) ? "bars acting" : "bars" }, entries.map(entry => {
    const bar = h("span", { class: `bar ${hue}` });
    bar.style.width = `${100 * entry.share}%`;
    return h("li", { class: entry.marked ? "marked" : null }, h("span", { class: "name" }, entry.name),
      h("span", { class: "track" }, bar), h("span", { class: "number", title: entry.exact }, entry.number), entry.button);
  }));
  list.drawing = title => s("svg", { class: "drawing", viewBox: `0 0 ${WIDTH} ${LINE * entries.length + 36}`, role: "img", "aria-label": title },
    s("text", { x: 8, y: 20 }, title), entries.map((entry, i) => {
      const y = 34 + i * LINE;
      return [s("text", { x: NAME - 8, y: y + 14, "text-anchor": "end" }, entry.name),
        s("rect", { class: hue, x: NAME, y, width: Math.max(0.5, 220 * entry.share), height: LINE - 6, rx: 3 }),
        s("text", { x: NAME + 232, y: y + 14 }, entry.number)];
    }));
  return list;
}
