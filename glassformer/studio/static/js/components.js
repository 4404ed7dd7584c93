// Small parts that all views are built from.

import { h } from "./dom.js";
import { t } from "./i18n.js";

/** @import { Child } from "./types.js" */

/** @param {...Child} children */
export const panel = (...children) => h("section", { class: "panel" }, ...children);

/**
 * An explanatory paragraph.
 *
 * @param {...Child} children
 */
export const explanation = (...children) => h("p", { class: "soft" }, ...children);

/**
 * A message in place of a view that has nothing to show.
 *
 * @param {string} text
 */
export const emptyMessage = text => h("p", { class: "empty" }, text);

/**
 * A line that shows the chosen value; screen readers announce its changes.
 *
 * @param {...Child} children
 */
export const readout = (...children) => h("p", { class: "readout", "aria-live": "polite" }, ...children);

/** @param {...Child} children */
export const controls = (...children) => h("div", { class: "controls" }, ...children);

/** @param {...Child} children */
export const scrollBox = (...children) => h("div", { class: "scroll" }, ...children);

/**
 * A box with a name that can be scrolled by keyboard.
 *
 * @param {string} label
 * @param {...Child} children
 */
export const scrollRegion = (label, ...children) =>
  h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);

/**
 * A list of tokens.
 *
 * @param {readonly string[]} texts
 * @param {(index: number) => string | null} [className]
 */
export const tokenChips = (texts, className = () => null) =>
  h(
    "p",
    { class: "chips" },
    texts.map((text, i) => h("span", { class: className(i) }, text)),
  );

/**
 * Add how to use the keyboard to the label of a matrix.
 *
 * @param {string} title
 */
export const withArrowKeys = title => `${title}. ${t("arrow keys")}`;
