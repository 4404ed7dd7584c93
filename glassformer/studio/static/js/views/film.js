// One sentence through the checkpoints of a run: where each looked, and what it made of the sentence.

import { note, whole } from "../address.js";
import * as api from "../api.js";
import { choice, h, labelled, refill, select } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap } from "../heatmap.js";
import { say } from "../i18n.js";
import { exact, plain } from "../numbers.js";
import { problem } from "../problem.js";
import { tableOf, twin } from "../table.js";

const PAUSE = 900;  // milliseconds a frame
const FIRST = ["cross", "encoder", "question", "decoder"];
const upTo = n => Array.from({ length: n }, (_, i) => [i, String(i)]);

/** `update(log)` is told of checkpoints as they come, `stop()` that the view goes. */
export function filmPanel(trace, address) {
  const inner = h("div", {}), element = h("section", { class: "panel film" }, h("h2", {}, say("film title")), inner);
  const kinds = trace ? FIRST.filter(kind => kind in trace.looks) : [];
  const says = text => ({ element, stop: () => {}, update: async () => refill(inner, h("p", { class: "soft" }, text)) });
  if (!trace) return says(say("film no trace"));
  if (!trace.text) return says(say("film no text"));
  const kind = kinds.includes(address.kind) ? address.kind : kinds[0];
  const state = { kind, layer: whole(address.layer, (trace.looks[kind]?.layers ?? 1) - 1), head: whole(address.head, 0),
    step: whole(address.step, null), checkpoints: [], samples: new Map() };
  const view = new FilmView(trace, state, kinds);
  return { element, stop: () => view.stop(), update: async log => {
    if (!log.checkpoints.length) return refill(inner, h("p", { class: "soft" }, say("film no checkpoints")));
    const known = JSON.stringify(state.checkpoints);
    if (known === JSON.stringify(log.checkpoints)) return;
    state.checkpoints = log.checkpoints;
    if (!view.place.isConnected) refill(inner, view.place);
    await view.refresh();
    view.sample();  // goes on by itself, a checkpoint after the other
  } };
}

class FilmView {
  constructor(trace, state, kinds) {
    Object.assign(this, { trace, state, kinds, playing: null, gone: false });
    this.slider = h("input", { type: "range", min: 0, "aria-label": say("checkpoint"), oninput: event => this.at(Number(event.target.value)) });
    this.play = h("button", { type: "button", onclick: () => this.toggle() }, say("play"));
    this.controls = h("div", { class: "controls" });
    this.now = h("div", { "aria-live": "polite" });
    this.map = h("div", {});
    this.samples = h("div", {});
    this.place = h("div", {}, h("p", { class: "soft" }, say(trace.task === "translation" ? "film says" : "film says alone")),
      h("div", { class: "controls" },
        h("button", { type: "button", onclick: () => this.at(this.index - 1) }, say("back")), this.play,
        h("button", { type: "button", onclick: () => this.at(this.index + 1) }, say("step")), this.slider),
      this.controls, h("div", { class: "two" }, h("div", {}, this.now, this.map), this.samples));
    this.fillControls();
  }

  get index() {
    const found = this.state.checkpoints.findIndex(one => one.step === this.state.step);
    return found < 0 ? this.state.checkpoints.length - 1 : found;
  }

  /** What the server is asked of a checkpoint. Translations all read one target, so that rows mean the same in every frame. */
  asked({ step, written }) {
    const { trace } = this;
    return { run: trace.run, step, written, text: trace.text, ...(trace.task === "translation" ? { target: trace.output } : {}),
      ...(trace.question ? { question: trace.question } : {}) };
  }

  fillControls() {
    const { trace, state, kinds } = this;
    if (!kinds.length) return;
    const look = trace.looks[state.kind], redraw = changes => { Object.assign(state, changes); this.fillControls(); this.draw(); };
    state.layer = Math.min(state.layer, look.layers - 1);
    state.head = Math.min(state.head, look.heads - 1);
    refill(this.controls, choice(say("attention of"), kinds.map(name => [name, say(`kind ${name}`)]), state.kind,
      kind => redraw({ kind, layer: trace.looks[kind].layers - 1 })),
      labelled(say("layer"), select(upTo(look.layers), state.layer, layer => redraw({ layer: Number(layer) }))),
      labelled(say("head"), select(upTo(look.heads), state.head, head => redraw({ head: Number(head) }))));
  }

  async refresh() {
    this.slider.max = this.state.checkpoints.length - 1;
    await this.draw();
  }

  async at(index) {
    const { checkpoints } = this.state;
    this.state.step = checkpoints[Math.max(0, Math.min(checkpoints.length - 1, index))].step;
    await this.draw();
  }

  toggle() {
    if (this.playing) return this.pause();
    if (this.index === this.state.checkpoints.length - 1) this.at(0);
    this.play.textContent = say("pause");
    this.playing = setInterval(() => {
      this.at(this.index + 1);
      if (this.index === this.state.checkpoints.length - 1) this.pause();
    }, PAUSE);
  }

  pause() {
    clearInterval(this.playing);
    this.playing = null;
    this.play.textContent = say("play");
  }

  stop() {
    this.gone = true;
    this.pause();
  }

  async draw() {
    const { state, trace, kinds } = this, mine = this.drawing = {}, index = this.index, checkpoint = state.checkpoints[index];
    this.slider.value = index;
    this.slider.setAttribute("aria-valuetext", `${say("step")} ${checkpoint.step}`);
    if (this.place.isConnected) note({ step: checkpoint.step, kind: state.kind, layer: state.layer, head: state.head });
    try {
      const asked = this.asked(checkpoint), frame = await api.frame(asked);
      const name = frame.looks[state.kind]?.names[state.layer];
      const numbers = kinds.length ? await api.frameWeights({ ...asked, name, head: state.head }) : null;
      if (mine !== this.drawing || this.gone) return;
      refill(this.now, h("h3", {}, `${say("step")} ${checkpoint.step.toLocaleString("en")}`),
        h("p", { class: "output" }, frame.output || "–"));
      refill(this.map, ...(numbers ? this.drawn(frame, numbers, checkpoint.step) : [h("p", { class: "soft" }, say("no attention"))]));
    } catch (error) {
      if (mine === this.drawing) refill(this.now, problem(error));
    }
  }

  drawn(frame, numbers, step) {
    const { state, trace } = this, look = frame.looks[state.kind];
    const columns = frame[look.columns].map(plain), read = frame[look.rows];
    const rows = look.rows === "source" ? read.map(plain) : read.map((piece, i) => `${plain(piece)} → ${plain(frame.predicted[i])}`);
    const title = `${say("step")} ${step}, ${say(`kind ${state.kind}`)}, ${say("layer and head", state)}`;
    const said = h("p", { class: "readout", "aria-live": "polite" }, say("choose a cell"));
    const size = Math.max(12, Math.min(24, Math.floor(420 / columns.length)));
    return [h("div", { class: "scroll" }, heatmap({ numbers, rows, columns, size, label: `${title}. ${say("arrow keys")}`, onchoose: ([r, c]) =>
      refill(said, `${rows[r]} ⟶ ${columns[c]}: `, h("strong", {}, exact(numbers[r * columns.length + c]))) })), said,
      twin(() => tableOf(title, ["", ...columns], rows.map((name, r) => [name, ...columns.map((_, c) => exact(numbers[r * columns.length + c]))]))),
      exports(`film-${trace.run}-${step}`, { drawing: () => drawnMap({ numbers, rows, columns, title }),
        rows: () => [["step", "row", "column", "weight"], ...rows.flatMap((row, r) => columns.map((column, c) =>
          [step, row, column, exact(numbers[r * columns.length + c]).replace("−", "-")]))] })];
  }

  /** What every checkpoint makes of the sentence, in a table that grows. */
  async sample() {
    const { state } = this, heads = [say("step"), say("answer"), ...(this.trace.task === "translation" ? [say("of the target")] : [])];
    const mine = this.sampling = {};
    const rows = [];
    for (const checkpoint of state.checkpoints) {
      const frame = await api.frame(this.asked(checkpoint)).catch(() => null);
      if (this.gone || mine !== this.sampling) return;
      if (frame) rows.push([String(checkpoint.step), frame.output || "–", ...(heads.length > 2 ? [exact(frame.log_probability)] : [])]);
      refill(this.samples, h("h3", {}, say("samples title")),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("samples title") }, tableOf(say("samples says"), heads, rows)));
    }
  }
}
