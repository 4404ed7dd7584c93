// An error as the reader sees it: what is wrong, where, and how to fix it.

import { RequestError } from "./api.js";
import { h } from "./dom.js";
import { t, translateServerText } from "./i18n.js";

/**
 * @param {unknown} error  an error other than RequestError is a defect of the page and also goes to the console
 */
export function errorMessage(error) {
  if (!(error instanceof RequestError)) console.error(error);
  const { what, where, fix } = error instanceof RequestError ? error : { what: errorText(error), where: "", fix: "" };
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, translateServerText(what)),
    where && h("p", {}, where),
    fix && h("p", {}, `${t("fix")}: ${translateServerText(fix)}`),
  );
}

/** @param {unknown} error */
export const errorText = error => (error instanceof Error ? error.message : String(error));
