// Interventions: something inside the model is changed, and the output is compared with the output without the change.

import { replaceAddress } from "../address.js";
import * as api from "../api.js";
import { controls, emptyMessage, explanation, panel, readout, scrollBox, withArrowKeys } from "../components.js";
import { choice, h, ifLatest, refill } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { headLabel, layerAndHead, layerLabel } from "../labels.js";
import { formatExact } from "../numbers.js";
import { cellSize, range } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { withoutLastPart } from "../tensor_names.js";
import { largestMagnitude } from "../vectors.js";
import { effectOf } from "./intervention_effect.js";
import { describeChange, interventionForm } from "./intervention_form.js";

/** @import { HeadAblation, InterventionRequest, Trace, ViewContext } from "../types.js" */
/** @import { TokenNames } from "./intervention_form.js" */

const KINDS = ["encoder", "cross", "decoder"];
const WAIT = 200; // milliseconds: moving over the grid by arrow keys must not compute every head on the way

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  if (!trace.traits.sequence_to_sequence) return place.append(emptyMessage(t("does not translate")));
  const request = { run: trace.run, text: trace.text, target: address.target };
  let changes = (address.changes ?? "").split(";").filter(Boolean);
  const list = h("div", { class: "changes" });
  const result = h("section", { class: "panel", "aria-live": "polite" });
  const grid = panel();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  const drawEffect = async () => {
    const content = await ifLatest(result, effectOf(request, changes));
    if (content) refill(result, content);
  };
  const setChanges = (/** @type {string[]} */ chosen, wait = 0) => {
    changes = chosen;
    replaceAddress({ changes: changes.join(";") });
    refill(list, changeList(changes, tokenNames, setChanges));
    clearTimeout(waiting);
    waiting = setTimeout(drawEffect, wait);
  };
  const { form, tokenNames } = await interventionForm(trace, change =>
    setChanges([...changes.filter(other => other !== change), change]),
  );
  refill(list, changeList(changes, tokenNames, setChanges));
  place.append(
    h("div", { class: "two" }, panel(h("h2", {}, t("change title")), explanation(t("change says")), form, list), grid),
    result,
  );
  await Promise.all([drawEffect(), headGrid(grid, trace, request, address.grid, change => setChanges([change], WAIT))]);
  return () => clearTimeout(waiting);
}

/**
 * The current interventions, each with a button that removes it.
 *
 * @param {string[]} changes
 * @param {TokenNames} tokenNames
 * @param {(changes: string[]) => void} setChanges
 */
function changeList(changes, tokenNames, setChanges) {
  if (!changes.length) return explanation(t("no changes"));
  const items = changes.map(change => {
    const description = describeChange(change, tokenNames);
    const remove = () => setChanges(changes.filter(other => other !== change));
    const label = t("remove change", { change: description });
    const button = h("button", { type: "button", class: "quiet", "aria-label": label, onclick: remove }, "✕");
    return h("li", {}, description, " ", button);
  });
  const removeAll = () => setChanges([]);
  return [
    h("h3", {}, t("changes now")),
    h("ul", { class: "chips acting" }, items),
    changes.length > 1 && h("button", { type: "button", class: "quiet", onclick: removeAll }, t("remove all changes")),
  ];
}

// ---------------------------------------------------------------- every head in turn

/**
 * The kinds of attention whose heads are in layers. The attention of a recurrent model has one head and no layers.
 *
 * @param {Trace} trace
 */
const layeredKinds = trace => KINDS.filter(kind => /\.\d+\./.test(trace.looks[kind]?.names[0] ?? ""));

/**
 * Draw the change in log-probability when each head is ablated.
 *
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {InterventionRequest} request
 * @param {string | undefined} wanted  the kind of attention of the address
 * @param {(change: string) => void} onchoose
 */
async function headGrid(place, trace, request, wanted, onchoose) {
  const kinds = layeredKinds(trace);
  const title = h("h2", {}, t("grid title"));
  if (!kinds.length) return refill(place, title, explanation(t("no grid")));
  const first = kinds.find(kind => kind === wanted) ?? kinds[0];
  const content = h("div", {});
  const draw = async (/** @type {string} */ kind) => {
    replaceAddress({ grid: kind });
    try {
      const ablation = await ifLatest(content, api.headAblation({ ...request, kind }));
      if (ablation) refill(content, drawAblation(trace, ablation, onchoose));
    } catch (error) {
      refill(content, errorMessage(error));
    }
  };
  const kindChoice = choice(
    t("attention of"),
    kinds.map(kind => [kind, t(`kind ${kind}`)]),
    first,
    draw,
  );
  refill(place, title, explanation(t("grid says")), controls(kindChoice), content);
  await draw(first);
}

/**
 * @param {Trace} trace
 * @param {HeadAblation} ablation
 * @param {(change: string) => void} onchoose
 */
function drawAblation(trace, { kind, change, log_probability }, onchoose) {
  const heads = Math.max(...change.map(layer => layer.length));
  const rows = change.map((_, layer) => layerLabel(layer));
  const columns = range(heads).map(headLabel);
  const numbers = Float64Array.from(change.flat());
  const colours = { hue: "--plus", most: largestMagnitude(numbers) };
  const title = `${t("grid title")}, ${t(`kind ${kind}`)}`;
  const chosen = readout(t("choose a head"));
  const map = heatmap({
    numbers,
    rows,
    columns,
    ...colours,
    size: cellSize(400, heads, 28, 56),
    label: withArrowKeys(title),
    onchoose: ([layer, head]) => {
      const value = h("strong", {}, formatExact(change[layer][head]));
      refill(chosen, `${layerAndHead(layer, head)}: `, value);
      onchoose(`silence=${withoutLastPart(trace.looks[kind].names[layer])}.${head}`);
    },
  });
  return [
    scrollBox(map),
    chosen,
    explanation(`${t("grid colours")} ${t("with every head", { x: formatExact(log_probability) })}`),
    foldedTable(() =>
      dataTable(
        title,
        ["", ...columns],
        rows.map((name, r) => [name, ...change[r].map(formatExact)]),
      ),
    ),
    exportButtons(`heads-${kind}`, {
      drawing: () => heatmapDrawing({ numbers, rows, columns, ...colours, title }),
      rows: () => [
        ["layer", "head", "change in log-probability"],
        ...change.flatMap((layer, l) => layer.map((x, head) => [l, head, x])),
      ],
    }),
  ];
}
