// Two runs on the same sentence: outputs, attention, probabilities, and the summary of their logs.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { attentionAxes, headWeights } from "../attention_weights.js";
import {
  controls,
  emptyMessage,
  explanation,
  panel,
  readout,
  scrollBox,
  scrollRegion,
  withArrowKeys,
} from "../components.js";
import { h, ifLatest, labelled, refill, s, select } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { layerAndHead } from "../labels.js";
import { formatCount, formatCsv, formatExact, withHyphens } from "../numbers.js";
import { cellSize, indexOptions } from "../ranges.js";
import { dataTable, foldedMatrix, foldedTable, matrixCells } from "../table.js";
import { tableDrawing } from "../table_drawing.js";
import { tokenText } from "../tokens.js";
import { barList } from "./bars.js";

/** @import { Head } from "../attention_weights.js" */
/** @import { Address, Attention, Matrix, Option, OutputToken, RunSummary, Trace, ViewContext } from "../types.js" */
/** @typedef {Matrix & { title: string }} ShownMatrix */
/** @typedef {{ element: HTMLElement, shown: () => ShownMatrix | null }} AttentionPart  shown: what is drawn now */

const SIDES = ["a", "b"]; // in the parameters of the address
const GAP = 16;

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address, runs }) {
  if (!trace.traits.sequence_to_sequence) return place.append(emptyMessage(t("does not translate")));
  const others = runs.filter(run => run.traits.sequence_to_sequence && run.name !== trace.run);
  if (!others.length) return place.append(emptyMessage(t("one run only")));
  const chosen = others.find(run => run.name === address.other) ?? others[0];
  const result = h("div", { class: "view" });
  const draw = async (/** @type {string} */ run) => {
    const tracing = api.trace({ run, text: trace.text, target: address.target });
    const comparing = tracing.then(other => comparison([trace, other], address));
    try {
      const content = await ifLatest(result, comparing);
      if (content) refill(result, content);
    } catch (error) {
      refill(result, errorMessage(error));
    }
  };
  /** @type {Option[]} */
  const options = others.map(({ name }) => [name, name]);
  const picker = select(options, chosen.name, name => {
    replaceAddress({ other: name });
    draw(name);
  });
  place.append(
    explanation(t("compare says")),
    controls(labelled(t("compare with", { run: trace.run }), picker)),
    result,
  );
  await draw(chosen.name);
}

/**
 * @param {[Trace, Trace]} traces
 * @param {Address} address
 */
async function comparison(traces, address) {
  const [summaries, outputs, attention] = await Promise.all([
    Promise.all(traces.map(trace => api.runSummary(trace.run))),
    Promise.all(traces.map(trace => api.outputTokens(trace.id))),
    Promise.all(traces.map((trace, i) => attentionPart(trace, SIDES[i], address))),
  ]);
  // The tokenizers may split the text differently, so only the totals of the two outputs can be compared.
  const ofOther = await Promise.all(
    traces.map(async ({ run, text }, i) => {
      const other = await api.trace({ run, text, target: traces[1 - i].output });
      return logProbability(await api.outputTokens(other.id));
    }),
  );
  const sides = traces.map((trace, i) =>
    h(
      "section",
      { class: "panel side" },
      h("h2", {}, trace.run),
      explanation(summaries[i].described),
      h("p", { class: "output" }, trace.output || "–"),
      h("h3", {}, t("encoder-decoder attention")),
      attention[i].element,
    ),
  );
  return [
    h("div", { class: "two even" }, sides),
    h("div", { class: "pair" }, explanation(t("one scale")), attentionExport(traces, attention)),
    probabilityPanel(traces, outputs),
    summaryPanel(traces, summaries, outputs.map(logProbability), ofOther),
  ];
}

/** @param {OutputToken[]} tokens */
const logProbability = tokens => tokens.reduce((sum, token) => sum + token.log_probability, 0);

// ---------------------------------------------------------------- cross-attention

/**
 * The cross-attention of a run, with selects for layer and head.
 *
 * @param {Trace} trace
 * @param {string} side
 * @param {Address} address
 * @returns {Promise<AttentionPart>}
 */
async function attentionPart(trace, side, address) {
  const attention = trace.looks.cross;
  if (!attention) return { element: explanation(t("no cross")), shown: () => null };
  const { layers, heads } = attention;
  /** @type {{ layer: number, head: Head }} */
  const state = {
    layer: wholeNumber(address[`layer-${side}`], layers - 1, layers - 1),
    head: heads === 1 ? 0 : wholeNumber(address[`head-${side}`], "mean", heads - 1),
  };
  const place = h("div", {});
  /** @type {ShownMatrix | null} */
  let shown = null;
  const draw = async () => {
    replaceAddress({ [`layer-${side}`]: state.layer, [`head-${side}`]: state.head });
    const loaded = await ifLatest(place, api.tensorValues(trace.id, attention.names[state.layer]));
    if (!loaded) return;
    const weights = headWeights(loaded.numbers, heads, state.head);
    const title = `${trace.run}: ${headTitle(attention, state)}`;
    shown = { ...attentionAxes(trace, attention), numbers: weights, title };
    drawMatrix(place, shown);
  };
  await draw();
  const layerSelect = select(indexOptions(layers), state.layer, layer => {
    state.layer = Number(layer);
    draw();
  });
  const headSelect = select([["mean", t("mean of heads")], ...indexOptions(heads)], state.head, head => {
    state.head = wholeNumber(head, "mean");
    draw();
  });
  const element = h(
    "div",
    {},
    controls(
      layers > 1 && labelled(t("layer"), layerSelect),
      heads > 1 ? labelled(t("head"), headSelect) : h("span", { class: "soft" }, t("one head")),
    ),
    place,
  );
  return { element, shown: () => shown };
}

/**
 * @param {HTMLElement} place
 * @param {ShownMatrix} matrix
 */
function drawMatrix(place, matrix) {
  const { numbers, rows, columns, title } = matrix;
  const chosen = readout(t("choose a cell"));
  const map = heatmap({
    ...matrix,
    size: cellSize(330, columns.length, 12, 24),
    label: withArrowKeys(title),
    onchoose: ([r, c]) => {
      const weight = formatExact(numbers[r * columns.length + c]);
      refill(chosen, `${rows[r]} ⟶ ${columns[c]}: `, h("strong", {}, weight));
    },
  });
  refill(place, scrollBox(map), chosen, foldedMatrix(title, matrix));
}

/**
 * @param {Attention} attention
 * @param {{ layer: number, head: Head }} chosen
 */
function headTitle(attention, { layer, head }) {
  if (attention.heads === 1) return t("one head");
  return layerAndHead(layer, head);
}

/**
 * @param {Trace[]} traces
 * @param {AttentionPart[]} parts
 */
function attentionExport(traces, parts) {
  const drawing = () => {
    let [x, tallest] = [0, 40];
    const drawings = parts.flatMap(part => {
      const matrix = part.shown();
      if (!matrix) return [];
      const svg = heatmapDrawing(matrix);
      const { width, height } = svg.viewBox.baseVal;
      for (const [name, value] of Object.entries({ x, y: 0, width, height })) svg.setAttribute(name, String(value));
      x += width + GAP;
      tallest = Math.max(tallest, height);
      return [svg];
    });
    const box = {
      viewBox: `0 0 ${Math.max(x, 40)} ${tallest}`,
      role: "img",
      "aria-label": t("encoder-decoder attention"),
    };
    return s("svg", { class: "drawing", ...box }, drawings);
  };
  const rows = () => {
    const lines = parts.flatMap((part, i) => {
      const matrix = part.shown();
      return matrix ? matrixCells(matrix, formatCsv).map(cell => [traces[i].run, ...cell]) : [];
    });
    return [["run", "row", "column", "weight"], ...lines];
  };
  return exportButtons("compare-attention", { drawing, rows });
}

// ---------------------------------------------------------------- probabilities

/**
 * @param {Trace[]} traces
 * @param {OutputToken[][]} outputs
 */
function probabilityPanel(traces, outputs) {
  const title = t("probabilities title");
  const columns = [t("run"), t("step"), t("token"), t("probability"), t("log-probability")];
  const rows = traces.flatMap((trace, i) =>
    outputs[i].map(({ piece, log_probability }, step) => [
      trace.run,
      String(step),
      tokenText(piece),
      formatExact(Math.exp(log_probability)),
      formatExact(log_probability),
    ]),
  );
  const sides = traces.map((trace, i) => {
    const bars = outputs[i].map(token => ({ name: tokenText(token.piece), share: Math.exp(token.log_probability) }));
    return h("div", {}, h("h3", {}, trace.run), barList(bars));
  });
  return panel(
    h("h2", {}, title),
    explanation(t("probabilities says")),
    h("div", { class: "two even" }, sides),
    foldedTable(() => dataTable(title, columns, rows)),
    exportButtons("compare-steps", {
      drawing: () => tableDrawing(title, [columns, ...rows]),
      rows: () => [
        ["run", "step", "token", "log-probability"],
        ...traces.flatMap((trace, i) =>
          outputs[i].map((token, step) => [trace.run, step, token.piece, token.log_probability]),
        ),
      ],
    }),
  );
}

// ---------------------------------------------------------------- summary

/**
 * @param {Trace[]} traces
 * @param {RunSummary[]} summaries
 * @param {number[]} ofOwn  log-probability of the run's own output
 * @param {number[]} ofOther  log-probability of the other run's output
 */
function summaryPanel(traces, summaries, ofOwn, ofOther) {
  const title = t("numbers title");
  const sets = [...new Set(summaries.flatMap(run => Object.keys(run.scores)))];
  /** @type {(name: string, value: (run: RunSummary) => string) => string[]} */
  const line = (name, value) => [name, ...summaries.map(value)];
  /** @type {(set: string, metric: string) => (run: RunSummary) => string} */
  const score = (set, metric) => run => run.scores[set]?.[metric]?.toFixed(2) ?? "–";
  const rows = [
    line(t("weights counted"), run => formatCount(run.weights)),
    line(t("steps trained"), run => (run.steps === null ? "–" : formatCount(run.steps))),
    line(t("minutes trained"), run => (run.seconds === null ? "–" : (run.seconds / 60).toFixed(1))),
    ...sets.flatMap(set => [
      line(t("bleu on", { set: t(`set ${set}`) }), score(set, "bleu")),
      line(t("loss on", { set: t(`set ${set}`) }), score(set, "loss")),
    ]),
    [t("own output"), ...ofOwn.map(formatExact)],
    [t("other's output"), ...ofOther.map(formatExact)],
  ];
  const columns = ["", ...traces.map(trace => trace.run)];
  return h(
    "section",
    { class: "panel in-numbers" },
    h("h2", {}, title),
    explanation(t("numbers says")),
    scrollRegion(title, dataTable(title, columns, rows)),
    exportButtons("compare-numbers", {
      drawing: () => tableDrawing(title, [columns, ...rows]),
      rows: () => [columns, ...rows].map(row => row.map(withHyphens)),
    }),
  );
}
