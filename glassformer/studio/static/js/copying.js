// A button that copies a text.

import { h } from "./dom.js";
import { t } from "./i18n.js";

const COPIED_FOR = 1500; // milliseconds for which the button says that the text was copied

/** @param {string} text */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Browsers offer the clipboard only to https and localhost, not to the address of this machine in a network.
  const area = h("textarea", { class: "hidden", value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/**
 * @param {string} label
 * @param {() => string} text  computed when the button is pressed
 */
export function copyButton(label, text) {
  const copy = async () => {
    await copyText(text());
    button.textContent = t("copied");
    setTimeout(() => {
      button.textContent = label;
    }, COPIED_FOR);
  };
  const button = h("button", { type: "button", class: "quiet", onclick: copy }, label);
  return button;
}
