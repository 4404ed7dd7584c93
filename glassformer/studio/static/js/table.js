// Every picture has a twin in words and numbers, for screen readers and for whoever wants to read it.

import { h } from "./dom.js";
import { say } from "./i18n.js";

/** `tableOf("caption", ["a", "b"], [["1", "2"]])`; the first cell of a row names it. */
export function tableOf(caption, columns, rows) {
  return h("table", { class: "numbers" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map(column => h("th", { scope: "col" }, column)))),
    h("tbody", {}, rows.map(([name, ...cells]) =>
      h("tr", {}, h("th", { scope: "row" }, name), cells.map(cell => h("td", {}, cell))))));
}

/** A table that is built when it is opened. */
export function twin(build, label = say("as a table")) {
  const details = h("details", { class: "twin" }, h("summary", {}, label));
  details.addEventListener("toggle", async () => {
    if (!details.open || details.dataset.built) return;
    details.dataset.built = "yes";
    details.append(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, await build()));
  });
  return details;
}
