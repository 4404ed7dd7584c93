// Values over the steps of a training run, as curves. A step is chosen by mouse or arrow keys.

import { h, refill, s } from "./dom.js";
import { clamp } from "./ranges.js";
import { tickLabels, ticks } from "./ticks.js";

/** @import { ChartSeries } from "./types.js" */

const WIDTH = 540;
const WIDTH_ON_PHONE = 320;
const HEIGHT = 210;
const MARGIN = { left: 58, right: 12, top: 12, bottom: 26 };
const MOST_DOTS = 30;
/** @type {Record<string, number>} */
const KEY_STEPS = { ArrowLeft: -1, ArrowRight: 1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

/** @typedef {{ step: number, values: [string, number][] }} ChosenStep  values: name and value of each curve there */
/** @typedef {{ name: string, hue: string, points: [number, number][] }} FiniteSeries */
/** @typedef {{ svg: SVGSVGElement, x: (step: number) => number, marker: SVGLineElement, width: number }} Drawing */

/**
 * @param {ChartSeries} series
 * @returns {FiniteSeries}
 */
const finite = ({ name, hue, points }) => ({
  name,
  hue,
  points: points.flatMap(([step, y]) => (typeof y === "number" && Number.isFinite(y) ? [[step, y]] : [])),
});

/** Curves that can be updated while training runs. */
class Chart {
  /** @type {FiniteSeries[]} */
  series = [];
  /** @type {number[]} */
  steps = [];
  /** @type {number | null} index of the chosen step */
  chosen = null;

  /**
   * @param {string} label
   * @param {(chosen: ChosenStep) => void} onchoose
   */
  constructor(label, onchoose) {
    this.label = label;
    this.onchoose = onchoose;
    this.drawing = draw([], label);
    this.element = h("div", {
      class: "plot",
      tabindex: "0",
      role: "application",
      "aria-label": label,
      onclick: event => this.chooseNearest(event.clientX),
      onkeydown: event => this.handleKey(event),
    });
  }

  /**
   * Draw new values. The chosen step stays chosen.
   *
   * @param {ChartSeries[]} series  points in the order of the steps
   */
  update(series) {
    const step = this.chosen === null ? null : this.steps[this.chosen];
    this.series = series.map(finite);
    this.steps = [...new Set(this.series.flatMap(one => one.points.map(point => point[0])))].sort((a, b) => a - b);
    this.drawing = draw(this.series, this.label);
    refill(this.element, this.drawing.svg);
    const index = step === null ? -1 : this.steps.indexOf(step);
    this.chosen = index === -1 ? null : index;
    this.markChosen();
  }

  /** Return a drawing with the names of the curves, for export. */
  drawingWithNames() {
    return draw(this.series, this.label, true).svg;
  }

  /** @param {number} index */
  choose(index) {
    if (!this.steps.length) return;
    this.chosen = clamp(index, 0, this.steps.length - 1);
    this.markChosen();
    const step = this.steps[this.chosen];
    /** @type {[string, number][]} */
    const values = this.series.flatMap(({ name, points }) =>
      points.filter(point => point[0] === step).map(point => /** @type {[string, number]} */ ([name, point[1]])),
    );
    this.onchoose({ step, values });
  }

  /** @param {number} clientX */
  chooseNearest(clientX) {
    if (!this.steps.length) return;
    const box = this.drawing.svg.getBoundingClientRect();
    const x = ((clientX - box.left) / box.width) * this.drawing.width;
    const distances = this.steps.map(step => Math.abs(this.drawing.x(step) - x));
    this.choose(distances.indexOf(Math.min(...distances)));
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const by = KEY_STEPS[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.choose((this.chosen ?? -1) + by);
  }

  markChosen() {
    if (this.chosen === null) return;
    const x = String(this.drawing.x(this.steps[this.chosen]));
    this.drawing.marker.setAttribute("x1", x);
    this.drawing.marker.setAttribute("x2", x);
    this.drawing.marker.removeAttribute("visibility");
  }
}

/**
 * Create an empty chart.
 *
 * @param {{ label: string, onchoose: (chosen: ChosenStep) => void }} options
 */
export const chart = ({ label, onchoose }) => new Chart(label, onchoose);

/**
 * @param {FiniteSeries[]} series
 * @param {string} label
 * @param {boolean} [withNames]
 * @returns {Drawing}
 */
function draw(series, label, withNames = false) {
  const width = matchMedia("(max-width: 40rem)").matches ? WIDTH_ON_PHONE : WIDTH;
  const points = series.flatMap(one => one.points);
  const stepTicks = ticks(Math.max(1, ...points.map(point => point[0])));
  const valueTicks = ticks(Math.max(0, ...points.map(point => point[1])));
  const [lastStep, lastValue] = [stepTicks[stepTicks.length - 1], valueTicks[valueTicks.length - 1]];
  /** @param {number} step */
  const x = step => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * step) / lastStep;
  /** @param {number} value */
  const y = value => MARGIN.top + (HEIGHT - MARGIN.top - MARGIN.bottom) * (1 - value / lastValue);
  const vertical = { y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom };
  const marker = s("line", { class: "now", ...vertical, visibility: "hidden" });
  const svg = s(
    "svg",
    { class: "drawing chart", viewBox: `0 0 ${width} ${HEIGHT}`, "aria-label": label, role: "img" },
    valueAxis(valueTicks, y, width),
    stepAxis(stepTicks, x),
    marker,
    series.map(one => curve(one, x, y)),
    withNames && series.map((one, i) => curveName(one, i, width)),
  );
  return { svg, x, marker, width };
}

/**
 * @param {number[]} values
 * @param {(value: number) => number} y
 * @param {number} width
 */
function valueAxis(values, y, width) {
  const labels = tickLabels(values);
  return values.map((value, i) => [
    s("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
    s("text", { class: "tick-name", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, labels[i]),
  ]);
}

/**
 * @param {number[]} steps
 * @param {(step: number) => number} x
 */
function stepAxis(steps, x) {
  const labels = tickLabels(steps);
  return steps.map((step, i) => {
    const anchor = i === steps.length - 1 ? "end" : "middle";
    return s("text", { class: "tick-name", x: x(step), y: HEIGHT - 8, "text-anchor": anchor }, labels[i]);
  });
}

/**
 * @param {FiniteSeries} series
 * @param {(step: number) => number} x
 * @param {(value: number) => number} y
 */
function curve({ hue, points }, x, y) {
  const path = points.map(([step, value], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`);
  return [
    s("path", { class: `curve of-${hue}`, d: path.join("") }),
    points.length <= MOST_DOTS &&
      points.map(([step, value]) => s("circle", { class: `dot of-${hue}`, cx: x(step), cy: y(value), r: 3 })),
  ];
}

/**
 * @param {FiniteSeries} series
 * @param {number} i
 * @param {number} width
 */
const curveName = ({ name, hue }, i, width) =>
  s(
    "text",
    {
      class: `curve-name of-${hue}`,
      x: width - MARGIN.right - 4,
      y: MARGIN.top + 14 + 15 * i,
      "text-anchor": "end",
    },
    name,
  );
