// Two runs on one sentence: what each wrote, where it looked, how sure it was, and what its log says of it.

import { note, whole } from "../address.js";
import * as api from "../api.js";
import { h, labelled, refill, s, select } from "../dom.js";
import { drawnTable } from "../drawntable.js";
import { exports } from "../export.js";
import { drawnMap, heatmap } from "../heatmap.js";
import { say } from "../i18n.js";
import { exact, ofHead, percent, plain } from "../numbers.js";
import { problem } from "../problem.js";
import { tableOf, twin } from "../table.js";
import { bars } from "./bars.js";

const SIDES = ["a", "b"];

export async function show(place, { trace, address, runs }) {
  if (trace.task !== "translation") return void place.append(h("p", { class: "empty" }, say("does not translate")));
  const others = runs.filter(run => run.task === "translation" && run.name !== trace.run);
  if (!others.length) return void place.append(h("p", { class: "empty" }, say("one run only")));
  const chosen = others.find(run => run.name === address.other) ?? others[0];
  const picker = h("div", { class: "controls" }, labelled(say("beside run", { run: trace.run }),
    select(others.map(run => [run.name, run.name]), chosen.name, name => { note({ other: name }); draw(name); })));
  const inner = h("div", { class: "view" });
  let drawing = 0;
  const draw = async name => {
    const mine = ++drawing;
    let shown;
    try {
      shown = await both(trace, await api.trace({ run: name, text: trace.text, target: address.target }), address);
    } catch (error) {
      shown = [problem(error)];
    }
    if (mine === drawing) refill(inner, ...shown);
  };
  place.append(h("p", { class: "soft" }, say("compare says")), picker, inner);
  await draw(chosen.name);
}

async function both(first, second, address) {
  const traces = [first, second];
  const [numbers, sure, maps] = await Promise.all([
    Promise.all(traces.map(trace => api.numbers(trace.run))),
    Promise.all(traces.map(trace => api.written(trace.id))),
    Promise.all(traces.map((trace, i) => lookOf(trace, SIDES[i], address))),
  ]);
  // What each makes of the other's words: the pieces may be cut differently, so sums are compared, not tokens.
  const swapped = await Promise.all(traces.map(async (trace, i) => {
    const other = await api.trace({ run: trace.run, text: trace.text, target: traces[1 - i].output });
    return total(await api.written(other.id));
  }));
  return [
    h("div", { class: "two even" }, traces.map((trace, i) => h("section", { class: "panel side" }, h("h2", {}, trace.run),
      h("p", { class: "soft" }, numbers[i].described), h("p", { class: "output" }, trace.output || "–"),
      h("h3", {}, say("where decoder looked")), maps[i].element))),
    h("div", { class: "pair" }, h("p", { class: "soft" }, say("one scale")), pairExports(traces, maps)),
    surePanel(traces, sure), numbersPanel(traces, numbers, sure, swapped)];
}

const total = tokens => tokens.reduce((sum, token) => sum + token.log_probability, 0);

// ---------------------------------------------------------------- where each looked

/** The cross attention of a run; `shown()` gives what is drawn now, nothing for a model without. */
async function lookOf(trace, side, address) {
  const look = trace.looks.cross;
  if (!look) return { element: h("p", { class: "soft" }, say("no cross")), shown: () => null };
  const state = { layer: whole(address[`layer-${side}`], look.layers - 1, look.layers - 1), head: whole(address[`head-${side}`], "mean", look.heads - 1) };
  if (look.heads === 1) state.head = 0;
  const inner = h("div", {}), upTo = n => Array.from({ length: n }, (_, i) => [i, String(i)]);
  const rows = trace.target.map((piece, i) => `${plain(piece)} → ${plain(trace.predicted[i])}`), columns = trace.source.map(plain);
  let drawn = null;
  const draw = async (changes = {}) => {
    Object.assign(state, changes);
    note({ [`layer-${side}`]: state.layer, [`head-${side}`]: state.head });
    const { numbers: all } = await api.values(trace.id, look.names[state.layer]);
    const numbers = ofHead(all, look.heads, state.head), title = `${trace.run}: ${headName(look, state)}`;
    drawn = { numbers, rows, columns, title };
    const said = h("p", { class: "readout", "aria-live": "polite" }, say("choose a cell"));
    const size = Math.max(12, Math.min(24, Math.floor(330 / columns.length)));
    refill(inner, h("div", { class: "scroll" }, heatmap({ ...drawn, size, label: `${title}. ${say("arrow keys")}`, onchoose: ([r, c]) =>
      refill(said, `${rows[r]} ⟶ ${columns[c]}: `, h("strong", {}, exact(numbers[r * columns.length + c]))) })), said,
      twin(() => tableOf(title, ["", ...columns], rows.map((name, r) => [name, ...columns.map((_, c) => exact(numbers[r * columns.length + c]))]))));
  };
  await draw();
  const heads = look.heads > 1 && labelled(say("head"),
    select([["mean", say("mean of heads")], ...upTo(look.heads)], state.head, head => draw({ head: whole(head, "mean") })));
  const layers = look.layers > 1 && labelled(say("layer"),
    select(upTo(look.layers), state.layer, layer => draw({ layer: Number(layer) })));
  return { element: h("div", {}, h("div", { class: "controls" }, layers, heads,
    look.heads === 1 && h("span", { class: "soft" }, say("one head"))), inner), shown: () => drawn };
}

const headName = (look, { layer, head }) => (look.heads === 1 ? say("one head")
  : head === "mean" ? `${say("layer n", { n: layer })}, ${say("mean of heads")}` : say("layer and head", { layer, head }));

function pairExports(traces, maps) {
  const shown = () => maps.map(map => map.shown()).filter(Boolean);
  return exports("compare-attention", {
    drawing: () => {
      let x = 0, tall = 40;
      const parts = shown().map(map => {
        const part = drawnMap(map), [, , width, height] = part.getAttribute("viewBox").split(" ").map(Number);
        for (const [name, value] of Object.entries({ x, y: 0, width, height })) part.setAttribute(name, value);
        x += width + 16;
        tall = Math.max(tall, height);
        return part;
      });
      return s("svg", { class: "drawing", viewBox: `0 0 ${Math.max(x, 40)} ${tall}`, role: "img", "aria-label": say("where decoder looked") }, parts);
    },
    rows: () => [["run", "row", "column", "weight"], ...maps.flatMap((map, i) => {
      const drawn = map.shown();
      return drawn ? drawn.rows.flatMap((row, r) => drawn.columns.map((column, c) =>
        [traces[i].run, row, column, exact(drawn.numbers[r * drawn.columns.length + c]).replace("−", "-")])) : [];
    })] });
}

// ---------------------------------------------------------------- how sure each was

function surePanel(traces, sure) {
  const title = say("sure title"), heads = [say("run"), say("step"), say("token"), say("probability"), say("log-probability")];
  const rows = traces.flatMap((trace, i) => sure[i].map((token, step) =>
    [trace.run, String(step), plain(token.piece), exact(Math.exp(token.log_probability)), exact(token.log_probability)]));
  return h("section", { class: "panel" }, h("h2", {}, title), h("p", { class: "soft" }, say("sure says")),
    h("div", { class: "two even" }, traces.map((trace, i) => h("div", {}, h("h3", {}, trace.run), bars(sure[i].map(token => {
      const chance = Math.exp(token.log_probability);
      return { name: plain(token.piece), share: chance, number: percent(chance), exact: exact(chance) };
    }))))),
    twin(() => tableOf(title, heads, rows)),
    exports("compare-steps", { drawing: () => drawnTable(title, [heads, ...rows]),
      rows: () => [["run", "step", "token", "log-probability"], ...traces.flatMap((trace, i) =>
        sure[i].map((token, step) => [trace.run, step, token.piece, token.log_probability]))] }));
}

// ---------------------------------------------------------------- the numbers of each run

function numbersPanel(traces, numbers, sure, swapped) {
  const title = say("numbers title"), sets = [...new Set(numbers.flatMap(run => Object.keys(run.scores)))];
  const score = (run, set, name) => { const x = run.scores[set]?.[name]; return x === undefined || x === null ? "–" : x.toFixed(2); };
  const line = (name, of) => [name, ...numbers.map((run, i) => of(run, i))];
  const rows = [
    line(say("weights counted"), run => run.weights.toLocaleString("en")),
    line(say("steps trained"), run => run.steps?.toLocaleString("en") ?? "–"),
    line(say("minutes trained"), run => (run.seconds === null ? "–" : (run.seconds / 60).toFixed(1))),
    ...sets.flatMap(set => [line(say("bleu on", { set: say(`set ${set}`) }), run => score(run, set, "bleu")),
      line(say("loss on", { set: say(`set ${set}`) }), run => score(run, set, "loss"))]),
    line(say("own output"), (_, i) => exact(total(sure[i]))),
    line(say("other's output"), (_, i) => exact(swapped[i])),
  ];
  const heads = ["", ...traces.map(trace => trace.run)];
  return h("section", { class: "panel in-numbers" }, h("h2", {}, title), h("p", { class: "soft" }, say("numbers says")),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, tableOf(title, heads, rows)),
    exports("compare-numbers", { drawing: () => drawnTable(title, [heads, ...rows]),
      rows: () => [heads, ...rows].map(row => row.map(cell => cell.replace("−", "-"))) }));
}
