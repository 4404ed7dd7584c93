// The form in which a change is put together, and changes in words. They are written as on the command line.

import * as api from "../api.js";
import { choice, h, labelled, refill, select } from "../dom.js";
import { say } from "../i18n.js";
import { exact, plain } from "../numbers.js";

const STEPS = 1000;  // of a slider from 0 to 1
const MOST_CANDIDATES = 30;

/** Every attention by name, with the number of its heads: {"encoder.0.self": 4, …}. */
const attentions = trace => Object.fromEntries(Object.values(trace.looks).flatMap(look =>
  look.names.map(name => [name.replace(/\.weights$/, ""), look.heads])));
const ending = (trace, last) => Object.keys(trace.tensors).filter(name => name.endsWith(`.${last}`)).map(name => name.slice(0, -last.length - 1));
const kindOf = (trace, at) => Object.keys(trace.looks).find(kind => trace.looks[kind].names.includes(`${at}.weights`));

/** What this model can be changed in. */
function kinds(trace) {
  const heads = Object.keys(attentions(trace)).length > 0;
  return [heads && "silence", heads && "average", heads && "row", ending(trace, "residual").length > 0 && "cut",
    ending(trace, "mask").some(name => name.startsWith("decoder")) && "no-mask",
    ending(trace, "positions").length > 0 && "no-positions", "force"].filter(Boolean);
}

/** A change as people say it. */
export function inWords(trace, change) {
  const [, what, where] = change.match(/^([^=]*)=?(.*)$/);
  const place = /^(.*?)\.(\d+)$/.exec(where.split(":")[0]);
  if (what === "silence" || what === "average") return say(`told ${what}`, { at: place?.[1] ?? where, head: place?.[2] ?? "" });
  if (what === "row") {
    const [, at, head] = /^(.*?)\.(\d+)$/.exec(place?.[1] ?? "") ?? [null, where, ""];
    return say("told row", { at, head, row: place?.[2] ?? "" });
  }
  if (what === "cut") return say("told cut", { at: where });
  if (what === "no-positions") return where ? say("told no-positions of", { side: say(`kind ${where}`) }) : say("told no-positions");
  if (what === "force") {
    const [step, token] = where.split(":");
    return say("told force", { step, token: trace.forcible?.get(Number(token)) ?? `#${token}` });
  }
  return say(`told ${what}`);
}

/** Puts a change together; `onmake` is told it. */
export async function changeForm(trace, onmake) {
  const candidates = await api.choices(trace.id, MOST_CANDIDATES);
  trace.forcible = new Map(candidates.flat().map(({ token, piece }) => [token, plain(piece)]));
  const possible = kinds(trace), fields = h("div", { class: "fields" });
  let made = () => null;
  const draw = async what => {
    made = await FIELDS[what](fields, trace, candidates);
  };
  await draw(possible[0]);
  return h("form", { class: "change", onsubmit: event => { event.preventDefault(); onmake(made()); } },
    choice(say("change title"), possible.map(what => [what, say(`change ${what}`)]), possible[0], draw), fields,
    h("button", { type: "submit", class: "first" }, say("make change")));
}

const upTo = (n, name = String) => Array.from({ length: n }, (_, i) => [i, name(i)]);

/** Selects for an attention and a head of it; `onchange` is told when either changes. */
function headFields(trace, onchange = () => {}) {
  const places = attentions(trace), state = { at: Object.keys(places)[0], head: 0 };
  const heads = h("span", {});
  const fill = () => {
    state.head = Math.min(state.head, places[state.at] - 1);
    refill(heads, labelled(say("head"), select(upTo(places[state.at]), state.head, head => { state.head = Number(head); onchange(); })));
  };
  fill();
  const where = labelled(say("attention"), select(Object.keys(places).map(name => [name, name]), state.at, at => { state.at = at; fill(); onchange(); }));
  return { state, elements: [where, heads] };
}

/** What each kind of change asks for: fills `place`, and gives back how the change is written. */
const FIELDS = {
  silence: (place, trace) => ofHead(place, trace, "silence"),
  average: (place, trace) => ofHead(place, trace, "average"),
  row: rowFields,
  cut: (place, trace) => {
    const places = ending(trace, "residual"), state = { at: places[0] };
    refill(place, h("p", { class: "soft" }, say("about cut")),
      labelled(say("block"), select(places.map(name => [name, name]), state.at, at => { state.at = at; })));
    return () => `cut=${state.at}`;
  },
  "no-mask": place => {
    refill(place, h("p", { class: "soft" }, say("about no-mask")));
    return () => "no-mask";
  },
  "no-positions": (place, trace) => {
    const state = { side: "" }, sides = ending(trace, "positions");
    refill(place, h("p", { class: "soft" }, say("about no-positions")), labelled(say("side"), select(
      [["", say("both sides")], ...sides.map(side => [side, say(`kind ${side}`)])], "", side => { state.side = side; })));
    return () => (state.side ? `no-positions=${state.side}` : "no-positions");
  },
  force: (place, trace, candidates) => {
    const state = { step: 0, token: 0 }, tokens = h("span", {});
    const fill = () => {
      const likely = candidates[state.step];
      state.token = (likely[1] ?? likely[0]).token;
      refill(tokens, labelled(say("token"), select(likely.map(({ token, piece }) => [token, plain(piece)]), state.token,
        token => { state.token = Number(token); })));
    };
    fill();
    refill(place, h("p", { class: "soft" }, say("about force")),
      labelled(say("step"), select(upTo(candidates.length, i => `${i}: ${plain(trace.written[i])}`), 0,
        step => { state.step = Number(step); fill(); })), tokens);
    return () => `force=${state.step}:${state.token}`;
  },
};

function ofHead(place, trace, what) {
  const { state, elements } = headFields(trace);
  refill(place, h("p", { class: "soft" }, say(`about ${what}`)), ...elements);
  return () => `${what}=${state.at}.${state.head}`;
}

/** One row of a head: a slider a column, beginning with what the head looked at. */
async function rowFields(place, trace) {
  const sliders = h("div", { class: "sliders" }), rows = h("span", {});
  const state = { row: 0, weights: [] };
  const look = () => trace.looks[kindOf(trace, heads.state.at)];
  const drawSliders = async () => {
    const { at, head } = heads.state, columns = trace[look().columns];
    const { numbers } = await api.values(trace.id, `${at}.weights`, [head, state.row]);
    const reach = at.startsWith("decoder") && look().columns === "target" ? state.row + 1 : columns.length;
    state.weights = columns.map((_, i) => numbers[i] ?? 0);
    const told = columns.slice(0, reach).map(() => h("output", {}));
    const tell = () => told.forEach((output, i) => { output.textContent = exact(shares(state.weights)[i].toFixed(3)); });
    refill(sliders, ...columns.slice(0, reach).map((piece, i) => h("label", { class: "range" }, h("span", { class: "name" }, plain(piece)),
      h("input", { type: "range", min: 0, max: STEPS, value: Math.round(STEPS * state.weights[i]),
        oninput: event => { state.weights[i] = Number(event.target.value) / STEPS; tell(); } }), told[i])));
    tell();
  };
  const drawRows = async () => {
    const { rows: side } = look(), pieces = trace[side];
    state.row = Math.min(state.row, pieces.length - 1);
    const named = i => `${i}: ${plain(pieces[i])}${side === "target" ? ` → ${plain(trace.predicted[i])}` : ""}`;
    refill(rows, labelled(say("row"), select(upTo(pieces.length, named), state.row, row => { state.row = Number(row); drawSliders(); })));
    await drawSliders();
  };
  const heads = headFields(trace, drawRows);
  await drawRows();
  refill(place, h("p", { class: "soft" }, say("about row")), ...heads.elements, rows, sliders);
  return () => `row=${heads.state.at}.${heads.state.head}.${state.row}:${shares(state.weights).map(x => Number(x.toFixed(6))).join(",")}`;
}

/** Numbers as shares of 1; of nothing at all, alike. */
function shares(weights) {
  const sum = weights.reduce((a, b) => a + b, 0);
  return sum > 0 ? weights.map(x => x / sum) : weights.map(() => 1 / weights.length);
}
