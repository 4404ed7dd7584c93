// Before and after normalisation, and over what it is taken: a token's features, or a feature's tokens.

import * as api from "../api.js";
import { choice, h, refill, s, select } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap, largest } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, exact } from "../numbers.js";
import { replaced } from "../refocus.js";
import { tableOf, twin } from "../table.js";
import { columnOf, length, rowOf, statistics } from "../vectors.js";
import { room } from "./curves.js";
import { placeName } from "./places.js";

const BINS = 41, MOST_WIDE = 460, HIGH = 74;

/** The numbers of one place before and after it, and what the trace noted on the way. */
async function numbersOf(trace, { name, normalises }) {
  const at = name.split(".").slice(0, -1).join("."), noted = trace.tensors[`${at}.mean`];
  const [before, after, mean, deviation] = await Promise.all([api.values(trace.id, normalises), api.values(trace.id, name),
    noted && api.values(trace.id, `${at}.mean`), noted && api.values(trace.id, `${at}.deviation`)]);
  return { x: before.numbers, y: after.numbers, D: before.shape[1], mean: mean?.numbers, deviation: deviation?.numbers,
    ofTokens: noted?.length === 2 };
}

export async function normalisingPanels(place, { trace, places, pieces, state, choose }) {
  const normalised = places.filter(one => one.normalises);
  if (!normalised.length) return refill(place, h("p", { class: "empty" }, say("no normalisation")));
  const chosen = normalised.find(one => one.name === state.place) ?? normalised[0];
  const found = await numbersOf(trace, chosen);
  state.feature = Math.max(0, Math.min(state.feature, found.D - 1));
  const view = { ...found, chosen, pieces, state, choose, normalised };
  const kept = place.querySelector(".axes .scroll")?.scrollLeft ?? 0;
  replaced(place, beforeAfter(view), axes(view));
  place.querySelector(".axes .scroll").scrollLeft = kept;
}

// ---------------------------------------------------------------- before and after

function beforeAfter({ x, y, D, chosen, pieces, state, choose, normalised }) {
  const t = state.token, [before, after] = [x, y].map(numbers => rowOf(numbers, D, t));
  const title = say("normalising title", { place: placeName(chosen.name), token: pieces[t] });
  const series = [[say("norm before"), before, "--residual", chosen.normalises], [say("norm after"), after, "--accent", chosen.name]];
  const rows = series.map(([name, row]) => {
    const { mean, deviation } = statistics(row);
    return [name, mean, deviation, Math.min(...row), Math.max(...row), length(row)];
  });
  const heads = ["", say("mean"), say("deviation"), say("least"), say("most"), say("length")];
  const drawn = histograms(series, title);
  return h("section", { class: "panel normalising" }, h("h2", {}, say("before and after")), h("p", { class: "soft" }, say("normalising says")),
    h("div", { class: "controls" },
      h("label", { class: "range" }, say("place in model"), " ", select(normalised.map(one => [one.name, placeName(one.name)]), chosen.name,
        name => choose({ place: name }))),
      h("label", { class: "range" }, say("token"), " ", select(pieces.map((piece, i) => [i, `${i} ${piece}`]), t,
        value => choose({ token: Number(value) })))),
    drawn, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      tableOf(title, heads, rows.map(([name, ...numbers]) => [name, ...numbers.map(brief)]))),
    h("p", { class: "soft" }, say("gamma says")),
    twin(() => tableOf(title, [say("feature"), say("norm before"), say("norm after")], Array.from(before, (value, i) => [String(i), exact(value), exact(after[i])]))),
    exports(`normalised-${chosen.name}-${t}`, { drawing: () => drawn,
      rows: () => [["feature", "before", "after"], ...Array.from(before, (value, i) => [i, value, after[i]])] }));
}

/** How many of a vector's numbers lie where: one under the other, on one scale. */
function histograms(series, title) {
  const reach = Math.max(...series.map(([, row]) => largest(row))) || 1;
  const bin = value => Math.min(BINS - 1, Math.floor((value + reach) / (2 * reach) * BINS));
  const WIDTH = room(MOST_WIDE), wide = (WIDTH - 20) / BINS;
  return s("svg", { class: "drawing histograms", viewBox: `0 0 ${WIDTH} ${series.length * (HIGH + 26) + 22}`, role: "img", "aria-label": title },
    series.map(([name, row, hue, tensor], i) => {
      const counts = new Array(BINS).fill(0), foot = (i + 1) * (HIGH + 26);
      for (const value of row) counts[bin(value)]++;
      const most = Math.max(...counts);
      return [s("text", { x: 10, y: foot - HIGH - 8 }, name, s("tspan", { class: "told", dx: 8 }, tensor)),
        counts.map((count, b) => count > 0 && s("rect", { x: 10 + b * wide, y: foot - HIGH * count / most, width: wide - 1, height: HIGH * count / most,
          fill: `var(${hue})` }, s("title", {}, say("n numbers", { n: count })))),
        s("line", { class: "zero", x1: 10, x2: WIDTH - 10, y1: foot, y2: foot })];
    }),
    [[-reach, 10, "start"], [0, WIDTH / 2, "middle"], [reach, WIDTH - 10, "end"]].map(([value, x, anchor]) =>
      s("text", { class: "told", x, y: series.length * (HIGH + 26) + 16, "text-anchor": anchor }, value === 0 ? "0" : brief(value))));
}

// ---------------------------------------------------------------- two axes

/** The same numbers, each row or each column brought to mean 0 and deviation 1. */
function normalisedBy(way, x, D) {
  const T = x.length / D;
  const each = way === "layer" ? Array.from({ length: T }, (_, t) => statistics(rowOf(x, D, t)))
    : Array.from({ length: D }, (_, d) => statistics(columnOf(x, D, d)));
  return Float64Array.from(x, (value, i) => {
    const { mean, deviation } = each[way === "layer" ? Math.floor(i / D) : i % D];
    return deviation > 0 ? (value - mean) / deviation : 0;
  });
}

function axes(view) {
  const { x, y, D, chosen, pieces, state, choose, mean, deviation, ofTokens } = view, { token: t, feature: d } = state;
  const value = x[t * D + d], numbers = state.as === "read" ? x : normalisedBy(state.as, x, D), most = largest(numbers);
  const line = (name, over, numbers) => {
    const found = statistics(numbers);
    return [name, over, brief(found.mean), brief(found.deviation), found.deviation > 0 ? brief((value - found.mean) / found.deviation) : "–"];
  };
  const rows = [line(say("layer normalisation"), say("over features", { n: D }), rowOf(x, D, t)),
    line(say("batch normalisation"), say("over tokens", { n: pieces.length }), columnOf(x, D, d))];
  const at = ofTokens ? t : d;
  if (mean) rows.push([say("the model itself"), say(ofTokens ? "over features" : "over training", { n: D }), brief(mean[at]), brief(deviation[at]), brief(y[t * D + d])]);
  const heads = ["", say("taken over"), say("mean"), say("deviation"), say("result")];
  const title = say("axes title"), ways = ["read", "layer", "batch"].map(way => [way, say(`axes ${way}`)]);
  const size = [Math.max(4, Math.floor(420 / D)), 18];
  const map = heatmap({ numbers, rows: pieces, columns: D, hue: "--residual", most, size, chosen: [t, d], label: `${title}. ${say("arrow keys")}`,
    onchoose: ([row, column]) => choose({ token: row, feature: column }) });
  map.querySelector(".field").append(band("row", t, D, pieces.length, size), band("column", d, D, pieces.length, size));
  const counted = Array.from({ length: D }, (_, i) => String(i));
  return h("section", { class: "panel axes" }, h("h2", {}, title), h("p", { class: "soft" }, say("axes say")),
    h("div", { class: "controls" }, choice(title, ways, state.as, as => choose({ as }))),
    h("p", { class: "soft" }, `${say("down")}: ${say("token")}; ${say("across")}: ${say("feature")}.`),
    h("div", { class: "scroll" }, map),
    h("p", { class: "readout", "aria-live": "polite" }, `${chosen.normalises}[${t}, ${d}] = `, h("strong", {}, exact(value))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, tableOf(title, heads, rows)),
    h("p", { class: "soft" }, say(mean && ofTokens ? "axes epsilon" : "axes batch here")),
    twin(() => tableOf(`${chosen.normalises}, ${say(`axes ${state.as}`)}`, ["", ...counted],
      pieces.map((piece, r) => [piece, ...counted.map((_, c) => brief(numbers[r * D + c]))]))),
    exports(`axes-${state.as}-${chosen.normalises}`, { drawing: () => drawnMap({ numbers, rows: pieces, columns: counted, hue: "--residual", most, title }),
      rows: () => [["token", ...counted], ...pieces.map((piece, r) => [piece, ...Array.from(rowOf(numbers, D, r))])] }));
}

/** What a normalisation is taken over, outlined. */
function band(way, at, columns, rows, [wide, high]) {
  const made = h("span", { class: `band ${way}` });
  Object.assign(made.style, way === "row" ? { left: 0, top: `${at * high}px`, width: `${columns * wide}px`, height: `${high}px` }
    : { top: 0, left: `${at * wide}px`, height: `${rows * high}px`, width: `${wide}px` });
  return made;
}
