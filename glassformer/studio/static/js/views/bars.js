// Shares of 1 as a list of bars, and the same list as a drawing for export.

import { h, s } from "../dom.js";
import { formatChange, formatExact, formatPercent } from "../numbers.js";
import { largestMagnitude } from "../vectors.js";

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
 * A bar that starts in the middle of its track: to the left below 0, to the right above 0.
 *
 * @param {number} value
 * @param {number} most  the value that fills half of the track
 */
export function swingTrack(value, most) {
  const bar = h("span", { class: value < 0 ? "bar less" : "bar more" });
  bar.style.width = `${most > 0 ? (50 * Math.abs(value)) / most : 0}%`;
  return h("span", { class: "track swing" }, bar);
}

/**
 * Values above and below 0 as a list of bars.
 *
 * @param {readonly { name: string, value: number, marked?: boolean }[]} entries
 */
export function swingList(entries) {
  const most = largestMagnitude(entries.map(({ value }) => value));
  const items = entries.map(({ name, value, marked }) =>
    barItem(name, swingTrack(value, most), formatChange(value), formatExact(value), marked),
  );
  return h("ol", { class: "bars swings" }, items);
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

const SWING_WIDTH = 480;
const MIDDLE = 270;
const HALF = 120;

/**
 * Values above and below 0 as a drawing for export.
 *
 * @param {string} title
 * @param {readonly { name: string, value: number }[]} entries
 */
export function swingDrawing(title, entries) {
  const most = largestMagnitude(entries.map(({ value }) => value));
  const bottom = LINE_HEIGHT * entries.length + 34;
  const bars = entries.map(({ name, value }, i) => {
    const y = 34 + i * LINE_HEIGHT;
    const width = most > 0 ? (HALF * Math.abs(value)) / most : 0;
    const x = value < 0 ? MIDDLE - width : MIDDLE;
    return [
      s("text", { x: 130, y: y + 14, "text-anchor": "end" }, name),
      s("rect", { class: value < 0 ? "less" : "more", x, y, width, height: LINE_HEIGHT - 6 }),
      s("text", { x: MIDDLE + HALF + 14, y: y + 14 }, formatChange(value)),
    ];
  });
  return s(
    "svg",
    { class: "drawing", viewBox: `0 0 ${SWING_WIDTH} ${bottom + 6}`, role: "img", "aria-label": title },
    s("text", { x: 8, y: 20 }, title),
    s("line", { class: "axis", x1: MIDDLE, x2: MIDDLE, y1: 30, y2: bottom }),
    bars,
  );
}
