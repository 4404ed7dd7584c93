// Shares of 1 as a list of bars, and the same list as a drawing for export.

import { h, s } from "../dom.js";
import { formatExact, formatPercent } from "../numbers.js";

/** @import { Child } from "../types.js" */
/**
 * @typedef {object} Bar
 * @property {string} name
 * @property {number} share
 * @property {string} [number]  the share as text, in percent if not given
 * @property {boolean} [marked]
 * @property {Child} [button]
 */

const LINE_HEIGHT = 24;
const NAME_WIDTH = 130;
const BAR_WIDTH = 220;
const WIDTH = 460;

/**
 * A list item with a name, a track with a bar in it, and a number.
 *
 * @param {string} name
 * @param {Node} track
 * @param {string} number
 * @param {string} exact
 * @param {boolean} [marked]
 * @param {Child} [button]
 */
export const barItem = (name, track, number, exact, marked = false, button = null) =>
  h(
    "li",
    { class: marked ? "marked" : null },
    h("span", { class: "name" }, name),
    track,
    h("span", { class: "number", title: exact }, number),
    button,
  );

/**
 * A bar that fills a share of its track.
 *
 * @param {number} share
 * @param {string} className
 * @param {boolean} [hideZero]  otherwise a share of 0 still has a thin bar
 */
export function barTrack(share, className, hideZero = false) {
  const bar = h("span", { class: `bar ${className}`, hidden: hideZero && share === 0 });
  bar.style.width = `${100 * share}%`;
  return h("span", { class: "track" }, bar);
}

/**
 * @param {readonly Bar[]} entries
 * @param {string} [className]  class of the bars, which sets their colour
 */
export function barList(entries, className = "probability") {
  const items = entries.map(({ name, share, number = formatPercent(share), marked, button }) =>
    barItem(name, barTrack(share, className), number, formatExact(share), marked, button),
  );
  return h("ol", { class: entries.some(entry => entry.button) ? "bars acting" : "bars" }, items);
}

/**
 * @param {string} title
 * @param {readonly Bar[]} entries
 */
export function barDrawing(title, entries) {
  const height = LINE_HEIGHT * entries.length + 36;
  return s(
    "svg",
    { class: "drawing", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": title },
    s("text", { x: 8, y: 20 }, title),
    entries.map(({ name, share, number = formatPercent(share) }, i) => {
      const y = 34 + i * LINE_HEIGHT;
      const bar = { x: NAME_WIDTH, y, width: Math.max(0.5, BAR_WIDTH * share), height: LINE_HEIGHT - 6, rx: 3 };
      return [
        s("text", { x: NAME_WIDTH - 8, y: y + 14, "text-anchor": "end" }, name),
        s("rect", { class: "probability", ...bar }),
        s("text", { x: NAME_WIDTH + BAR_WIDTH + 12, y: y + 14 }, number),
      ];
    }),
  );
}
