// A slider with its value beside it. `set` moves it without telling anybody.

import { h } from "../dom.js";
import { say } from "../i18n.js";

export function range(name, min, max, step, value, onchange, told = String) {
  const output = h("output", {}, told(value));
  const input = h("input", { type: "range", min, max, step, value, oninput: () => {
    output.textContent = told(Number(input.value));
    onchange(Number(input.value));
  } });
  const set = chosen => {
    input.value = chosen;
    output.textContent = told(chosen);
  };
  return Object.assign(h("label", { class: "range" }, say(name), input, output), { set });
}
