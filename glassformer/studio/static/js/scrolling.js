// A sign where content goes on beyond the edge of a box that scrolls: the edge fades, and the box can be scrolled by keyboard.

import { say } from "./i18n.js";

const BOXES = ".scroll, .tabs, .presets, .detail";
const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
const SLACK = 2;  // pixels: a fraction of one is not a clipped edge

function mark(box) {
  const right = box.scrollWidth - box.clientWidth - box.scrollLeft, down = box.scrollHeight - box.clientHeight - box.scrollTop;
  box.classList.toggle("more-left", box.scrollLeft > SLACK);
  box.classList.toggle("more-right", right > SLACK);
  box.classList.toggle("more-up", box.scrollTop > SLACK);
  box.classList.toggle("more-down", down > SLACK);
  const scrolls = box.scrollWidth - box.clientWidth > SLACK || box.scrollHeight - box.clientHeight > SLACK;
  if (!scrolls || box.hasAttribute("tabindex") || box.querySelector(FOCUSABLE)) return;
  for (const [name, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": say("scrolls") })) box.setAttribute(name, value);
}

/** Watches every box that scrolls in `root`, also those that come later. */
export function watchScrolling(root) {
  const sizes = new ResizeObserver(entries => {
    const boxes = new Set(entries.map(entry => entry.target.closest(BOXES)));
    boxes.delete(null);  // of what has been taken out of its box
    boxes.forEach(mark);
  });
  const watch = () => {
    for (const box of root.querySelectorAll(BOXES)) for (const part of [box, ...box.children]) sizes.observe(part);
  };
  new MutationObserver(watch).observe(root, { childList: true, subtree: true });
  root.addEventListener("scroll", event => { if (event.target.matches?.(BOXES)) mark(event.target); }, true);
  watch();
}
