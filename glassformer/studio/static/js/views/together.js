// A word and its place in one vector: added, as in the paper, or side by side. What each does to a dot product.

import { note, whole } from "../address.js";
import * as api from "../api.js";
import { choice, h, refill, select } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap, largest, paint } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, plain } from "../numbers.js";
import { replaced } from "../refocus.js";
import { tableOf, twin } from "../table.js";
import { length, products, rowOf, sum } from "../vectors.js";
import { withoutPositions } from "./waves.js";

const SIDES = ["encoder", "decoder"];
const TERMS = ["word word", "word place", "place word", "place place"];

export async function togetherPart(place, trace, address) {
  const sides = SIDES.filter(side => trace.tensors[`${side}.positions`]);
  if (!sides.length) return refill(place, h("p", { class: "empty" }, say(withoutPositions(trace))));
  const state = { side: sides.includes(address.side) ? address.side : sides[0], a: whole(address.a, 1), b: whole(address.b, 0) };
  const redraw = async (changes = {}) => {
    Object.assign(state, changes);
    const parts = await partsOf(trace, state.side);
    const inner = h("div", { class: "view" });
    replaced(place, sides.length > 1 && h("div", { class: "controls tight" },
      choice(say("side"), sides.map(side => [side, say(`kind ${side}`)]), state.side, side => redraw({ side, a: 1, b: 0 }))), inner);
    drawParts(inner, parts, state);
  };
  await redraw();
}

/** The vectors of words and places, and all of their products. */
async function partsOf(trace, side) {
  const result = trace.tensors[`${side}.sum`] ? `${side}.sum` : `${side}.input`;
  const names = ["embedding", "positions"].map(last => `${side}.${last}`);
  const [[word, at, both], recipe] = await Promise.all([
    Promise.all([...names, result].map(name => api.values(trace.id, name))), api.recipe(trace.id, result)]);
  const D = at.shape[1], segments = trace.tensors[`${side}.segment_vectors`];
  let words = word.numbers;
  if (segments) words = sum(words, (await api.values(trace.id, `${side}.segment_vectors`)).numbers);
  const pairs = [[words, words], [words, at.numbers], [at.numbers, words], [at.numbers, at.numbers]];
  const terms = pairs.map(([x, y]) => products(x, y, D));
  const pieces = (side === "encoder" ? trace.source : trace.target).map(plain);
  return { side, result, formula: recipe.formula, pieces, D, words, places: at.numbers, both: both.numbers, terms,
    added: sum(sum(terms[0], terms[1]), sum(terms[2], terms[3])), beside: sum(terms[0], terms[3]) };
}

function drawParts(place, parts, state) {
  const T = parts.pieces.length;
  [state.a, state.b] = [state.a, state.b].map(i => Math.max(0, Math.min(i, T - 1)));
  const choose = ([a, b]) => {
    Object.assign(state, { a, b });
    note({ side: state.side, a, b });
    for (const panel of [top, ...maps]) panel.tell();
  };
  const top = vectorsPanel(parts, state, choose), maps = ["added", "beside"].map(name => mapPanel(name, parts, state, choose));
  refill(place, top, h("div", { class: "two" }, maps));
  choose([state.a, state.b]);
}

/** Two tokens, the vectors of the first, and the four products that make up the product of the sums. */
function vectorsPanel(parts, state, choose) {
  const { D, pieces, terms, added, beside } = parts, T = pieces.length;
  const named = pieces.map((piece, i) => [i, `${i} ${piece}`]);
  const first = select(named, state.a, value => choose([Number(value), state.b]));
  const second = select(named, state.b, value => choose([state.a, Number(value)]));
  const inner = h("div", {});
  const strip = (name, numbers, hue) => {
    const row = rowOf(numbers, D, state.a);
    return h("div", { class: "operand" }, h("span", { class: "role" }, say(name)),
      paint(h("canvas", { class: "strip", "aria-hidden": "true" }), row, 1, D, { hue, most: largest(row) }),
      h("span", { class: "soft number" }, say("length n", { n: brief(length(row)) })));
  };
  const tell = () => {
    const at = state.a * T + state.b;
    [first.value, second.value] = [state.a, state.b];
    const caption = say("products title", { a: named[state.a][1], b: named[state.b][1] });
    const products = TERMS.map((term, i) => [say(term), brief(terms[i][at]), i === 0 || i === 3 ? brief(terms[i][at]) : "–"]);
    refill(inner, strip("word vector", parts.words, "--embedding"), strip("place vector", parts.places, "--positions"),
      strip("both vector", parts.both, "--plus"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        tableOf(caption, ["", say("added"), say("beside")], [...products, [say("sum"), brief(added[at]), brief(beside[at])]])));
  };
  const panel = h("section", { class: "panel" }, h("h2", {}, say("together title")), h("p", { class: "soft" }, say("together says", { n: D, m: 2 * D })),
    h("p", { class: "formula" }, `${say("this model")}: `, h("code", {}, `${parts.result.split(".").at(-1)} = ${parts.formula}`)),
    h("div", { class: "controls" }, h("label", { class: "range" }, say("first token"), " ", first),
      h("label", { class: "range" }, say("second token"), " ", second)),
    inner, h("p", { class: "soft" }, say("products say")));
  return Object.assign(panel, { tell });
}

function mapPanel(name, parts, state, choose) {
  const { pieces } = parts, numbers = parts[name], T = pieces.length, most = largest(parts.added);
  const title = say(`product ${name}`), size = Math.max(12, Math.min(26, Math.floor(380 / T)));
  const said = h("p", { class: "readout", "aria-live": "polite" });
  const map = heatmap({ numbers, rows: pieces, columns: pieces, hue: "--embedding", most, size,
    label: `${title}. ${say("arrow keys")}`, onchoose: choose });
  const tell = () => {
    map.place([state.a, state.b]);
    refill(said, `${pieces[state.a]} · ${pieces[state.b]}: `, h("strong", {}, brief(numbers[state.a * T + state.b])));
  };
  const panel = h("section", { class: "panel" }, h("h2", {}, title), h("p", { class: "soft" }, say(`product ${name} says`)),
    h("div", { class: "scroll" }, map), said,
    twin(() => tableOf(title, ["", ...pieces], pieces.map((piece, r) => [piece, ...pieces.map((_, c) => brief(numbers[r * T + c]))]))),
    exports(`positions-${name}`, { drawing: () => drawnMap({ numbers, rows: pieces, columns: pieces, hue: "--embedding", most, title }),
      rows: () => [["row", "column", ...TERMS, "product"], ...pieces.flatMap((a, r) => pieces.map((b, c) =>
        [a, b, ...parts.terms.map(term => term[r * T + c]), numbers[r * T + c]]))] }));
  return Object.assign(panel, { tell });
}
