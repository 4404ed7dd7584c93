// The page: a text field, the answer, attention weights of every head, and the decoding steps.

import { h } from "../../studio/static/js/dom.js";
import { tokenText } from "../../studio/static/js/tokens.js";
import { percent, thumbnail, weightTable } from "./heatmap.js";
import { MESSAGES } from "./messages.js";
import { PageModel } from "./model.js";

/** @import { Answer, AttentionKind, PageInfo } from "./types.js" */
/** @import { MessageKey } from "./messages.js" */

const MOST_STEPS = 100; // rows of the table of decoding steps

/** What the page shows. @type {{ language: "en" | "ko", answer: Answer | null, status: () => string,
 *   kind: AttentionKind | null, layer: number, head: number, text: string, beam: number, temperature: string }} */
const state = {
  language: "en",
  answer: null,
  status: () => "",
  kind: null,
  layer: 0,
  head: 0,
  text: "",
  beam: 1,
  temperature: "0",
};

/**
 * @param {MessageKey} key
 * @param {Record<string, string | number>} [values]
 */
function t(key, values = {}) {
  return MESSAGES[state.language][key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/** @param {string} id */
const place = id => /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {PageInfo} info */
function title(info) {
  const name = (/** @type {string} */ code) => new Intl.DisplayNames([state.language], { type: "language" }).of(code);
  const pair = info.languages?.map(name).join(" → ");
  return `${t(`title_${info.task}`)}${pair ? `: ${pair}` : ""}`;
}

/**
 * @param {PageModel} model
 * @param {() => void} answer
 */
function form(model, answer) {
  const { task, decode, examples } = model.info;
  const field = h("textarea", {
    id: "text",
    rows: 2,
    value: state.text,
    oninput: () => (state.text = field.value),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      answer();
    },
  });
  const beams = [...new Set([1, decode.beam])].map(n =>
    h("option", { value: n, selected: n === state.beam }, n === 1 ? t("greedy") : t("beam", { n })),
  );
  const beam = h("select", { id: "beam", onchange: () => ((state.beam = Number(beam.value)), answer()) }, beams);
  const temperature = h("input", { type: "number", min: 0, max: 2, step: 0.1, value: state.temperature });
  temperature.addEventListener("input", () => (state.temperature = temperature.value));
  const use = (/** @type {string} */ text) => ((state.text = field.value = text), answer());
  return h(
    "form",
    { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), answer()) },
    h("label", { for: "text" }, t(`input_${task}`)),
    field,
    h(
      "div",
      { class: "controls" },
      h("button", { type: "submit", class: "primary" }, t(`run_${task}`)),
      task === "translate" && h("label", {}, t("decoding"), " ", beam),
      task === "continue" && h("label", {}, t("temperature"), " ", temperature),
    ),
    examples.length > 0 &&
      h(
        "p",
        { class: "examples" },
        t("examples"),
        examples.map(text => [" ", h("button", { type: "button", onclick: () => use(text) }, text)]),
      ),
  );
}

/**
 * @param {Answer} answer
 * @param {PageInfo} info
 */
function attentionSection(answer, info) {
  const chosen = answer.attention.find(({ kind }) => kind === state.kind) ?? answer.attention[0];
  const redraw = () => show(place("attention"), attentionSection(answer, info));
  const kinds = answer.attention.map(({ kind }) =>
    h("option", { value: kind, selected: kind === chosen.kind }, t(kind)),
  );
  const select = h("select", {
    onchange: () => ((state.kind = /** @type {AttentionKind} */ (select.value)), redraw()),
  });
  select.append(...kinds);
  const layer = Math.min(state.layer, chosen.layers.length - 1),
    weights = chosen.layers[layer][state.head];
  const name = (/** @type {number} */ i, /** @type {number} */ j) => t("layer_head", { layer: i + 1, head: j + 1 });
  const maps = chosen.layers.map((heads, i) =>
    heads.map((one, j) =>
      h(
        "button",
        {
          type: "button",
          title: name(i, j),
          "aria-label": name(i, j),
          "aria-pressed": String(i === layer && j === state.head),
          onclick: () => {
            Object.assign(state, { layer: i, head: j });
            redraw();
            /** @type {HTMLElement | null} */ (document.querySelector('.maps [aria-pressed="true"]'))?.focus();
          },
        },
        thumbnail(one, chosen.columns.length),
      ),
    ),
  );
  const readout = h("p", { class: "readout", "aria-live": "polite" }, "\u00a0");
  const table = weightTable(chosen, weights, `${t(chosen.kind)}, ${name(layer, state.head)}`, (row, column) => {
    const [from, to] = [chosen.rows[row], chosen.columns[column]].map(tokenText);
    readout.textContent = t("cell", {
      row: from,
      column: to,
      weight: percent(weights[row * chosen.columns.length + column]),
    });
  });
  const grid = h("div", { class: "maps", role: "group", "aria-label": t("overview") }, maps);
  grid.style.setProperty("--heads", String(info.shape.heads));
  const shortened = info.task === "continue" && t("first_tokens", { n: chosen.rows.length });
  return [
    h("h2", {}, t("attention")),
    h("div", { class: "controls" }, h("label", {}, t("kind"), " ", select)),
    h("p", { class: "soft" }, t("overview")),
    grid,
    h("h3", {}, name(layer, state.head)),
    h("p", { class: "soft" }, t("rows"), " ", shortened),
    readout,
    h("div", { class: "scroll" }, table),
  ];
}

/**
 * A bar with a probability.
 *
 * @param {string} name
 * @param {number} probability
 * @param {boolean} chosen
 */
function bar(name, probability, chosen) {
  const filled = h("i");
  filled.style.width = `${Math.round(100 * probability)}%`;
  return h(
    "span",
    { class: chosen ? "choice chosen" : "choice" },
    filled,
    h("b", {}, name),
    ` ${percent(probability)}`,
  );
}

/**
 * @param {Answer} answer
 * @param {string[]} tokens
 */
function stepsSection(answer, tokens) {
  if (answer.labels.length > 0) {
    return [
      h("h2", {}, t("probability")),
      h(
        "div",
        { class: "labels" },
        answer.labels.map(({ label, probability }, i) => bar(label, probability, i === 0)),
      ),
    ];
  }
  const rows = answer.steps.slice(0, MOST_STEPS).map((step, i) =>
    h(
      "tr",
      {},
      h("td", {}, i + 1),
      h("th", { scope: "row" }, tokenText(tokens[step.token])),
      h(
        "td",
        { class: "choices" },
        step.candidates.map(({ token, probability }) =>
          bar(tokenText(tokens[token]), probability, token === step.token),
        ),
      ),
    ),
  );
  const heads = [t("step"), t("written"), t("candidates")].map(text => h("th", { scope: "col" }, text));
  return [
    h("h2", {}, t("steps")),
    h(
      "div",
      { class: "scroll" },
      h("table", { class: "steps" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)),
    ),
  ];
}

/** @param {PageInfo} info */
function aboutSection(info) {
  const { encoderLayers: encoder, decoderLayers: decoder, ...sizes } = info.shape;
  const facts = [
    [t("run"), info.name],
    [t("task"), title(info)],
    [t("parameters"), info.parameters.toLocaleString(state.language)],
    [
      t("model"),
      t(encoder && decoder ? "sizes" : "sizes_of_one", { encoder, decoder, layers: encoder + decoder, ...sizes }),
    ],
    [t("data"), info.data.join(", ")],
  ];
  return [
    h("h2", {}, t("about")),
    h("p", {}, t("about_text")),
    h(
      "dl",
      {},
      facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
    h("p", { class: "soft" }, t("made_with", { name: info.name })),
  ];
}

/**
 * Replace the content of an element.
 *
 * @param {HTMLElement} element
 * @param {Node[]} children
 */
function show(element, children) {
  element.replaceChildren(...children);
  element.hidden = children.length === 0;
}

/** @param {PageModel} model */
function showAnswer(model) {
  const { answer } = state,
    { info } = model;
  place("output").textContent = answer ? answer.text : "";
  place("status").textContent = state.status();
  show(place("attention"), answer ? attentionSection(answer, info) : []);
  show(place("steps"), answer ? stepsSection(answer, info.tokenizer.tokens) : []);
}

/** @param {PageModel} model */
function run(model) {
  if (!state.text.trim() && model.info.task !== "continue") {
    Object.assign(state, { answer: null, status: () => t("empty") });
  } else {
    const began = performance.now();
    try {
      const options = { beam: state.beam, temperature: Number(state.temperature) };
      const answer = model.run(state.text, options),
        ms = Math.round(performance.now() - began);
      const cut = answer.cutOff ? () => `; ${t("cut_off")}` : () => "";
      const took = () => (answer.steps.length > 0 ? t("took", { tokens: answer.steps.length, ms }) : `${ms} ms`);
      Object.assign(state, { answer, status: () => took() + cut() });
    } catch (error) {
      Object.assign(state, { answer: null, status: () => String(error) });
    }
  }
  showAnswer(model);
}

/**
 * Draw everything in the language of the reader.
 *
 * @param {PageModel} model
 */
function draw(model) {
  document.documentElement.lang = state.language;
  document.title = `${model.info.name} – ${title(model.info)}`;
  place("title").textContent = title(model.info);
  const other = state.language === "en" ? "ko" : "en";
  const language = place("language");
  language.textContent = other === "en" ? "English" : "한국어";
  language.lang = other;
  language.onclick = () => ((state.language = other), draw(model));
  show(place("form"), [form(model, () => run(model))]);
  place("output").setAttribute("aria-label", t("output"));
  show(place("about"), aboutSection(model.info));
  showAnswer(model);
}

/** Load the model and draw the page. */
async function start() {
  if (navigator.languages.find(tag => /^(en|ko)/.test(tag))?.startsWith("ko")) state.language = "ko";
  document.documentElement.lang = state.language;
  place("status").textContent = t("loading");
  try {
    const model = await PageModel.open(place("payload").textContent ?? "");
    place("payload").remove();
    state.temperature = model.info.task === "continue" ? "0.8" : "0";
    state.text = model.info.examples[0] ?? "";
    Object.assign(globalThis, { glassformerPage: model });
    draw(model);
    if (state.text) run(model);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => showAnswer(model));
  } catch (error) {
    place("status").textContent = t("failed", { reason: String(error) });
  }
}

// The export and the tests run the same script without a document.
if (typeof document === "undefined") Object.assign(globalThis, { PageModel });
else void start();
