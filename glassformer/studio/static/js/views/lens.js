// The logit lens: what the output layer would say if it read the stream after each decoder layer already.

import { note } from "../address.js";
import * as api from "../api.js";
import { h, refill } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, exact, percent, plain } from "../numbers.js";
import { tableOf, twin } from "../table.js";
import { bars } from "./bars.js";

const SIZE = [64, 26];
const STRENGTH = 2.5;  // colour stays so light that words can be read on it

export async function lensPanel(trace, chosen) {
  const title = say("lens title"), intro = [h("h2", {}, title), h("p", { class: "soft" }, say("lens says"))];
  // A model that reads one text and chooses labels or nothing has no output layer over words.
  if (!trace.tensors["decoder.input"] || !trace.tensors.logits) return h("section", { class: "panel" }, ...intro, h("p", {}, say("no lens")));
  const said = await api.lens(trace.id);
  const rows = said.map((_, i) => (i === 0 ? say("end input") : say("after layer", { n: i - 1 })));
  const columns = trace.target.map((piece, t) => `${plain(piece)} → ${plain(trace.written[t])}`), T = columns.length;
  const numbers = Float64Array.from(said.flatMap(one => one.probabilities));
  const told = h("p", { class: "readout", "aria-live": "polite" }), candidates = h("div", {});
  const choose = async ([layer, row]) => {
    note({ lens: layer, at: row });
    const one = said[layer];
    refill(told, say("lens cell", { where: rows[layer], read: plain(trace.target[row]), said: plain(one.pieces[row]), p: percent(one.probabilities[row]) }),
      " ", say("lens written", { token: plain(trace.written[row]), rank: one.ranks[row], x: brief(one.log_probabilities[row]) }));
    const choices = await api.lensChoices(trace.id, one.name, row);
    const list = bars(choices.map(choice => ({ name: plain(choice.piece), share: choice.probability, number: percent(choice.probability),
      exact: exact(choice.probability), marked: choice.piece === trace.written[row] })));
    const heading = `${rows[layer]}, ${columns[row]}`;
    refill(candidates, h("h3", {}, heading), list,
      twin(() => tableOf(heading, [say("token"), say("probability")], choices.map(choice => [plain(choice.piece), exact(choice.probability)]))),
      exports(`lens-${layer}-${row}`, { drawing: () => list.drawing(heading),
        rows: () => [["token", "probability"], ...choices.map(choice => [choice.piece, choice.probability])] }));
  };
  const start = [Math.max(0, Math.min(said.length - 1, chosen.layer < 0 ? said.length - 1 : chosen.layer)), Math.max(0, Math.min(T - 1, chosen.row))];
  const map = heatmap({ numbers, rows, columns, hue: "--probability", most: STRENGTH, size: SIZE, chosen: start,
    label: `${title}. ${say("arrow keys")}`, onchoose: choose });
  map.querySelector(".field").append(words(said, trace.written));
  const panel = h("section", { class: "panel lens" }, ...intro,
    h("p", { class: "soft" }, `${say("down")}: ${say("lens down")}; ${say("across")}: ${say("lens across")}.`),
    h("div", { class: "scroll" }, map), told,
    twin(() => tableOf(title, ["", ...columns], rows.map((name, r) => [name, ...columns.map((_, t) =>
      `${plain(said[r].pieces[t])} ${exact(Math.fround(said[r].probabilities[t]))}`)]))),
    exports("lens", { drawing: () => drawnMap({ numbers, rows, columns, hue: "--probability", title }),
      rows: () => [["after", "read", "written", "likeliest", "probability", "log_probability of written", "rank of written"],
        ...said.flatMap(one => one.pieces.map((piece, t) => [one.name, trace.target[t], trace.written[t], piece, one.probabilities[t],
          one.log_probabilities[t], one.ranks[t]]))] }), candidates);
  await choose(start);
  return panel;
}

/** The likeliest words, over their colours; bold where it is what was written in the end. */
function words(said, written) {
  const grid = h("div", { class: "words", "aria-hidden": "true" }, said.flatMap(one => one.pieces.map((piece, t) =>
    h("span", { class: piece === written[t] ? "right" : null, title: plain(piece) }, plain(piece)))));
  grid.style.gridTemplate = `repeat(${said.length}, ${SIZE[1]}px) / repeat(${written.length}, ${SIZE[0]}px)`;
  return grid;
}
