// A short text next to the pointer. It is outside the views, because a box that scrolls would cut it off.

import { h } from "./dom.js";

const DISTANCE = 14; // pixels from the pointer
const tip = h("span", { class: "hover-tip", "aria-hidden": "true" });

export const hideTip = () => tip.remove();

/**
 * @param {string} text
 * @param {PointerEvent} event
 */
export function showTip(text, { clientX, clientY }) {
  tip.textContent = text;
  document.body.append(tip);
  const { width, height } = tip.getBoundingClientRect();
  const above = clientY - height - DISTANCE;
  Object.assign(tip.style, {
    left: `${Math.max(4, Math.min(clientX + DISTANCE, innerWidth - width - 8))}px`,
    top: `${above > 4 ? above : clientY + DISTANCE}px`,
  });
}

// An element that is removed under the pointer does not say that the pointer left it.
document.addEventListener("pointermove", event => {
  if (!(event.target instanceof Element && event.target.closest(".field"))) hideTip();
});
