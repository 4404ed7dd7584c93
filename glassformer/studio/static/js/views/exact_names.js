// A checkbox that shows the exact names of tensors in a panel; the browser remembers it.

import { checkbox } from "../dom.js";
import { t } from "../i18n.js";
import { loadPreference, savePreference } from "../preferences.js";

/** @param {HTMLElement} place  the panel */
export function exactNamesCheckbox(place) {
  const show = /** @param {boolean} shown */ shown => place.classList.toggle("with-names", shown);
  const named = loadPreference("names") === "1";
  show(named);
  return checkbox(t("exact names"), named, shown => {
    savePreference("names", shown ? "1" : "0");
    show(shown);
  });
}
