// The decoder at work: one step after another, what it could have written, and what becomes of another choice.

import { elsewhere, go, note, whole } from "../address.js";
import * as api from "../api.js";
import { h, refill } from "../dom.js";
import { exports } from "../export.js";
import { say } from "../i18n.js";
import { exact, percent, plain, probabilities } from "../numbers.js";
import { tableOf, twin } from "../table.js";
import { bars } from "./bars.js";
import { besidePanel } from "./beside.js";
import { range } from "./range.js";
import { treePanel } from "./tree.js";

const SHOWN = 10, MOST_K = 50, PAUSE = 900;

/** "3:17,5:22" → {3: 17, 5: 22} */
function forcedOf(text) {
  const pairs = (text ?? "").split(",").filter(Boolean), wrong = pairs.find(pair => !/^\d{1,9}:\d{1,9}$/.test(pair));
  if (wrong) throw new api.Problem(400, { what: say("bad forced", { pair: wrong }), where: "forced", fix: say("bad forced fix") });
  return Object.fromEntries(pairs.map(pair => pair.split(":").map(Number)));
}
const writtenAs = forced => Object.entries(forced).map(([step, token]) => `${step}:${token}`).join(",");

export async function show(place, { trace, address }) {
  if (!trace.tensors.logits) return void place.append(h("p", { class: "empty" }, say("chooses nothing")));
  const translates = trace.task === "translation", forced = forcedOf(address.forced);
  const free = translates ? await api.trace({ run: trace.run, text: trace.text, free: true, forced }) : trace;
  const candidates = await api.choices(free.id, MOST_K);
  if (!candidates.length) return void place.append(h("p", { class: "empty" }, say("chooses places")));
  const read = free.target.length ? free.target : free.source;
  const state = { step: Math.min(whole(address.step, 0), candidates.length - 1),
    temperature: Number(address.temperature) || 1, k: whole(address.k, 0, MOST_K) };
  const writes = free.target.length > 0, steps = candidates.length > 1;  // a label is chosen at once
  const view = { free, candidates, read, forced, translates, writes, steps, written: writes ? free.written : free.predicted };
  let playing = null;

  const now = h("section", { class: "panel" });
  const slider = h("input", { type: "range", min: 0, max: candidates.length - 1, value: state.step, "aria-label": say("step"),
    oninput: event => redraw({ step: Number(event.target.value) }) });
  const stop = () => { clearInterval(playing); playing = null; play.textContent = say("play"); };
  const move = by => redraw({ step: Math.max(0, Math.min(candidates.length - 1, state.step + by)) });
  const play = h("button", { type: "button", onclick: () => {
    if (playing) return stop();
    if (state.step === candidates.length - 1) move(-candidates.length);
    play.textContent = say("pause");
    playing = setInterval(() => { move(1); if (state.step === candidates.length - 1) stop(); }, PAUSE);
  } }, say("play"));
  const redraw = async (changes = {}) => {
    Object.assign(state, changes);
    slider.value = state.step;
    note({ step: state.step, temperature: state.temperature === 1 ? null : state.temperature, k: state.k || null });
    await oneStep(now, view, state);
  };
  place.append(h("section", { class: "panel" }, h("h2", {}, say(steps ? "step by step" : "in one go")),
    h("p", { class: "soft" }, say(translates ? "mode free" : "mode alone")),
    steps && h("div", { class: "controls" },
      h("button", { type: "button", onclick: () => move(-1) }, say("back")), play,
      h("button", { type: "button", onclick: () => move(1) }, say("step")), slider),
    h("div", { class: "controls" },
      range("temperature", 0.1, 3, 0.1, state.temperature, temperature => redraw({ temperature })),
      range("top k", 0, MOST_K, 1, state.k, k => redraw({ k }), k => (k === 0 ? say("all tokens") : String(k)))),
    Object.keys(forced).length > 0 && h("p", {}, h("a", { href: elsewhere("decode") }, say("as it was")))), now);
  await redraw();
  if (translates) place.append(besidePanel(trace), treePanel(trace, whole(address.beam, 4)));
  return stop;
}

async function oneStep(place, view, state) {
  const { free, candidates, read, forced, translates, writes, steps, written } = view, { step } = state;
  const { numbers } = await api.values(free.id, "logits", free.tensors.logits.length > 1 ? [step] : []);
  const chance = probabilities(numbers, state.temperature, state.k);
  const told = candidates[step].slice(0, SHOWN).map(({ token, piece }) =>
    ({ token, piece, chance: chance[token], logit: numbers[token] }));
  const force = token => go(elsewhere("decode", { step, forced: writtenAs({
    ...Object.fromEntries(Object.entries(forced).filter(([at]) => Number(at) < step)), [step]: token }) }));
  const list = bars(told.map(one => ({ name: plain(one.piece), share: one.chance, number: percent(one.chance), exact: exact(one.chance),
    marked: one.piece === written[step], button: translates && one.piece !== written[step]
      && h("button", { type: "button", class: "quiet", "aria-label": say("write instead of", { token: plain(one.piece) }),
        onclick: () => force(one.token) }, say("write this")) })));
  const title = writes ? say("candidates", { step }) : steps ? say("could choose at", { read: plain(read[step]) }) : say("could choose");
  refill(place, h("h2", {}, title), sentence(view, step),
    h("p", { "aria-live": "polite" }, say(writes ? "read and wrote" : "read and chose", { read: plain(read[step] ?? "–"), wrote: plain(written[step] ?? "–") }),
      step in forced && h("strong", {}, ` ${say("forced")}`)),
    list, h("p", { class: "soft" }, say("temperature says")),
    twin(() => tableOf(title, [say("token"), say("logit"), say("probability")],
      told.map(one => [plain(one.piece), exact(one.logit), exact(one.chance)]))),
    exports(`step-${step}`, { drawing: () => list.drawing(title),
      rows: () => [["token", "logit", "probability"],
        ...told.map(one => [one.piece, exact(one.logit).replace("−", "-"), exact(one.chance)])] }));
}

/** What has been written so far, and what comes now. */
function sentence({ written, forced }, step) {
  return h("p", { class: "chips" }, written.map((piece, i) => h("span", {
    class: [i === step && "now", i > step && "later", i in forced && "forced"].filter(Boolean).join(" ") }, plain(piece))));
}
