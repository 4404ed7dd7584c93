// A slider with its value next to it.

import { h } from "../dom.js";
import { t } from "../i18n.js";

/**
 * @param {{ label: string, min?: number, max: number, step?: number, value: number, onchange: (value: number) => void,
 *   format?: (value: number) => string }} options  label: key of a message
 * @returns {HTMLElement & { set: (value: number) => void }}  `set` moves the slider without calling `onchange`
 */
export function slider({ label, min = 0, max, step = 1, value, onchange, format = String }) {
  const output = h("output", {}, format(value));
  const input = h("input", { type: "range", min, max, step, value });
  input.addEventListener("input", () => {
    output.textContent = format(Number(input.value));
    onchange(Number(input.value));
  });
  const set = /** @param {number} chosen */ chosen => {
    input.value = String(chosen);
    output.textContent = format(chosen);
  };
  return Object.assign(h("label", { class: "range" }, t(label), input, output), { set });
}
