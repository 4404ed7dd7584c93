// Where it looked: every head of every layer, one head, one token.

import { note, whole } from "../address.js";
import * as api from "../api.js";
import { choice, h, refill, tick } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap, paint } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, exact, isSpecial, merged, ofHead, plain, wordsOf } from "../numbers.js";
import { tableOf, twin } from "../table.js";
import { lines } from "./lines.js";

const FIRST = ["encoder", "cross", "question", "decoder"];

export async function show(place, { trace, address }) {
  const kinds = FIRST.filter(kind => kind in trace.looks);
  if (!kinds.length) return void place.append(h("p", { class: "empty" }, say("no attention")));
  const kind = kinds.includes(address.kind) ? address.kind : kinds[0];
  const state = { kind, as: address.as ?? "map", words: address.words === "1", hide: address.hide === "1",
    layer: whole(address.layer, trace.looks[kind].layers - 1), head: address.head === "mean" && trace.looks[kind].heads > 1 ? "mean" : whole(address.head, 0),
    row: whole(address.row, null) };
  const grid = h("section", { class: "panel" }), one = h("section", { class: "panel" });
  const redraw = async (changes = {}) => {
    Object.assign(state, changes);
    note({ kind: state.kind, layer: state.layer, head: state.head, row: state.row, as: state.as,
      words: state.words ? 1 : null, hide: state.hide ? 1 : null });
    if ("kind" in changes || !grid.childElementCount) await overview(grid, trace, state, redraw);
    await oneHead(one, trace, state, redraw);
    for (const button of grid.querySelectorAll(".thumb"))
      button.setAttribute("aria-pressed", button.dataset.at === `${state.layer},${state.head}`);
  };
  const changeKind = name => redraw({ kind: name, layer: trace.looks[name].layers - 1, head: 0, row: null });
  place.append(h("div", { class: "controls" },
    choice(say("attention of"), kinds.map(name => [name, say(`kind ${name}`)]), kind, changeKind)),
    h("p", { class: "soft" }, say("attention says")), h("div", { class: "two" }, grid, one));
  await redraw();
}

// ---------------------------------------------------------------- all heads

async function overview(place, trace, state, redraw) {
  const { bytes, shape: [layers, heads, rows, columns] } = await api.weights(trace.id, state.kind);
  const size = rows * columns;
  const thumb = (layer, head) => {
    const ofLayer = bytes.subarray(layer * heads * size, (layer + 1) * heads * size);
    const canvas = paint(h("canvas", { "aria-hidden": "true" }), ofHead(ofLayer, heads, head), rows, columns, { most: 255 });
    return h("button", { type: "button", class: "thumb", "data-at": `${layer},${head}`,
      "aria-label": nameOf(layer, head), onclick: () => redraw({ layer, head }) }, canvas, head === "mean" && h("span", {}, say("mean")));
  };
  const range = n => Array.from({ length: n }, (_, i) => i);
  const table = h("div", { class: "thumbs" },
    range(layers).map(layer => h("div", { class: "row" }, h("span", { class: "soft" }, say("layer n", { n: layer })),
      h("div", { class: "heads" }, [...range(heads), ...(heads > 1 ? ["mean"] : [])].map(head => thumb(layer, head))))));
  refill(place, h("h2", {}, say("all heads")), h("p", { class: "soft" }, say("all heads says")), table);
}

const nameOf = (layer, head) => (head === "mean" ? `${say("layer n", { n: layer })}, ${say("mean of heads")}`
  : say("layer and head", { layer, head }));

// ---------------------------------------------------------------- one head

/** Names and numbers of a head as they are to be shown: pieces or words, with special tokens or without. */
function shown(trace, state, numbers) {
  const look = trace.looks[state.kind];
  const [rowPieces, columnPieces] = [trace[look.rows], trace[look.columns]];
  const all = pieces => (state.words ? wordsOf(pieces) : pieces.map((_, i) => [i]));
  const kept = pieces => all(pieces).filter(group => !state.hide || !group.every(i => isSpecial(pieces[i])));
  const [rowGroups, columnGroups] = [kept(rowPieces), kept(columnPieces)];
  const name = (pieces, group) => plain(group.map(i => pieces[i]).join("")).replaceAll("▁", " ");
  const rowName = group => (look.rows === "source" ? name(rowPieces, group)
    : `${name(rowPieces, group)} → ${name(trace.predicted, group)}`);
  return { rowGroups, rows: rowGroups.map(rowName), columns: columnGroups.map(group => name(columnPieces, group)),
    numbers: merged(numbers, columnPieces.length, rowGroups, columnGroups) };
}

async function oneHead(place, trace, state, redraw) {
  const look = trace.looks[state.kind], tensor = look.names[state.layer];
  const mean = state.head === "mean";
  if (!tensor || (!mean && state.head >= look.heads))
    return refill(place, h("p", { class: "empty" }, say("no such head")));
  const { numbers } = await api.values(trace.id, tensor, mean ? [] : [state.head]);
  const head = shown(trace, state, mean ? ofHead(numbers, look.heads, "mean") : numbers);
  const title = `${say(`kind ${state.kind}`)}, ${nameOf(state.layer, state.head)}`;
  const said = h("p", { class: "readout", "aria-live": "polite" }, say("choose a cell"));
  const token = h("div", { class: "token" });
  const pick = row => {
    state.row = head.rowGroups[row][0];
    note({ row: state.row });
    oneToken(token, head, row);
  };
  const onchoose = ([row, column]) => {
    refill(said, `${head.rows[row]} ⟶ ${head.columns[column]}: `,
      h("strong", {}, exact(head.numbers[row * head.columns.length + column])));
    pick(row);
  };
  const row = head.rowGroups.findIndex(group => group.includes(state.row));
  const size = Math.max(12, Math.min(26, Math.floor(420 / Math.max(head.columns.length, 1))));
  const map = state.as === "lines" ? lines({ ...head, chosen: row, label: title, onchoose: pick })
    : heatmap({ ...head, label: `${title}. ${say("arrow keys")}`, size, chosen: row < 0 ? null : [row, mostOf(head, row)], onchoose });
  const [axis, across] = look.rows === "source" ? ["looks", "at"] : ["input predicted", "at"];
  refill(place, h("h2", {}, title),
    h("div", { class: "controls" },
      choice(say("drawn as"), [["map", say("as a map")], ["lines", say("as lines")]], state.as, as => redraw({ as })),
      trace.task !== "image_classification" && [tick(say("whole words"), state.words, words => redraw({ words })),
        tick(say("hide special"), state.hide, hide => redraw({ hide }))]),
    h("p", { class: "soft" }, `${say("down")}: ${say(axis)}; ${say("across")}: ${say(across)}. ${
      [mean && say("mean says"), state.words && say("words say"), state.hide && say("hidden says")].filter(Boolean).join(" ")}`),
    h("div", { class: "scroll" }, map), said, token,
    twin(() => tableOf(title, ["", ...head.columns], head.rows.map((name, r) =>
      [name, ...head.columns.map((_, c) => exact(head.numbers[r * head.columns.length + c]))]))),
    exports(`attention-${state.kind}-${state.layer}-${state.head}`, {
      title: state.as === "lines" ? title : "",
      drawing: () => (state.as === "lines" ? map : drawnMap({ ...head, title })),
      rows: () => [["row", "column", "weight"], ...head.rows.flatMap((name, r) => head.columns.map((column, c) =>
        [name, column, exact(head.numbers[r * head.columns.length + c]).replace("−", "-")]))] }));
  if (row >= 0) onchoose([row, mostOf(head, row)]);
}

/** Where a row looked most. */
function mostOf({ numbers, columns }, row) {
  const weights = numbers.subarray(row * columns.length, (row + 1) * columns.length);
  return weights.indexOf(Math.max(...weights));
}

// ---------------------------------------------------------------- one token

function oneToken(place, head, row) {
  const C = head.columns.length;
  refill(place, h("h3", {}, say("where it looked", { token: head.rows[row] })),
    h("ol", { class: "bars" }, head.columns.map((column, c) => {
      const weight = head.numbers[row * C + c];
      const bar = h("span", { class: "bar weights" });
      bar.style.width = `${100 * weight}%`;
      return h("li", {}, h("span", { class: "name" }, column), h("span", { class: "track" }, bar),
        h("span", { class: "number", title: exact(weight) }, brief(weight)));
    })));
}
