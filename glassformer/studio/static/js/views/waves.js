// The table of positions: as a map, a feature along the places, and how alike two places are.

import { note, whole } from "../address.js";
import * as api from "../api.js";
import { choice, h, refill, select } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap, largest } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, exact } from "../numbers.js";
import { replaced } from "../refocus.js";
import { tableOf, twin } from "../table.js";
import { columnOf, products, rowOf } from "../vectors.js";
import { curves } from "./curves.js";
import { range } from "./range.js";

const LENGTHS = [32, 64, 128, 256];
const MOST_DRAWN = 20_000;  // cells of a drawing that is exported
const SIDES = ["encoder", "decoder"];

const counted = n => Array.from({ length: n }, (_, i) => String(i));
const ascii = x => exact(x).replace("−", "-");

export async function wavesPart(place, trace, address) {
  const sides = SIDES.filter(side => trace.tensors[`${side}.positions`]);
  if (!sides.length) return refill(place, h("p", { class: "empty" }, say(withoutPositions(trace))));
  const state = { side: sides.includes(address.side) ? address.side : sides[0],
    length: LENGTHS.includes(Number(address.length)) ? Number(address.length) : 64,
    place: whole(address.place, 8), feature: whole(address.feature, 4) };
  const redraw = async (changes = {}) => {
    Object.assign(state, changes);
    await draw(place, trace, state, sides, redraw);
  };
  await redraw();
}

/** A Transformer may have been trained without; others read one piece after the other. */
export const withoutPositions = trace => (Object.keys(trace.tensors).some(name => name.endsWith(".self.weights"))
  ? "no positions here" : "no positions needed");

async function draw(place, trace, state, sides, redraw) {
  const [{ numbers, shape: [L, D] }, recipe] = await Promise.all([
    api.positions(trace.id, state.side, state.length), api.recipe(trace.id, `${state.side}.positions`)]);
  state.place = Math.min(state.place, L - 1);
  state.feature = Math.min(state.feature, D - 1);
  const table = { numbers, L, D, formula: recipe.formula, learned: recipe.weights.length > 0, alike: products(numbers, numbers, D) };
  const choose = (changes = {}) => {
    Object.assign(state, changes);
    note({ side: state.side, length: state.length, place: state.place, feature: state.feature });
    for (const panel of panels) panel.tell();
  };
  const panels = [wavesPanel(table, state, choose), alikePanel(table, state, choose)];
  replaced(place, h("div", { class: "controls tight" },
    sides.length > 1 && choice(say("side"), sides.map(side => [side, say(`kind ${side}`)]), state.side, side => redraw({ side })),
    h("label", { class: "range" }, say("places"), " ", select(LENGTHS.map(n => [n, String(n)]), state.length,
      length => redraw({ length: Number(length) })))), h("div", { class: "two" }, panels));
  choose();
}

function wavesPanel({ numbers, L, D, learned, formula }, state, choose) {
  const most = largest(numbers), title = say("positions map");
  const said = h("p", { class: "readout", "aria-live": "polite" }), drawn = h("div", {});
  const map = heatmap({ numbers, rows: L, columns: D, hue: "--positions", most, label: `${title}. ${say("arrow keys")}`,
    size: [Math.max(3, Math.floor(440 / D)), Math.max(3, Math.floor(320 / L))], chosen: [state.place, state.feature],
    onchoose: ([row, column]) => choose({ place: row, feature: column }) });
  const slider = range("feature", 0, D - 1, 1, state.feature, feature => choose({ feature }));
  /** A sine and the cosine of the same wavelength; a learned feature stands alone. */
  const pair = () => {
    const even = state.feature - (state.feature % 2);
    return learned ? [state.feature] : [even, even + 1].filter(feature => feature < D);
  };
  const tell = () => {
    const { place: p, feature: i } = state, even = i - (i % 2);
    map.place([p, i]);
    slider.set(i);
    refill(said, `${say("place and feature", { place: p, feature: i })}: `, h("strong", {}, exact(numbers[p * D + i])));
    if (!learned) said.append(h("span", { class: "soft" }, ` = ${i % 2 ? "cos" : "sin"}(${p} / 10000^(${even}/${D}))`));
    refill(drawn, curves({ title: say("curve title", { i: pair().join(", ") }), axis: say("place"), marked: p,
      series: pair().map((feature, n) => ({ name: `${learned ? "" : n ? "cos, " : "sin, "}${say("feature n", { n: feature })}`,
        hue: n ? "--residual" : "--positions", numbers: columnOf(numbers, D, feature) })) }));
    if (!learned) drawn.append(h("p", { class: "soft" }, say("wavelength", { n: brief(2 * Math.PI * 10000 ** (even / D)) })));
  };
  const panel = h("section", { class: "panel" }, h("h2", {}, title), h("p", { class: "soft" }, say(learned ? "positions learned" : "positions say")),
    h("p", { class: "formula" }, formula),
    h("p", { class: "soft" }, `${say("down")}: ${say("place")}; ${say("across")}: ${say("feature")}.`),
    h("div", { class: "scroll" }, map), said, h("div", { class: "controls" }, slider), drawn,
    twin(() => tableOf(title, [say("place"), ...counted(D)], counted(L).map((name, r) => [name, ...Array.from(rowOf(numbers, D, r), exact)]))),
    exports("positions", { drawing: () => drawnMap({ numbers, rows: counted(L).slice(0, Math.max(1, Math.floor(MOST_DRAWN / D))),
      columns: counted(D), hue: "--positions", most, title }),
      rows: () => [["place", ...counted(D)], ...counted(L).map((name, r) => [name, ...Array.from(rowOf(numbers, D, r), ascii)])] }));
  return Object.assign(panel, { tell });
}

function alikePanel({ alike, L, D, learned }, state, choose) {
  const most = largest(alike), title = say("alike title");
  const said = h("p", { class: "readout", "aria-live": "polite" }), drawn = h("div", {});
  let other = state.place;
  const map = heatmap({ numbers: alike, rows: L, columns: L, hue: "--positions", most, label: `${title}. ${say("arrow keys")}`,
    size: Math.max(2, Math.floor(320 / L)), chosen: [state.place, other], onchoose: ([row, column]) => {
      other = column;
      choose({ place: row });
    } });
  const slider = range("place", 0, L - 1, 1, state.place, chosen => choose({ place: chosen }));
  const tell = () => {
    const p = state.place, name = say("alike of", { p });
    map.place([p, other]);
    slider.set(p);
    refill(said, `${say("product of places", { a: p, b: other })} `, h("strong", {}, brief(alike[p * L + other])),
      h("span", { class: "soft" }, ` · ${say("distance n", { n: Math.abs(p - other) })}`));
    refill(drawn, curves({ title: name, axis: say("place"), marked: p,
      series: [{ name, hue: "--positions", numbers: rowOf(alike, L, p) }] }));
  };
  const panel = h("section", { class: "panel" }, h("h2", {}, title), h("p", { class: "soft" }, say(learned || D % 2 ? "alike learned" : "alike says")),
    h("div", { class: "scroll" }, map), said, h("div", { class: "controls" }, slider), drawn,
    twin(() => tableOf(title, [say("place"), ...counted(L)], counted(L).map((name, r) => [name, ...Array.from(rowOf(alike, L, r), brief)]))),
    exports("positions-alike", { drawing: () => drawnMap({ numbers: alike, rows: counted(L).slice(0, Math.max(1, Math.floor(MOST_DRAWN / L))),
      columns: counted(L), hue: "--positions", most, title }),
      rows: () => [["place", "other", "product"], ...counted(L).flatMap((a, r) => counted(L).map((b, c) => [a, b, alike[r * L + c]]))] }));
  return Object.assign(panel, { tell });
}
