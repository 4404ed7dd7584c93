// Code with a copy button.

import { copyButton } from "../copying.js";
import { h } from "../dom.js";
import { t } from "../i18n.js";

/**
 * @param {string} title
 * @param {string} code
 */
export const codeBox = (title, code) =>
  h(
    "div",
    { class: "code" },
    h(
      "div",
      { class: "code-title" },
      h("span", {}, title),
      copyButton(t("copy"), () => code),
    ),
    h("pre", { tabindex: "0", "aria-label": title }, h("code", {}, code.trimEnd())),
  );
