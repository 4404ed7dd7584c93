// Markdown of the lessons in the page.

import { h } from "../dom.js";

/**
 * Return the nodes of HTML that the server has rendered from the Markdown of a lesson. This is the only HTML that the
 * page inserts: it comes from the package, and the renderer escapes HTML inside the Markdown.
 *
 * @param {string} html
 * @returns {Node[]}
 */
export function htmlNodes(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const code of template.content.querySelectorAll("pre")) code.tabIndex = 0; // it may scroll
  return [...template.content.childNodes].filter(node => node instanceof Element);
}

/**
 * Return a line of text in which backticks mark code.
 *
 * @param {string} text
 */
export const withCode = text => text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece));
