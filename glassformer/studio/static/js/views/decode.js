// Decoding step by step: the candidates of each step, and the effect of choosing another token.

import { linkToView, navigate, replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { controls, emptyMessage, explanation, panel, tokenChips } from "../components.js";
import { h, ifLatest, refill } from "../dom.js";
import { exportButtons } from "../export.js";
import { t } from "../i18n.js";
import { formatCsv, formatExact } from "../numbers.js";
import { clamp } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { tokenText } from "../tokens.js";
import { softmax } from "../vectors.js";
import { barDrawing, barList } from "./bars.js";
import { treePanel } from "./beam_tree.js";
import { Player } from "./player.js";
import { samplingPanel } from "./sampling.js";
import { slider } from "./slider.js";
import { teacherForcingPanel } from "./teacher_forcing.js";

/** @import { Candidate, Trace, ViewContext } from "../types.js" */
/** @typedef {Record<number, number>} ForcedTokens  token id by step */
/**
 * @typedef {object} Decoding
 * @property {Trace} trace
 * @property {Candidate[][]} candidates  of each step, the likeliest first
 * @property {string[]} read  the token that each step reads
 * @property {string[]} chosen  the token that each step chooses
 * @property {ForcedTokens} forced
 * @property {boolean} translates
 * @property {boolean} writes  whether it generates text; a classifier or tagger does not
 */
/** @typedef {{ step: number, temperature: number, k: number }} State */

const SHOWN_CANDIDATES = 10;
const MOST_K = 50;
const DEFAULT_BEAM = 4;
const MASK = "<mask>"; // text/tokenizer.py

/**
 * "3:17,5:22" → {3: 17, 5: 22}.
 *
 * @param {string} [text]
 * @returns {ForcedTokens}
 */
function parseForced(text = "") {
  const pairs = text.split(",").filter(Boolean);
  const wrong = pairs.find(pair => !/^\d{1,9}:\d{1,9}$/.test(pair));
  if (wrong) {
    const what = t("bad forced", { pair: wrong });
    throw new api.RequestError(400, { what, where: "forced", hint: t("bad forced hint") });
  }
  return Object.fromEntries(pairs.map(pair => pair.split(":").map(Number)));
}

/** @param {ForcedTokens} forced */
const formatForced = forced =>
  Object.entries(forced)
    .map(([step, token]) => `${step}:${token}`)
    .join(",");

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  if (!trace.tensors.logits) return place.append(emptyMessage(t("chooses nothing")));
  const decoding = await decode(trace, parseForced(address.forced));
  const steps = decoding.candidates.length;
  if (!steps) return place.append(emptyMessage(t("chooses places")));
  /** @type {State} */
  const state = {
    step: Math.min(wholeNumber(address.step, firstStep(decoding)), steps - 1),
    temperature: Number(address.temperature) || 1,
    k: wholeNumber(address.k, 0, MOST_K),
  };
  const candidatesPanel = panel();
  /** @param {Partial<State>} changes */
  const redraw = async changes => {
    Object.assign(state, changes);
    player.show(state.step);
    const { step, temperature, k } = state;
    replaceAddress({ step, temperature: temperature === 1 ? null : temperature, k: k || null });
    await drawStep(candidatesPanel, decoding, state);
  };
  const player = new Player(t("step"), index => redraw({ step: clamp(index, 0, steps - 1) }));
  player.setCount(steps);
  place.append(controlPanel(decoding, state, player, redraw), candidatesPanel);
  await redraw({});
  if (decoding.writes) place.append(samplingPanel(trace, state));
  if (decoding.translates) {
    place.append(teacherForcingPanel(trace, address.given), treePanel(trace, wholeNumber(address.beam, DEFAULT_BEAM)));
  }
  return () => player.pause();
}

/**
 * @param {Trace} trace
 * @param {ForcedTokens} forced
 * @returns {Promise<Decoding>}
 */
async function decode(trace, forced) {
  const translates = trace.traits.sequence_to_sequence;
  const free = translates ? await api.trace({ run: trace.run, text: trace.text, free: true, forced }) : trace;
  const candidates = await api.candidates(free.id, MOST_K);
  const writes = free.target.length > 0;
  return {
    trace: free,
    candidates,
    read: writes ? free.target : free.source,
    chosen: writes ? free.written : free.predicted,
    forced,
    translates,
    writes,
  };
}

/**
 * The step that the view opens at: the first one of a translation, the next token of a language model, or the blank.
 *
 * @param {Decoding} decoding
 */
function firstStep({ read, translates, writes }) {
  if (translates) return 0;
  return writes ? read.length - 1 : Math.max(0, read.indexOf(MASK));
}

/**
 * @param {Decoding} decoding
 * @param {State} state
 * @param {Player} player
 * @param {(changes: Partial<State>) => void} redraw
 */
function controlPanel({ candidates, translates, forced }, state, player, redraw) {
  const stepwise = candidates.length > 1; // a classifier chooses its label in one pass
  return panel(
    h("h2", {}, t(stepwise ? "step by step" : "in one go")),
    explanation(t(translates ? "mode free" : "mode alone")),
    stepwise && player.element,
    controls(
      slider({
        label: "temperature",
        min: 0.1,
        max: 3,
        step: 0.1,
        value: state.temperature,
        onchange: temperature => redraw({ temperature }),
      }),
      slider({
        label: "top k",
        max: MOST_K,
        value: state.k,
        onchange: k => redraw({ k }),
        format: k => (k === 0 ? t("all tokens") : String(k)),
      }),
    ),
    Object.keys(forced).length > 0 && h("p", {}, h("a", { href: linkToView("decode") }, t("undo forced tokens"))),
  );
}

/**
 * Decode again with another token at a step. Tokens that were forced at later steps are dropped.
 *
 * @param {ForcedTokens} forced
 * @param {number} step
 * @param {number} token
 */
function forceToken(forced, step, token) {
  const earlier = Object.entries(forced).filter(([at]) => Number(at) < step);
  navigate(linkToView("decode", { step, forced: formatForced({ ...Object.fromEntries(earlier), [step]: token }) }));
}

/**
 * @param {HTMLElement} place
 * @param {Decoding} decoding
 * @param {State} state
 */
async function drawStep(place, decoding, { step, temperature, k }) {
  const { trace, candidates, read, chosen, forced, translates, writes } = decoding;
  const at = trace.tensors.logits.length > 1 ? [step] : [];
  const loaded = await ifLatest(place, api.tensorValues(trace.id, "logits", at));
  if (!loaded) return;
  const logits = loaded.numbers;
  const probabilities = softmax(logits, temperature, k);
  const shown = candidates[step].slice(0, SHOWN_CANDIDATES).map(({ token, piece }) => {
    const marked = piece === chosen[step];
    const label = t("write instead of", { token: tokenText(piece) });
    const force = () => forceToken(forced, step, token);
    const button = h(
      "button",
      { type: "button", class: "quiet", "aria-label": label, onclick: force },
      t("write this"),
    );
    const bar = {
      name: tokenText(piece),
      share: probabilities[token],
      marked,
      button: translates && !marked && button,
    };
    return { piece, logit: logits[token], probability: probabilities[token], bar };
  });
  const bars = shown.map(({ bar }) => bar);
  const title = stepTitle(decoding, step);
  const summary = { read: tokenText(read[step] ?? "–"), wrote: tokenText(chosen[step] ?? "–") };
  refill(
    place,
    h("h2", {}, title),
    sentence(decoding, step),
    h(
      "p",
      { "aria-live": "polite" },
      t(writes ? "read and wrote" : "read and chose", summary),
      step in forced && h("strong", {}, ` ${t("forced")}`),
    ),
    barList(bars),
    explanation(t("temperature says")),
    foldedTable(() =>
      dataTable(
        title,
        [t("token"), t("logit"), t("probability")],
        shown.map(one => [tokenText(one.piece), formatExact(one.logit), formatExact(one.probability)]),
      ),
    ),
    exportButtons(`step-${step}`, {
      drawing: () => barDrawing(title, bars),
      rows: () => [
        ["token", "logit", "probability"],
        ...shown.map(one => [one.piece, formatCsv(one.logit), formatExact(one.probability)]),
      ],
    }),
  );
}

/**
 * @param {Decoding} decoding
 * @param {number} step
 */
function stepTitle({ writes, candidates, read }, step) {
  if (writes) return t("candidates", { step: step + 1 });
  return candidates.length > 1 ? t("could choose at", { read: tokenText(read[step]) }) : t("could choose");
}

/**
 * The output with the current step marked.
 *
 * @param {Decoding} decoding
 * @param {number} step
 */
const sentence = ({ chosen, forced }, step) =>
  tokenChips(chosen.map(tokenText), i =>
    [i === step && "now", i > step && "later", i in forced && "forced"].filter(Boolean).join(" "),
  );
