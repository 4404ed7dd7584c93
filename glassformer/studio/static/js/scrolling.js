// Boxes that scroll: the style sheet fades an edge behind which there is more, and the box can be scrolled by keyboard.

import { t } from "./i18n.js";

const BOXES = ".scroll, .tabs, .presets, .detail";
const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
const TOLERANCE = 2; // pixels: sizes are rounded

/** @param {Element} box */
function markEdges(box) {
  const hiddenWidth = box.scrollWidth - box.clientWidth;
  const hiddenHeight = box.scrollHeight - box.clientHeight;
  box.classList.toggle("more-left", box.scrollLeft > TOLERANCE);
  box.classList.toggle("more-right", hiddenWidth - box.scrollLeft > TOLERANCE);
  box.classList.toggle("more-up", box.scrollTop > TOLERANCE);
  box.classList.toggle("more-down", hiddenHeight - box.scrollTop > TOLERANCE);
  const scrolls = hiddenWidth > TOLERANCE || hiddenHeight > TOLERANCE;
  // A box that contains something focusable is scrolled by focusing that.
  if (!scrolls || box.hasAttribute("tabindex") || box.querySelector(FOCUSABLE)) return;
  box.setAttribute("tabindex", "0");
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", t("scrolls"));
}

/**
 * Watch all scrolling boxes below `root`, including the ones that are added later.
 *
 * @param {Element} root
 */
export function watchScrolling(root) {
  const sizes = new ResizeObserver(entries => {
    // An element that was removed from its box meanwhile has no box.
    const boxes = entries.flatMap(entry => entry.target.closest(BOXES) ?? []);
    new Set(boxes).forEach(markEdges);
  });
  const observeAll = () => {
    for (const box of root.querySelectorAll(BOXES)) for (const part of [box, ...box.children]) sizes.observe(part);
  };
  const onscroll = /** @param {Event} event */ event => {
    if (event.target instanceof Element && event.target.matches(BOXES)) markEdges(event.target);
  };
  new MutationObserver(observeAll).observe(root, { childList: true, subtree: true });
  root.addEventListener("scroll", onscroll, true);
  observeAll();
}
