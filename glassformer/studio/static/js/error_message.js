// An error as the reader sees it: what is wrong, where, and a hint.

import { RequestError } from "./api.js";
import { h } from "./dom.js";
import { t, translate } from "./i18n.js";

/**
 * @param {unknown} error  an error other than RequestError is a defect of the page and also goes to the console
 */
export function errorMessage(error) {
  if (!(error instanceof RequestError)) console.error(error);
  const { where, hint } =
    error instanceof RequestError
      ? { where: error.where, hint: translate(error.messages.hint) }
      : { where: "", hint: "" };
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, errorText(error)),
    where && h("p", {}, where),
    hint && h("p", {}, `${t("hint")}: ${hint}`),
  );
}

/**
 * What is wrong, in the language of the page.
 *
 * @param {unknown} error
 */
export function errorText(error) {
  if (error instanceof RequestError) return translate(error.messages.what);
  return error instanceof Error ? error.message : String(error);
}
