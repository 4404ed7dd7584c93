// An error as the reader sees it: what is wrong, where, and how to fix it.

import { RequestError } from "./api.js";
import { h } from "./dom.js";
import { t, translate } from "./i18n.js";

/**
 * @param {unknown} error  an error other than RequestError is a defect of the page and also goes to the console
 */
export function errorMessage(error) {
  if (!(error instanceof RequestError)) console.error(error);
  const { where, fix } =
    error instanceof RequestError ? { where: error.where, fix: translate(error.messages.fix) } : { where: "", fix: "" };
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, errorText(error)),
    where && h("p", {}, where),
    fix && h("p", {}, `${t("fix")}: ${fix}`),
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
