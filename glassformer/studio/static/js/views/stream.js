// The residual stream: how long its vectors are, layer by layer and token by token, and what becomes of them.

import { elsewhere, note, whole } from "../address.js";
import * as api from "../api.js";
import { choice, h, refill } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, plain } from "../numbers.js";
import { replaced } from "../refocus.js";
import { tableOf, twin } from "../table.js";
import { curves } from "./curves.js";
import { lensPanel } from "./lens.js";
import { normalisingPanels } from "./normalising.js";
import { ENDS, last, placeName } from "./places.js";

const SIDES = ["encoder", "decoder"];
const KINDS = ["residual", "output", "norm"];
const HUES = { residual: "--residual", output: "--ff", norm: "--accent" };

export async function show(place, { trace, address }) {
  const sides = SIDES.filter(side => Object.keys(trace.tensors).some(name => name.startsWith(`${side}.0.`) && name.endsWith(".ff.output")));
  if (!sides.length) return void place.append(h("p", { class: "empty" }, say("no stream")));
  const state = { side: sides.includes(address.side) ? address.side : sides.at(-1), what: KINDS.includes(address.what) ? address.what : "residual",
    place: address.place, token: whole(address.token, 0), feature: whole(address.feature, 0), as: address.as ?? "read" };
  const norms = h("section", { class: "panel" }), normalising = h("div", { class: "two" });
  const redraw = async (changes = {}) => {
    Object.assign(state, changes);
    const places = await api.stream(trace.id, state.side);
    const pieces = (state.side === "encoder" ? trace.source : trace.target).map(plain);
    state.token = Math.max(0, Math.min(state.token, pieces.length - 1));
    if (!places.some(one => one.name === state.place)) state.place = places.find(one => one.normalises)?.name ?? places[0].name;
    const choose = async more => {
      Object.assign(state, more);
      note({ side: state.side, what: state.what, place: state.place, token: state.token, feature: state.feature || null,
        as: state.as === "read" ? null : state.as });
      await normalisingPanels(normalising, { trace, places, pieces, state, choose });
    };
    normsPanel(norms, { trace, places, pieces, state, choose, redraw });
    await choose({});
  };
  if (sides.length > 1) {
    place.append(h("div", { class: "controls tight" }, choice(say("side"), sides.map(side => [side, say(`kind ${side}`)]), state.side,
      side => redraw({ side, place: null, token: 0 }))));
  }
  place.append(norms, normalising);
  await redraw();
  place.append(await lensPanel(trace, { layer: whole(address.lens, -1), row: whole(address.at, 0) }));
}

function normsPanel(place, { trace, places, pieces, state, choose, redraw }) {
  const of = kind => places.filter(one => last(one.name) === kind || (kind === "residual" && ENDS.includes(last(one.name))));
  const kinds = KINDS.filter(kind => places.some(one => last(one.name) === kind));
  if (!kinds.includes(state.what)) [state.what] = kinds;
  const shown = of(state.what), rows = shown.map(one => placeName(one.name)), T = pieces.length;
  const numbers = Float64Array.from(shown.flatMap(one => one.norms)), most = Math.max(...numbers);
  const said = h("p", { class: "readout", "aria-live": "polite" }, say("choose a length")), drawn = h("div", {});
  const names = Object.keys(trace.tensors), first = places.find(one => last(one.name) === "output");
  const before = names.indexOf(first.name.replace("output", "norm")) < names.indexOf(first.name);
  const tell = token => {
    const series = kinds.map(kind => ({ name: say(`length ${kind}`), hue: HUES[kind],
      numbers: places.filter(one => last(one.name) === kind).map(one => one.norms[token]) }));
    const title = say("lengths of", { token: `${token} ${pieces[token]}` }), parts = of("output").map(one => placeName(one.name));
    refill(drawn, h("h3", {}, title), curves({ series, title, axis: say("sub-layers"), ends: [parts[0], parts.at(-1)], dotted: true }));
  };
  const onchoose = ([r, t]) => {
    const { name } = shown[r], block = trace.figure.blocks.find(one => one.tensors.includes(name));
    refill(said, `${rows[r]}, ${pieces[t]}: `, h("strong", {}, brief(numbers[r * T + t])), " · ",
      h("a", { href: elsewhere("worksheet", { block: block.id, layer: block.layer || null, tensor: name }) }, say("see the vector")));
    tell(t);
    choose({ token: t, ...(shown[r].normalises ? { place: name } : {}) });
  };
  const title = `${say("lengths title")}: ${say(`length ${state.what}`)}`;
  const map = heatmap({ numbers, rows, columns: pieces, hue: HUES[state.what], most, size: [Math.max(14, Math.min(34, Math.floor(420 / T))), 18],
    label: `${title}. ${say("arrow keys")}`, onchoose });
  replaced(place, h("h2", {}, say("lengths title")), h("p", { class: "soft" }, say(before ? "lengths pre" : "lengths post")),
    h("div", { class: "controls" }, choice(say("lengths title"), kinds.map(kind => [kind, say(`length ${kind}`)]), state.what, what => redraw({ what }))),
    h("div", { class: "side-by-side" }, h("div", {}, h("div", { class: "scroll" }, map), said), drawn),
    twin(() => tableOf(title, ["", ...pieces], rows.map((row, r) => [row, ...pieces.map((_, t) => brief(numbers[r * T + t]))]))),
    exports(`stream-${state.side}-${state.what}`, { drawing: () => drawnMap({ numbers, rows, columns: pieces, hue: HUES[state.what], most, title }),
      rows: () => [["tensor", "row", "token", "length"], ...shown.flatMap(one => one.norms.map((x, t) => [one.name, t, pieces[t], x]))] }));
  tell(state.token);
}
