// What went wrong, told where it is seen: what, where, how to mend it.

import { h } from "./dom.js";
import { say, translate } from "./i18n.js";

export function problem(error) {
  if (!error.what) console.error(error);  // ours, not a person's
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, textOf(error)),
    error.where && h("p", {}, error.where), error.fix && h("p", {}, `${say("fix")}: ${textOf(error, "fix")}`));
}

/** One part of an error in the language of the page: `what` is wrong, or the `fix`. */
export function textOf(error, part = "what") {
  return error.messages ? translate(error.messages[part]) : say(error[part] ?? String(error.message ?? error));
}
