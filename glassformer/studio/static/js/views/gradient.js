// The backward pass of one training step: the loss, the gradient of every block, through one head, and along time.

import { linkToView, navigate, readAddress, replaceAddress } from "../address.js";
import * as api from "../api.js";
import { emptyMessage, explanation, panel } from "../components.js";
import { choice, h, ifLatest, refill } from "../dom.js";
import { exportButtons } from "../export.js";
import { t } from "../i18n.js";
import { blockPlace } from "../labels.js";
import { formatExact, formatShort } from "../numbers.js";
import { dataTable, foldedTable } from "../table.js";
import { tokenText } from "../tokens.js";
import { norm as length, row } from "../vectors.js";
import { barDrawing, barList } from "./bars.js";
import { gradientOverTime } from "./gradient_over_time.js";
import { hasHeads, headGradients } from "./head_gradients.js";

/** @import { BackwardPass, Block, Child, ParameterGradient, Run, Trace, ViewContext } from "../types.js" */

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, context) {
  const { trace, address, runs } = context;
  if (!trace.tensors.logits || trace.traits.output === "span") return place.append(emptyMessage(t("no loss")));
  const pass = await api.backwardPass(trace.id);
  const isTranslation = trace.traits.sequence_to_sequence;
  const parts = ["loss", hasHeads(trace, pass) && "head", isTranslation && "time"].filter(part => part !== false);
  const content = h("div", { class: "stack" });
  /** @type {Record<string, () => Child | Promise<Child>>} */
  const drawPart = {
    loss: () => lossAndBlocks(trace, pass),
    head: () => headGradients(trace, pass, address),
    time: () =>
      gradientOverTime(
        trace,
        runs.filter(isTranslator).map(run => run.name),
      ),
  };
  const redraw = async (/** @type {string} */ part) => {
    replaceAddress({ part });
    const drawn = await ifLatest(content, drawPart[part]());
    if (drawn) refill(content, drawn);
  };
  const part = parts.find(name => name === address.part) ?? parts[0];
  place.append(
    h(
      "div",
      { class: "controls tight" },
      choice(
        t("part"),
        parts.map(name => [name, t(`gradient part ${name}`)]),
        part,
        redraw,
      ),
    ),
    content,
  );
  await redraw(part);
}

/** @param {Run} run */
const isTranslator = run => run.traits.sequence_to_sequence;

/**
 * @param {Trace} trace
 * @param {BackwardPass} pass
 */
const lossAndBlocks = async (trace, pass) => [
  h("div", { class: "two even" }, lossPanel(trace, pass), await tokensPanel(trace, pass)),
  blocksPanel(trace, pass),
];

/**
 * The loss of each token; the target of a translation can be changed.
 *
 * @param {Trace} trace
 * @param {BackwardPass} pass
 */
function lossPanel(trace, { loss, losses, targets }) {
  const rows = targets.flatMap((target, i) => (target === null ? [] : [{ target, loss: losses[i] ?? 0 }]));
  const most = Math.max(...rows.map(one => one.loss), 1e-9);
  const bars = rows.map(one => ({
    name: tokenText(one.target),
    share: one.loss / most,
    number: formatShort(one.loss),
  }));
  const title = t("loss of tokens");
  return panel(
    h("h2", {}, t("loss title", { x: formatExact(loss) })),
    explanation(t(trace.target.length ? "loss says" : "loss of labels says")),
    trace.traits.sequence_to_sequence && targetForm(trace),
    barList(bars, "loss"),
    exportButtons("loss", {
      drawing: () => barDrawing(title, bars),
      rows: () => [["token", "loss"], ...rows.map(one => [one.target, one.loss])],
    }),
  );
}

/** @param {Trace} trace */
function targetForm(trace) {
  const input = h("input", {
    name: "target",
    value: readAddress().target ?? trace.output,
    autocomplete: "off",
    spellcheck: "false",
    "aria-label": t("target"),
  });
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    navigate(linkToView("gradient", { target: input.value.trim() || null, part: "loss" }));
  };
  return h("form", { class: "line", onsubmit: submit }, input, h("button", { type: "submit" }, t("use target")));
}

/**
 * The norm of the gradient at the embedding of each input token.
 *
 * @param {Trace} trace
 * @param {BackwardPass} pass
 */
async function tokensPanel(trace, pass) {
  const sides = ["encoder", "decoder"].filter(side => pass.tensors[`gradient.${side}.embedding`]);
  const parts = await Promise.all(
    sides.map(async side => {
      const { numbers, shape } = await api.tensorValues(pass.id, `gradient.${side}.embedding`);
      const tokens = side === "encoder" ? trace.source : trace.target;
      return tokens.map((token, i) => ({ side, token: tokenText(token), norm: length(row(numbers, shape[1], i)) }));
    }),
  );
  const most = Math.max(...parts.flat().map(({ norm }) => norm), 1e-30);
  return panel(
    h("h2", {}, t("gradient of tokens")),
    explanation(t("gradient of tokens says")),
    parts.map((tokens, i) => [
      sides.length > 1 && h("h3", {}, t(`side ${sides[i]}`)),
      barList(
        tokens.map(({ token, norm }) => ({ name: token, share: norm / most, number: formatShort(norm) })),
        "gradient",
      ),
    ]),
  );
}

/**
 * The gradients of the parameters that a block reads, each once.
 *
 * @param {Block} block
 * @param {BackwardPass} pass
 */
function parametersOf(block, { parameters }) {
  /** @type {Map<string, ParameterGradient>} */
  const found = new Map();
  for (const one of parameters) if (block.tensors.includes(one.tensor)) found.set(`${one.name} ${one.rows}`, one);
  return [...found.values()];
}

/**
 * The gradient norm of each block, in the order of the backward pass.
 *
 * @param {Trace} trace
 * @param {BackwardPass} pass
 */
function blocksPanel(trace, pass) {
  const blocks = trace.figure.blocks
    .map(block => ({ block, parameters: parametersOf(block, pass) }))
    .filter(({ parameters }) => parameters.length > 0)
    .reverse()
    .map(({ block, parameters }) => ({
      name: [t(`block ${block.kind}`), blockPlace(block)].filter(Boolean).join(" · "),
      parameters,
      norm: Math.hypot(...parameters.map(({ norm }) => norm)),
    }));
  const most = Math.max(...blocks.map(({ norm }) => norm), 1e-30);
  const bars = blocks.map(({ name, norm }) => ({ name, share: norm / most, number: formatShort(norm) }));
  const title = t("gradient of blocks");
  const columns = [t("parameter"), t("matrices"), t("shape"), t("gradient norm")];
  const lines = blocks.flatMap(({ name, parameters }) =>
    parameters.map(one => [name, parameterName(one), one.shape.join(" × "), formatExact(one.norm)]),
  );
  return panel(
    h("h2", {}, title),
    explanation(t("gradient of blocks says", { x: formatShort(pass.norm) })),
    h("div", { class: "wide-names" }, barList(bars, "gradient")),
    foldedTable(() => dataTable(title, [t("block"), ...columns.slice(1)], lines), t("every parameter")),
    exportButtons("gradient-norms", {
      drawing: () => barDrawing(title, bars),
      rows: () => [["block", "parameter", "shape", "norm"], ...lines],
    }),
  );
}

/** @param {ParameterGradient} parameter */
const parameterName = ({ name, rows }) => (rows ? `${name}[${rows[0]}:${rows[1]}]` : name);
