// Why A and not B: the difference of two logits at a decoding step, by layer, by head and by attended token.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { controls, emptyMessage, explanation, panel } from "../components.js";
import { h, ifLatest, labelled, refill, select } from "../dom.js";
import { exportButtons } from "../export.js";
import { refillKeepingFocus } from "../focus.js";
import { t } from "../i18n.js";
import { layerLabel } from "../labels.js";
import { formatChange, formatExact, formatPercent, formatShort } from "../numbers.js";
import { dataTable, foldedTable } from "../table.js";
import { inputAndPrediction, tokenText } from "../tokens.js";
import { total } from "../vectors.js";
import { swingDrawing, swingList } from "./bars.js";
import { ablationPanel, headsPanel } from "./contrast_heads.js";

/** @import { Address, Candidate, Contrast, Option, Share, Trace, ViewContext } from "../types.js" */
/** @typedef {{ step: number, token: number, other: number }} Pair */

const MOST_CANDIDATES = 50;

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  if (!trace.looks.decoder || !trace.tensors.logits) return place.append(emptyMessage(t("no contrast")));
  const candidates = await api.candidates(trace.id, MOST_CANDIDATES);
  const pair = initialPair(trace, candidates, address);
  const chooser = panel();
  const content = h("div", { class: "stack" });
  const redraw = async (/** @type {Partial<Pair>} */ changes = {}) => {
    Object.assign(pair, changes);
    if (pair.token === pair.other) pair.other = otherThan(candidates[pair.step], pair.token);
    replaceAddress({ ...pair });
    const loading = Promise.all([api.contrast(trace.id, pair), api.contrastAblation(trace.id, pair)]);
    const loaded = await ifLatest(content, loading);
    if (!loaded) return;
    const [contrast, ablations] = loaded;
    drawChooser(chooser, trace, candidates, pair, contrast, redraw);
    refill(
      content,
      h("div", { class: "two even" }, partsPanel(contrast, names(candidates, pair)), headsPanel(trace, contrast)),
      ablationPanel(ablations),
    );
  };
  place.append(chooser, content);
  await redraw();
}

/**
 * @param {Trace} trace
 * @param {Candidate[][]} candidates
 * @param {Address} address
 * @returns {Pair}
 */
function initialPair(trace, candidates, address) {
  // A language model is asked about the token after the text, a translator about its first token.
  const step = wholeNumber(address.step, trace.source.length ? 0 : candidates.length - 1, candidates.length - 1);
  const [first, second] = candidates[step];
  const token = wholeNumber(address.token, first.token);
  return { step, token, other: wholeNumber(address.other, token === first.token ? second.token : first.token) };
}

/**
 * @param {Candidate[]} candidates
 * @param {number} token
 */
const otherThan = (candidates, token) => candidates.find(one => one.token !== token)?.token ?? 0;

/**
 * The texts of the two tokens.
 *
 * @param {Candidate[][]} candidates
 * @param {Pair} pair
 */
function names(candidates, { step, token, other }) {
  /** @param {number} id */
  const name = id => tokenText(candidates[step].find(one => one.token === id)?.piece ?? String(id));
  return { a: name(token), b: name(other) };
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {Candidate[][]} candidates
 * @param {Pair} pair
 * @param {Contrast} contrast
 * @param {(changes: Partial<Pair>) => void} redraw
 */
function drawChooser(place, trace, candidates, pair, contrast, redraw) {
  const steps = candidates.map((_, i) => /** @type {Option} */ ([i, stepName(trace, i)]));
  /** @type {Option[]} */
  const tokens = candidates[pair.step].map(({ token, piece }) => [token, tokenText(piece)]);
  for (const token of [pair.token, pair.other]) {
    if (!tokens.some(([value]) => value === token)) tokens.push([token, `#${token}`]);
  }
  const changeStep = (/** @type {string} */ step) => {
    const [first, second] = candidates[Number(step)];
    redraw({ step: Number(step), token: first.token, other: second.token });
  };
  const { a, b } = names(candidates, pair);
  const values = {
    a,
    b,
    x: formatShort(contrast.logits[0]),
    y: formatShort(contrast.logits[1]),
    difference: formatChange(contrast.value),
    p: formatPercent(contrast.probabilities[0]),
    q: formatPercent(contrast.probabilities[1]),
  };
  refillKeepingFocus(
    place,
    h("h2", {}, t("contrast title", { a, b })),
    explanation(t("contrast says")),
    controls(
      labelled(t("step"), select(steps, pair.step, changeStep)),
      labelled(
        t("token a"),
        select(tokens, pair.token, token => redraw({ token: Number(token) })),
      ),
      labelled(
        t("token b"),
        select(tokens, pair.other, token => redraw({ other: Number(token) })),
      ),
    ),
    h("p", { class: "readout" }, t("contrast values", values)),
  );
}

/**
 * @param {Trace} trace
 * @param {number} step
 */
const stepName = (trace, step) => `${step + 1}: ${inputAndPrediction(trace.target[step], trace.written[step])}`;

/**
 * The shares added up by part of the model, in the order of the pass.
 *
 * @param {Share[]} shares
 */
function byPart(shares) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  const add = (/** @type {string} */ name, /** @type {number} */ value) =>
    sums.set(name, (sums.get(name) ?? 0) + value);
  const ordered = [...shares].sort((a, b) => (a.layer ?? -1) - (b.layer ?? -1));
  for (const kind of ["embedding", "positions", "other"]) {
    for (const share of ordered) if (share.kind === kind) add(t(`share ${kind}`), share.value);
  }
  for (const share of ordered) {
    if (share.kind === "head") add(`${layerLabel(share.layer ?? 0)}, ${t(`share ${share.attention}`)}`, share.value);
    if (share.kind === "ff") add(`${layerLabel(share.layer ?? 0)}, ${t("share ff")}`, share.value);
  }
  for (const share of ordered) if (share.kind === "bias") add(t("share bias"), share.value);
  return [...sums].map(([name, value]) => ({ name, value }));
}

/**
 * @param {Contrast} contrast
 * @param {{ a: string, b: string }} tokens
 */
function partsPanel({ shares, value }, { a, b }) {
  const parts = byPart(shares);
  const sum = total(parts.map(one => one.value));
  const title = t("shares title");
  return panel(
    h("h2", {}, title),
    explanation(t("shares say", { a, b })),
    h("div", { class: "wide-names" }, swingList(parts)),
    h("p", { class: "readout" }, t("shares sum", { sum: formatShort(sum), difference: formatShort(value) })),
    explanation(t("shares honest")),
    foldedTable(() =>
      dataTable(
        title,
        [t("block"), t("contribution")],
        parts.map(one => [one.name, formatExact(one.value)]),
      ),
    ),
    exportButtons("contrast", {
      drawing: () => swingDrawing(title, parts),
      rows: () => [["part", "share"], ...parts.map(one => [one.name, one.value])],
    }),
  );
}
