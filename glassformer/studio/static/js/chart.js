// Numbers over the steps of a training run, as lines to walk along by mouse or arrow keys.

import { h, refill, s } from "./dom.js";

const [WIDE, NARROW, HIGH] = [540, 320, 210];
const [LEFT, RIGHT, TOP, BOTTOM] = [58, 12, 12, 26];
const TICKS = 4;

/**
 * Lines and, where there are few points, dots. `update(series)` draws anew as numbers come in;
 * `named()` is the drawing with the names of its curves, to take away.
 * series  {name, hue, points: [[step, y], …]}, in the order of the steps
 * tell    told {step, values: [[name, y], …]} of the step that is chosen
 */
export function chart({ label, tell }) {
  const field = h("div", { class: "plot", tabindex: "0", role: "application", "aria-label": label });
  let series = [], steps = [], chosen = null, drawn = null;
  const choose = place => {
    chosen = Math.max(0, Math.min(steps.length - 1, place));
    if (!steps.length) return;
    mark();
    const step = steps[chosen];
    tell({ step, values: series.flatMap(one => one.points.filter(point => point[0] === step).map(point => [one.name, point[1]])) });
  };
  const mark = () => {
    const x = drawn.x(steps[chosen]);
    drawn.line.setAttribute("x1", x);
    drawn.line.setAttribute("x2", x);
    drawn.line.removeAttribute("visibility");
  };
  field.addEventListener("click", event => {
    if (!steps.length) return;
    const box = field.querySelector("svg").getBoundingClientRect(), at = (event.clientX - box.left) / box.width * drawn.width;
    const away = steps.map(step => Math.abs(drawn.x(step) - at));
    choose(away.indexOf(Math.min(...away)));
  });
  field.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    choose(by === Infinity ? steps.length - 1 : by === -Infinity ? 0 : (chosen ?? -1) + by);
  });
  const update = given => {
    const before = chosen === null ? null : steps[chosen];
    series = given.map(one => ({ ...one, points: one.points.filter(([, y]) => Number.isFinite(y)) }));
    steps = [...new Set(series.flatMap(one => one.points.map(point => point[0])))].sort((a, b) => a - b);
    drawn = drawing(series, label);
    refill(field, drawn.svg);
    chosen = before === null ? null : steps.indexOf(before);
    if (chosen === -1) chosen = null;
    if (chosen !== null) mark();
  };
  return { element: field, update, named: () => drawing(series, label, true).svg };
}

/** Round numbers from 0 to at least `most`. */
function ticks(most) {
  if (!(most > 0)) return [0, 1];
  const rough = most / TICKS, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(n => n * power).find(n => n >= rough * 0.999);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
}

/** Labels of ticks, with as many digits as it takes to write every one of them exactly. */
function labels(values) {
  const label = (x, digits) => (x === 0 ? "0" : x >= 0.001 && x < 1e5 ? String(Number(x.toPrecision(digits)))
    : String(Number(x.toPrecision(digits)).toExponential()));
  const exact = digits => values.every(x => Math.abs(Number(label(x, digits)) - x) <= 1e-9 * values.at(-1));
  const digits = [1, 2, 3, 4, 5, 6, 7, 8].find(exact) ?? 9;
  return values.map(x => label(x, digits));
}

function drawing(series, label, named = false) {
  const width = matchMedia("(max-width: 40rem)").matches ? NARROW : WIDE;
  const points = series.flatMap(one => one.points);
  const across = ticks(Math.max(1, ...points.map(point => point[0]))), up = ticks(Math.max(0, ...points.map(point => point[1])));
  const [rows, columns] = [up, across].map(labels);
  const x = step => LEFT + (width - LEFT - RIGHT) * step / across.at(-1);
  const y = value => TOP + (HIGH - TOP - BOTTOM) * (1 - value / up.at(-1));
  const line = s("line", { class: "now", y1: TOP, y2: HIGH - BOTTOM, visibility: "hidden" });
  const svg = s("svg", { class: "drawing chart", viewBox: `0 0 ${width} ${HIGH}`, "aria-label": label, role: "img" },
    up.map((value, i) => [s("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { class: "tick-name", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, rows[i])]),
    across.map((step, i) => s("text", { class: "tick-name", x: x(step), y: HIGH - 8,
      "text-anchor": step === across.at(-1) ? "end" : "middle" }, columns[i])), line,
    series.map(one => [
      s("path", { class: `curve of-${one.hue}`, d: one.points.map(([step, value], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("") }),
      one.points.length <= 30 && one.points.map(([step, value]) => s("circle", { class: `dot of-${one.hue}`, cx: x(step), cy: y(value), r: 3 }))]),
    named && series.map((one, i) => s("text", { class: `curve-name of-${one.hue}`, x: width - RIGHT - 4, y: TOP + 14 + 15 * i,
      "text-anchor": "end" }, one.name)));
  return { svg, x, line, width };
}
