// Keeping the keyboard focus while a part of the page is drawn again.

import { refill } from "./dom.js";

/** @import { Child } from "./types.js" */

const CONTROLS = "button[data-value], .field, select";

/**
 * What identifies a control before and after drawing: group and value of a button, the index of a select or a heat map.
 *
 * @param {Element} element
 * @param {Element} place
 */
function keyOf(element, place) {
  for (const kind of ["select", ".field"]) {
    if (element.matches(kind)) return `${kind} ${[...place.querySelectorAll(kind)].indexOf(element)}`;
  }
  return `${element.parentElement?.getAttribute("aria-label")} ${element.getAttribute("data-value")}`;
}

/**
 * Remember which control inside `place` has the focus. The returned function focuses its successor.
 *
 * @param {Element} place
 */
export function rememberFocus(place) {
  const focused = document.activeElement;
  const key = focused?.matches(CONTROLS) && place.contains(focused) ? keyOf(focused, place) : null;
  return () => {
    const moved = (document.activeElement ?? document.body) !== document.body;
    if (key === null || moved) return;
    const successor = [...place.querySelectorAll(CONTROLS)].find(element => keyOf(element, place) === key);
    if (successor instanceof HTMLElement) successor.focus({ preventScroll: true });
  };
}

/**
 * Replace all children of an element and keep the focus.
 *
 * @param {Element} place
 * @param {...Child} children
 */
export function refillKeepingFocus(place, ...children) {
  const restoreFocus = rememberFocus(place);
  refill(place, ...children);
  restoreFocus();
}
