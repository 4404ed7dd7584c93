// One sentence at every checkpoint of a run: the attention weights and the output of each.

import { replaceAddress, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { attentionAxes } from "../attention_weights.js";
import { controls, explanation, readout, scrollBox, scrollRegion, withArrowKeys } from "../components.js";
import { choice, h, labelled, refill, select } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { heatmap } from "../heatmap.js";
import { heatmapDrawing } from "../heatmap_drawing.js";
import { t } from "../i18n.js";
import { layerAndHead } from "../labels.js";
import { formatCount, formatCsv, formatExact } from "../numbers.js";
import { cellSize, clamp, indexOptions } from "../ranges.js";
import { dataTable, foldedMatrix, matrixCells } from "../table.js";
import { Player } from "./player.js";

/** @import { Address, Checkpoint, CheckpointRequest, CheckpointTrace, Trace } from "../types.js" */
/** @typedef {{ kind: string, layer: number, head: number, step: number | null }} State */
/**
 * @typedef {object} CheckpointsPanel
 * @property {HTMLElement} element
 * @property {(checkpoints: Checkpoint[]) => Promise<void>} update  show the checkpoints that exist now
 * @property {() => void} stop
 */

const KINDS = ["cross", "encoder", "question", "decoder"];

/**
 * @param {Trace | null} trace
 * @param {Address} address
 * @returns {CheckpointsPanel}
 */
export function checkpointsPanel(trace, address) {
  const content = h("div", {});
  const element = h("section", { class: "panel checkpoints" }, h("h2", {}, t("checkpoints title")), content);
  const showText = async (/** @type {string} */ text) => refill(content, explanation(text));
  if (!trace?.text) {
    const reason = t(trace ? "checkpoints no text" : "checkpoints no trace");
    return { element, update: () => showText(reason), stop: () => {} };
  }
  const view = new CheckpointsView(trace, address);
  const update = async (/** @type {Checkpoint[]} */ checkpoints) => {
    if (!checkpoints.length) return showText(t("checkpoints none"));
    if (JSON.stringify(checkpoints) === JSON.stringify(view.checkpoints)) return;
    if (!view.element.isConnected) refill(content, view.element);
    await view.setCheckpoints(checkpoints);
  };
  return { element, update, stop: () => view.stop() };
}

class CheckpointsView {
  /** @type {Checkpoint[]} */
  checkpoints = [];
  stopped = false;
  drawing = 0; // number of the latest drawing: an earlier one that is still waiting for the server is discarded
  listing = 0; // the same for the table of outputs

  /**
   * @param {Trace} trace
   * @param {Address} address
   */
  constructor(trace, address) {
    this.trace = trace;
    this.translates = trace.traits.sequence_to_sequence;
    this.kinds = KINDS.filter(kind => kind in trace.looks);
    const kind = this.kinds.find(name => name === address.kind) ?? this.kinds[0];
    /** @type {State} */
    this.state = {
      kind,
      layer: wholeNumber(address.layer, (trace.looks[kind]?.layers ?? 1) - 1),
      head: wholeNumber(address.head, 0),
      step: wholeNumber(address.step, null),
    };
    this.player = new Player(t("checkpoint"), index => this.showCheckpoint(index));
    this.headControls = controls();
    this.output = h("div", { "aria-live": "polite" });
    this.weights = h("div", {});
    this.outputs = h("div", {});
    this.element = h(
      "div",
      {},
      explanation(t(this.translates ? "checkpoints says" : "checkpoints says alone")),
      this.player.element,
      this.headControls,
      h("div", { class: "two" }, h("div", {}, this.output, this.weights), this.outputs),
    );
    this.drawHeadControls();
  }

  get index() {
    const index = this.checkpoints.findIndex(({ step }) => step === this.state.step);
    return index < 0 ? this.checkpoints.length - 1 : index;
  }

  /** @param {Checkpoint[]} checkpoints */
  async setCheckpoints(checkpoints) {
    this.checkpoints = checkpoints;
    this.player.setCount(checkpoints.length);
    await this.draw();
    this.listOutputs(); // not awaited: the table grows while the page can be used
  }

  /** @param {number} index */
  async showCheckpoint(index) {
    this.state.step = this.checkpoints[clamp(index, 0, this.checkpoints.length - 1)].step;
    await this.draw();
  }

  stop() {
    this.stopped = true;
    this.player.pause();
  }

  /**
   * The request for a checkpoint. All checkpoints of a translator read the same target, so that the rows of their
   * attention weights can be compared.
   *
   * @param {Checkpoint} checkpoint
   * @returns {CheckpointRequest}
   */
  request({ step, written }) {
    const { run, text, output, question } = this.trace;
    return {
      run,
      step,
      written,
      text,
      ...(this.translates ? { target: output } : {}),
      ...(question ? { question } : {}),
    };
  }

  drawHeadControls() {
    const { trace, state, kinds } = this;
    if (!kinds.length) return;
    const { layers, heads } = trace.looks[state.kind];
    state.layer = Math.min(state.layer, layers - 1);
    state.head = Math.min(state.head, heads - 1);
    /** @param {Partial<State>} changes */
    const change = changes => {
      Object.assign(state, changes);
      this.drawHeadControls();
      this.draw();
    };
    refill(
      this.headControls,
      choice(
        t("attention of"),
        kinds.map(kind => [kind, t(`kind ${kind}`)]),
        state.kind,
        kind => change({ kind, layer: trace.looks[kind].layers - 1 }),
      ),
      labelled(
        t("layer"),
        select(indexOptions(layers), state.layer, layer => change({ layer: Number(layer) })),
      ),
      labelled(
        t("head"),
        select(indexOptions(heads), state.head, head => change({ head: Number(head) })),
      ),
    );
  }

  async draw() {
    const mine = ++this.drawing;
    const { kind, layer, head } = this.state;
    const checkpoint = this.checkpoints[this.index];
    const { step } = checkpoint;
    this.player.show(this.index, `${t("step")} ${step}`);
    if (this.element.isConnected) replaceAddress({ step, kind, layer, head });
    try {
      const request = this.request(checkpoint);
      const trace = await api.checkpointTrace(request);
      const name = trace.looks[kind]?.names[layer];
      const weights = name ? await api.checkpointWeights({ ...request, name, head }) : null;
      if (mine !== this.drawing || this.stopped) return;
      refill(
        this.output,
        h("h3", {}, `${t("step")} ${formatCount(step)}`),
        h("p", { class: "output" }, trace.output || "–"),
      );
      refill(this.weights, weights ? this.drawWeights(trace, weights.numbers) : explanation(t("no attention")));
    } catch (error) {
      if (mine === this.drawing) refill(this.output, errorMessage(error));
    }
  }

  /**
   * @param {CheckpointTrace} trace
   * @param {Float32Array} numbers
   */
  drawWeights(trace, numbers) {
    const { kind, layer, head } = this.state;
    const matrix = { numbers, ...attentionAxes(trace, trace.looks[kind]) };
    const { rows, columns } = matrix;
    const title = `${t("step")} ${trace.step}, ${t(`kind ${kind}`)}, ${layerAndHead(layer, head)}`;
    const chosen = readout(t("choose a cell"));
    const map = heatmap({
      ...matrix,
      size: cellSize(420, columns.length, 12, 24),
      label: withArrowKeys(title),
      onchoose: ([r, c]) => {
        const weight = formatExact(numbers[r * columns.length + c]);
        refill(chosen, `${rows[r]} ⟶ ${columns[c]}: `, h("strong", {}, weight));
      },
    });
    return [
      scrollBox(map),
      chosen,
      foldedMatrix(title, matrix),
      exportButtons(`checkpoint-${this.trace.run}-${trace.step}`, {
        drawing: () => heatmapDrawing({ ...matrix, title }),
        rows: () => [
          ["step", "row", "column", "weight"],
          ...matrixCells(matrix, formatCsv).map(cell => [trace.step, ...cell]),
        ],
      }),
    ];
  }

  /** List the output of every checkpoint, one after the other. */
  async listOutputs() {
    const mine = ++this.listing;
    const columns = [t("step"), t("output of checkpoint"), ...(this.translates ? [t("of the target")] : [])];
    const rows = [];
    for (const checkpoint of this.checkpoints) {
      const trace = await this.traceIfKept(checkpoint);
      if (this.stopped || mine !== this.listing) return;
      if (trace) {
        const score = this.translates ? [formatExact(trace.log_probability)] : [];
        rows.push([String(trace.step), trace.output || "–", ...score]);
      }
      const table = scrollRegion(t("samples title"), dataTable(t("samples says"), columns, rows));
      refill(this.outputs, h("h3", {}, t("samples title")), table);
    }
  }

  /**
   * @param {Checkpoint} checkpoint
   * @returns {Promise<CheckpointTrace | null>}
   */
  async traceIfKept(checkpoint) {
    try {
      return await api.checkpointTrace(this.request(checkpoint));
    } catch (error) {
      // Training deletes old checkpoints, also between listing and reading them.
      if (error instanceof api.RequestError) return null;
      throw error;
    }
  }
}
