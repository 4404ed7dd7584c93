// Back, play and step buttons with a slider, for a sequence of steps.

import { controls } from "../components.js";
import { h } from "../dom.js";
import { t } from "../i18n.js";

const STEP_DURATION = 900; // milliseconds, unless a view needs more time

/** Controls of a sequence of steps. They only call `onmove`; `show` is what moves them. */
export class Player {
  index = 0;
  count = 1;
  /** @type {ReturnType<typeof setInterval> | null} */
  timer = null;

  /**
   * @param {string} label  of the slider
   * @param {(index: number) => void} onmove  called with the wanted index, which may be out of range
   * @param {number} [duration]  of a step
   */
  constructor(label, onmove, duration = STEP_DURATION) {
    this.onmove = onmove;
    this.duration = duration;
    this.slider = h("input", { type: "range", min: 0, value: 0, "aria-label": label });
    this.slider.addEventListener("input", () => onmove(Number(this.slider.value)));
    this.button = h("button", { type: "button", onclick: () => this.toggle() }, t("play"));
    this.element = controls(
      h("button", { type: "button", onclick: () => onmove(this.index - 1) }, t("back")),
      this.button,
      h("button", { type: "button", onclick: () => onmove(this.index + 1) }, t("next step")),
      this.slider,
    );
  }

  /** @param {number} count */
  setCount(count) {
    this.count = count;
    this.slider.max = String(count - 1);
  }

  /**
   * @param {number} index
   * @param {string} [description]  of the step, for screen readers
   */
  show(index, description) {
    this.index = index;
    this.slider.value = String(index);
    if (description) this.slider.setAttribute("aria-valuetext", description);
  }

  get atEnd() {
    return this.index === this.count - 1;
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    if (this.atEnd) this.onmove(0);
    this.button.textContent = t("pause");
    this.timer = setInterval(() => {
      this.onmove(this.index + 1);
      if (this.atEnd) this.pause();
    }, this.duration);
  }

  pause() {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = t("play");
  }
}
