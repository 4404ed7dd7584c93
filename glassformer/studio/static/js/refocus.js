// A part of the page is drawn anew, and whoever was in it by keyboard stays where they were.

import { refill } from "./dom.js";

const GROUPS = "button[data-value], .field, select";

/** What tells a control from its neighbours: its group and its value; of a map or a list to choose from, its number. */
function keyOf(element, place) {
  if (element.matches("select")) return `select ${[...place.querySelectorAll("select")].indexOf(element)}`;
  if (element.matches(".field")) return `field ${[...place.querySelectorAll(".field")].indexOf(element)}`;
  return `${element.parentElement.getAttribute("aria-label")} ${element.dataset.value}`;
}

/** Notes which control of `place` has the focus; the function that is returned gives it back to its successor. */
export function keepFocus(place) {
  const here = document.activeElement;
  const key = here?.matches(GROUPS) && place.contains(here) ? keyOf(here, place) : null;
  return () => {
    if (key === null || (document.activeElement ?? document.body) !== document.body) return;  // or they moved on
    [...place.querySelectorAll(GROUPS)].find(element => keyOf(element, place) === key)?.focus({ preventScroll: true });
  };
}

export function replaced(place, ...children) {
  const giveBack = keepFocus(place);
  refill(place, children);
  giveBack();
}
