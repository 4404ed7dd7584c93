// What went wrong, told where it is seen: what, where, how to mend it.

import { h } from "./dom.js";
import { say, told } from "./i18n.js";

export function problem(error) {
  if (!error.what) console.error(error);  // ours, not a person's
  const what = error.what ?? String(error.message ?? error);
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, told(what)),
    error.where && h("p", {}, error.where), error.fix && h("p", {}, `${say("fix")}: ${told(error.fix)}`));
}
