// Numbers along one axis as lines: a drawing that says its own scale.

import { s } from "../dom.js";
import { brief } from "../numbers.js";

const MOST_WIDE = 560, HIGH = 156, LEFT = 52, RIGHT = 12, BOTTOM = 40, LINE = 20;

/** How wide a drawing may be so that its letters are as large on a phone as anywhere. */
export const room = most => Math.max(260, Math.min(most, document.documentElement.clientWidth - 72));
const wide = text => [...text].reduce((sum, c) => sum + (c > "\u2fff" ? 13 : 7.2), 0);

/**
 * series  [{name, hue, numbers}], all of one length
 * marked  an index that a line stands at
 * axis    what the indices are; ends: names of the first and the last
 */
export function curves({ series, title, axis, marked = null, ends = null, dotted = false }) {
  const all = series.flatMap(one => [...one.numbers]).filter(Number.isFinite), count = series[0].numbers.length;
  const [least, most] = [Math.min(0, ...all), Math.max(0, ...all)];
  const WIDTH = room(MOST_WIDE), legend = legendOf(series, WIDTH), TOP = 12 + LINE * legend.rows, HEIGHT = TOP + HIGH + BOTTOM;
  const x = i => LEFT + (count > 1 ? i / (count - 1) : 0.5) * (WIDTH - LEFT - RIGHT);
  const y = value => TOP + (most > least ? (most - value) / (most - least) : 0.5) * (HEIGHT - TOP - BOTTOM);
  const [first, last] = ends ?? ["0", String(count - 1)];
  return s("svg", { class: "drawing curves", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
    legend.drawn, s("line", { class: "zero", x1: LEFT, x2: WIDTH - RIGHT, y1: y(0), y2: y(0) }),
    [most, least].filter((value, i) => i === 0 || value !== 0).concat(0).map(value =>
      s("text", { class: "told", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value === 0 ? "0" : brief(value))),
    marked !== null && s("line", { class: "marked", x1: x(marked), x2: x(marked), y1: TOP, y2: HEIGHT - BOTTOM }),
    series.map(one => [
      s("polyline", { class: "curve", stroke: `var(${one.hue})`, points: [...one.numbers].map((value, i) => `${x(i)},${y(value)}`).join(" ") }),
      dotted && [...one.numbers].map((value, i) => s("circle", { cx: x(i), cy: y(value), r: 3, fill: `var(${one.hue})` }))]),
    s("text", { class: "told", x: LEFT, y: HEIGHT - BOTTOM + 17 }, first),
    s("text", { class: "told", x: WIDTH - RIGHT, y: HEIGHT - BOTTOM + 17, "text-anchor": "end" }, last),
    s("text", { class: "told", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, axis));
}

/** The names of the lines, in as many rows as they need. */
function legendOf(series, width) {
  let at = LEFT, rows = 1;
  const drawn = series.map(one => {
    const needed = 34 + wide(one.name);
    if (at > LEFT && at + needed > width) { at = LEFT; rows++; }
    const [from, y] = [at, LINE * rows - 4];
    at += needed;
    return [s("line", { class: "curve", stroke: `var(${one.hue})`, x1: from, x2: from + 16, y1: y, y2: y }),
      s("text", { x: from + 21, y: y + 4 }, one.name)];
  });
  return { drawn, rows };
}
