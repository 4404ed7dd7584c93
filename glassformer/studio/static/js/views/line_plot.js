// Numbers along one axis as lines, with a legend and a scale.

import { s } from "../dom.js";
import { formatShort } from "../numbers.js";
import { textWidth } from "../text_width.js";

/** @import { LineSeries } from "../types.js" */

const MOST_WIDTH = 560;
const PLOT_HEIGHT = 156;
const MARGIN = { left: 52, right: 12, bottom: 40 };
const LEGEND_LINE = 20;

/**
 * The width of a drawing so that its letters keep their size on a phone.
 *
 * @param {number} most
 */
export const availableWidth = most => Math.max(260, Math.min(most, document.documentElement.clientWidth - 72));

/**
 * @param {object} options
 * @param {LineSeries[]} options.series  from the same first index on
 * @param {string} options.title
 * @param {string} options.axis  name of the horizontal axis
 * @param {number} [options.marked]  index with a vertical line
 * @param {[string, string]} [options.ends]  names of the first and the last index
 * @param {boolean} [options.dots]  whether every number has a dot
 */
export function linePlot({ series, title, axis, marked, ends, dots = false }) {
  const count = Math.max(...series.map(one => one.numbers.length));
  const width = availableWidth(MOST_WIDTH);
  const key = legend(series, width);
  const top = 12 + LEGEND_LINE * key.lines;
  const bottom = top + PLOT_HEIGHT;
  const height = bottom + MARGIN.bottom;
  const right = width - MARGIN.right;
  const all = series.flatMap(one => Array.from(one.numbers)).filter(Number.isFinite);
  const [least, most] = [Math.min(0, ...all), Math.max(0, ...all)];
  /** @param {number} i */
  const x = i => MARGIN.left + (count > 1 ? i / (count - 1) : 0.5) * (right - MARGIN.left);
  /** @param {number} value */
  const y = value => top + (most > least ? (most - value) / (most - least) : 0.5) * PLOT_HEIGHT;
  const [first, last] = ends ?? ["0", String(count - 1)];
  const scale = least === 0 ? [most, 0] : [most, least, 0];
  return s(
    "svg",
    { class: "drawing curves", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    key.elements,
    s("line", { class: "zero", x1: MARGIN.left, x2: right, y1: y(0), y2: y(0) }),
    scale.map(value => axisText(MARGIN.left - 6, y(value) + 4, "end", value === 0 ? "0" : formatShort(value))),
    marked !== undefined && s("line", { class: "marked", x1: x(marked), x2: x(marked), y1: top, y2: bottom }),
    series.map(one => curve(one, x, y, dots)),
    axisText(MARGIN.left, bottom + 17, "start", first),
    axisText(right, bottom + 17, "end", last),
    axisText((MARGIN.left + right) / 2, height - 6, "middle", axis),
  );
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} anchor
 * @param {string} text
 */
const axisText = (x, y, anchor, text) => s("text", { class: "told", x, y, "text-anchor": anchor }, text);

/**
 * @param {LineSeries} series
 * @param {(i: number) => number} x
 * @param {(value: number) => number} y
 * @param {boolean} dots
 */
function curve({ hue, numbers }, x, y, dots) {
  const points = Array.from(numbers, (value, i) => ({ cx: x(i), cy: y(value) })).filter(({ cy }) =>
    Number.isFinite(cy),
  );
  const path = points.map(({ cx, cy }) => `${cx},${cy}`).join(" ");
  return [
    s("polyline", { class: "curve", stroke: `var(${hue})`, points: path }),
    dots && points.map(point => s("circle", { ...point, r: 3, fill: `var(${hue})` })),
  ];
}

/**
 * The names of the lines, in as many lines of text as they need.
 *
 * @param {LineSeries[]} series
 * @param {number} width
 */
function legend(series, width) {
  let [left, lines] = [MARGIN.left, 1];
  const elements = series.map(({ name, hue }) => {
    const needed = 34 + textWidth(name, 7.2);
    if (left > MARGIN.left && left + needed > width) {
      left = MARGIN.left;
      lines++;
    }
    const [x, y] = [left, LEGEND_LINE * lines - 4];
    left += needed;
    return [
      s("line", { class: "curve", stroke: `var(${hue})`, x1: x, x2: x + 16, y1: y, y2: y }),
      s("text", { x: x + 21, y: y + 4 }, name),
    ];
  });
  return { elements, lines };
}
