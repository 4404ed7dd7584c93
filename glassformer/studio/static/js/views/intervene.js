// What would have happened if: something inside is changed, and the output with it stands beside the output without.

import { note } from "../address.js";
import * as api from "../api.js";
import { choice, h, refill } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap, largest } from "../heatmap.js";
import { say } from "../i18n.js";
import { exact } from "../numbers.js";
import { problem } from "../problem.js";
import { tableOf, twin } from "../table.js";
import { changeForm, inWords } from "./changes.js";
import { effectOf } from "./effect.js";

const WAIT = 200;  // milliseconds: who walks over the grid does not want every cell computed

export async function show(place, { trace, address }) {
  if (trace.task !== "translation") return void place.append(h("p", { class: "empty" }, say("does not translate")));
  const asked = { run: trace.run, text: trace.text, target: address.target };
  const state = { changes: (address.changes ?? "").split(";").filter(Boolean), grid: address.grid };
  const list = h("div", { class: "changes" }), result = h("section", { class: "panel", "aria-live": "polite" });
  let drawing = 0, waiting = null;

  const change = (changes, wait = 0) => {
    state.changes = changes;
    note({ changes: changes.join(";") });
    refill(list, ...listed(trace, changes, change));
    clearTimeout(waiting);
    waiting = setTimeout(redraw, wait);
  };
  const redraw = async () => {
    const mine = ++drawing;
    const shown = await effectOf(asked, state.changes);
    if (mine === drawing) refill(result, ...shown);
  };
  const form = await changeForm(trace, one => change([...state.changes.filter(other => other !== one), one]));
  const grid = h("section", { class: "panel" });
  refill(list, ...listed(trace, state.changes, change));
  place.append(h("div", { class: "two" },
    h("section", { class: "panel" }, h("h2", {}, say("change title")), h("p", { class: "soft" }, say("change says")), form, list), grid),
    result);
  await Promise.all([redraw(), gridPanel(grid, trace, asked, state, (one, wait) => change([one], wait))]);
  return () => clearTimeout(waiting);
}

/** The changes that act now, each with a button that takes it back. */
function listed(trace, changes, change) {
  if (!changes.length) return [h("p", { class: "soft" }, say("no changes"))];
  return [h("h3", {}, say("changes now")), h("ul", { class: "chips acting" }, changes.map(one => h("li", {}, inWords(trace, one), " ",
    h("button", { type: "button", class: "quiet", "aria-label": say("take back", { change: inWords(trace, one) }),
      onclick: () => change(changes.filter(other => other !== one)) }, "✕")))),
    changes.length > 1 && h("button", { type: "button", class: "quiet", onclick: () => change([]) }, say("take all back"))].filter(Boolean);
}

// ---------------------------------------------------------------- every head in turn

/** Kinds of attention whose heads stand in layers. A recurrent network looks by one head, in no layer. */
const kindsOf = trace => ["encoder", "cross", "decoder"].filter(kind => /\.\d+\./.test(trace.looks[kind]?.names[0] ?? ""));

async function gridPanel(place, trace, asked, state, onchoose) {
  const kinds = kindsOf(trace), title = h("h2", {}, say("grid title"));
  if (!kinds.length) return refill(place, title, h("p", { class: "soft" }, say("no grid")));
  if (!kinds.includes(state.grid)) state.grid = kinds[0];
  const inner = h("div", {});
  const draw = async kind => {
    state.grid = kind;
    note({ grid: kind });
    try {
      const found = await api.silenced({ ...asked, kind });
      if (state.grid === kind) refill(inner, ...drawn(trace, found, onchoose));
    } catch (error) {
      refill(inner, problem(error));
    }
  };
  refill(place, title, h("p", { class: "soft" }, say("grid says")),
    h("div", { class: "controls" }, choice(say("attention of"), kinds.map(kind => [kind, say(`kind ${kind}`)]), state.grid, draw)), inner);
  await draw(state.grid);
}

function drawn(trace, found, onchoose) {
  const heads = Math.max(...found.change.map(layer => layer.length));
  const rows = found.change.map((_, n) => say("layer n", { n })), columns = Array.from({ length: heads }, (_, n) => say("head n", { n }));
  const numbers = found.change.flat(), most = largest(numbers), title = `${say("grid title")}, ${say(`kind ${found.kind}`)}`;
  const said = h("p", { class: "readout", "aria-live": "polite" }, say("choose a head"));
  const choose = ([layer, head]) => {
    refill(said, `${say("layer and head", { layer, head })}: `, h("strong", {}, exact(found.change[layer][head])));
    onchoose(`silence=${trace.looks[found.kind].names[layer].replace(/\.weights$/, "")}.${head}`, WAIT);
  };
  const size = Math.max(24, Math.min(44, Math.floor(300 / heads)));
  return [h("div", { class: "scroll" }, heatmap({ numbers, rows, columns, hue: "--plus", most, size,
    label: `${title}. ${say("arrow keys")}`, onchoose: choose })), said,
    h("p", { class: "soft" }, `${say("grid colours")} ${say("with every head", { x: exact(found.log_probability) })}`),
    twin(() => tableOf(title, ["", ...columns], rows.map((name, r) => [name, ...found.change[r].map(exact)]))),
    exports(`heads-${found.kind}`, { drawing: () => drawnMap({ numbers, rows, columns, hue: "--plus", most, title }),
      rows: () => [["layer", "head", "change in log-probability"], ...found.change.flatMap((layer, l) => layer.map((x, head) => [l, head, x]))] })];
}
