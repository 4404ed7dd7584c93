// The form for an intervention. Interventions are written as on the command line: "silence=encoder.0.self.2".

import * as api from "../api.js";
import { explanation } from "../components.js";
import { choice, h, ifLatest, labelled, refill, select } from "../dom.js";
import { t } from "../i18n.js";
import { scopeLabel } from "../labels.js";
import { formatExact } from "../numbers.js";
import { indexOptions } from "../ranges.js";
import { withoutLastPart } from "../tensor_names.js";
import { inputAndPrediction, tokenText } from "../tokens.js";
import { isRotary, sidesWithPositions } from "./positional_encoding.js";

/** @import { Attention, Candidate, Option, Trace } from "../types.js" */
/** @typedef {() => string} WriteChange  writes the intervention that the fields describe */
/** @typedef {Map<number, string>} TokenNames  texts of tokens by their ids */

const SLIDER_STEPS = 1000; // of a slider from 0 to 1
const MOST_CANDIDATES = 30;

/**
 * Every attention layer by its name, such as "encoder.0.self".
 *
 * @param {Trace} trace
 * @returns {Map<string, Attention>}
 */
const attentionLayers = trace =>
  new Map(
    Object.values(trace.looks).flatMap(attention =>
      attention.names.map(name => /** @type {[string, Attention]} */ ([withoutLastPart(name), attention])),
    ),
  );

/**
 * The blocks that have a tensor of this name.
 *
 * @param {Trace} trace
 * @param {string} last
 */
const blocksWith = (trace, last) =>
  Object.keys(trace.tensors)
    .filter(name => name.endsWith(`.${last}`))
    .map(withoutLastPart);

/**
 * The kinds of intervention that a model allows.
 *
 * @param {Trace} trace
 */
function possibleKinds(trace) {
  const heads = attentionLayers(trace).size > 0;
  const masked = blocksWith(trace, "mask").some(name => name.startsWith("decoder"));
  /** @type {[string, boolean][]} */
  const kinds = [
    ["silence", heads],
    ["average", heads],
    ["row", heads],
    ["cut", blocksWith(trace, "residual").length > 0],
    ["no-mask", masked],
    ["no-positions", sidesWithPositions(trace).length > 0],
    ["force", true],
  ];
  return kinds.filter(([, possible]) => possible).map(([kind]) => kind);
}

/**
 * "encoder.0.self.2" → "encoder.0.self" and "2".
 *
 * @param {string} text
 */
function splitIndex(text) {
  const match = /^(.*?)\.(\d+)$/.exec(text);
  return match ? { name: match[1], index: match[2] } : { name: text, index: "" };
}

/**
 * Describe an intervention in words.
 *
 * @param {string} change
 * @param {TokenNames} tokenNames
 */
export function describeChange(change, tokenNames) {
  const [kind, where = ""] = change.split(/=(.*)/s);
  const [address, argument] = where.split(":");
  if (kind === "silence" || kind === "average") {
    const { name, index } = splitIndex(address);
    return t(`changed ${kind}`, { at: scopeLabel(name), head: Number(index) + 1 });
  }
  if (kind === "row") {
    const row = splitIndex(address);
    const head = splitIndex(row.name);
    return t("changed row", {
      at: scopeLabel(head.name),
      head: Number(head.index) + 1,
      row: Number(row.index) + 1,
    });
  }
  if (kind === "cut") return t("changed cut", { at: scopeLabel(where) });
  if (kind === "no-positions" && where) return t("changed no-positions of", { side: t(`side ${where}`) });
  if (kind === "force") {
    return t("changed force", { step: Number(address) + 1, token: tokenNames.get(Number(argument)) ?? `#${argument}` });
  }
  return t(`changed ${kind}`);
}

/**
 * Return the form, and the texts of the tokens that can be forced.
 *
 * @param {Trace} trace
 * @param {(change: string) => void} onsubmit
 */
export async function interventionForm(trace, onsubmit) {
  const candidates = await api.candidates(trace.id, MOST_CANDIDATES);
  const tokenNames = new Map(candidates.flat().map(({ token, piece }) => [token, tokenText(piece)]));
  const kinds = possibleKinds(trace);
  const fields = h("div", { class: "fields" });
  /** @type {WriteChange} */
  let writeChange = () => "";
  const draw = async (/** @type {string} */ kind) => {
    const drawn = h("div", {}); // fields of another kind that are still waiting for the server must not be mixed in
    const write = await ifLatest(fields, FIELDS[kind](drawn, trace, candidates));
    if (!write) return;
    writeChange = write;
    refill(fields, ...drawn.childNodes);
  };
  await draw(kinds[0]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    onsubmit(writeChange());
  };
  const form = h(
    "form",
    { class: "change", onsubmit: submit },
    choice(
      t("change title"),
      kinds.map(kind => [kind, t(`change ${kind}`)]),
      kinds[0],
      draw,
    ),
    fields,
    h("button", { type: "submit", class: "first" }, t("make change")),
  );
  return { form, tokenNames };
}

/**
 * The fields of each kind of intervention.
 *
 * @type {Record<string, (place: HTMLElement, trace: Trace, candidates: Candidate[][]) => WriteChange | Promise<WriteChange>>}
 */
const FIELDS = {
  silence: (place, trace) => headChange(place, trace, "silence"),
  average: (place, trace) => headChange(place, trace, "average"),
  row: rowChange,
  cut: residualChange,
  "no-mask": place => {
    refill(place, explanation(t("about no-mask")));
    return () => "no-mask";
  },
  "no-positions": positionsChange,
  force: forcedToken,
};

/** @param {string[]} names */
const nameOptions = names => names.map(name => /** @type {Option} */ ([name, scopeLabel(name)]));

/**
 * Selects for an attention layer and one of its heads.
 *
 * @param {Trace} trace
 * @param {() => void} [onchange]
 */
function headFields(trace, onchange = () => {}) {
  const layers = attentionLayers(trace);
  const [firstLayer] = layers.keys();
  const state = { layer: firstLayer, head: 0 };
  const headField = h("span", {});
  const fillHeads = () => {
    const heads = layers.get(state.layer)?.heads ?? 1;
    state.head = Math.min(state.head, heads - 1);
    const heading = select(indexOptions(heads), state.head, head => {
      state.head = Number(head);
      onchange();
    });
    refill(headField, labelled(t("head"), heading));
  };
  fillHeads();
  const layerSelect = select(nameOptions([...layers.keys()]), state.layer, layer => {
    state.layer = layer;
    fillHeads();
    onchange();
  });
  const attention = () => /** @type {Attention} */ (layers.get(state.layer));
  return { state, attention, elements: [labelled(t("attention"), layerSelect), headField] };
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {string} kind
 */
function headChange(place, trace, kind) {
  const { state, elements } = headFields(trace);
  refill(place, explanation(t(`about ${kind}`)), elements);
  return () => `${kind}=${state.layer}.${state.head}`;
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 */
function residualChange(place, trace) {
  const blocks = blocksWith(trace, "residual");
  const field = select(nameOptions(blocks), blocks[0], () => {});
  refill(place, explanation(t("about cut")), labelled(t("block"), field));
  return () => `cut=${field.value}`;
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 */
function positionsChange(place, trace) {
  /** @type {Option[]} */
  const sides = sidesWithPositions(trace).map(side => [side, t(`side ${side}`)]);
  const field = select([["", t("both sides")], ...sides], "", () => {});
  refill(
    place,
    explanation(t(isRotary(trace) ? "about no-rotation" : "about no-positions")),
    labelled(t("side"), field),
  );
  return () => (field.value ? `no-positions=${field.value}` : "no-positions");
}

/**
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {Candidate[][]} candidates
 */
function forcedToken(place, trace, candidates) {
  const state = { step: 0, token: 0 };
  const tokens = h("span", {});
  const fillTokens = () => {
    const likely = candidates[state.step];
    state.token = (likely[1] ?? likely[0]).token;
    /** @type {Option[]} */
    const options = likely.map(({ token, piece }) => [token, tokenText(piece)]);
    const field = select(options, state.token, token => {
      state.token = Number(token);
    });
    refill(tokens, labelled(t("token"), field));
  };
  fillTokens();
  const steps = indexOptions(candidates.length, i => `${i + 1}: ${tokenText(trace.written[i])}`);
  const stepField = select(steps, 0, step => {
    state.step = Number(step);
    fillTokens();
  });
  refill(place, explanation(t("about force")), labelled(t("step"), stepField), tokens);
  return () => `force=${state.step}:${state.token}`;
}

// ---------------------------------------------------------------- one row of attention weights

/**
 * One row of a head: one slider per column, initially at the weights that the head has.
 *
 * @param {HTMLElement} place
 * @param {Trace} trace
 */
async function rowChange(place, trace) {
  const sliders = h("div", { class: "sliders" });
  const rowField = h("span", {});
  /** @type {{ row: number, weights: number[] }} */
  const state = { row: 0, weights: [] };
  const drawSliders = async () => {
    const { layer, head } = heads.state;
    const attention = heads.attention();
    const tokens = trace[attention.columns];
    const loaded = await ifLatest(sliders, api.tensorValues(trace.id, `${layer}.weights`, [head, state.row]));
    if (!loaded) return;
    const causal = layer.startsWith("decoder") && attention.columns === "target";
    state.weights = tokens.map((_, i) => loaded.numbers[i] ?? 0);
    refill(sliders, weightSliders(tokens.slice(0, causal ? state.row + 1 : tokens.length), state.weights));
  };
  const drawRows = async () => {
    const side = heads.attention().rows;
    const tokens = trace[side];
    state.row = Math.min(state.row, tokens.length - 1);
    /** @param {number} i */
    const rowName = i =>
      `${i + 1}: ${side === "target" ? inputAndPrediction(tokens[i], trace.predicted[i]) : tokenText(tokens[i])}`;
    const field = select(indexOptions(tokens.length, rowName), state.row, row => {
      state.row = Number(row);
      drawSliders();
    });
    refill(rowField, labelled(t("row"), field));
    await drawSliders();
  };
  const heads = headFields(trace, drawRows);
  await drawRows();
  refill(place, explanation(t("about row")), heads.elements, rowField, sliders);
  return () => {
    const { layer, head } = heads.state;
    const weights = normalized(state.weights).map(x => Number(x.toFixed(6)));
    return `row=${layer}.${head}.${state.row}:${weights.join(",")}`;
  };
}

/**
 * @param {string[]} tokens
 * @param {number[]} weights  changed by the sliders
 */
function weightSliders(tokens, weights) {
  const outputs = tokens.map(() => h("output", {}));
  const showWeights = () => {
    const shares = normalized(weights);
    outputs.forEach((output, i) => {
      output.textContent = formatExact(shares[i].toFixed(3));
    });
  };
  const sliders = tokens.map((token, i) => {
    const input = h("input", {
      type: "range",
      min: 0,
      max: SLIDER_STEPS,
      value: Math.round(SLIDER_STEPS * weights[i]),
    });
    input.addEventListener("input", () => {
      weights[i] = Number(input.value) / SLIDER_STEPS;
      showWeights();
    });
    return h("label", { class: "range" }, h("span", { class: "name" }, tokenText(token)), input, outputs[i]);
  });
  showWeights();
  return sliders;
}

/**
 * Scale weights to a sum of 1; equal weights if all are 0.
 *
 * @param {number[]} weights
 */
function normalized(weights) {
  const sum = weights.reduce((a, b) => a + b, 0);
  return sum > 0 ? weights.map(x => x / sum) : weights.map(() => 1 / weights.length);
}
