// Creating and filling elements. Children are inserted as text, never as HTML.

/** @import { Attributes, Child, Option } from "./types.js" */

const SVG = "http://www.w3.org/2000/svg";
/** These are set as properties: the attributes of the same name are only initial values. */
const PROPERTIES = new Set(["value", "checked", "selected"]);

/**
 * Flatten children and drop the ones that a condition left out.
 *
 * @param {readonly Child[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  return children.flatMap(child => {
    if (child === null || child === undefined || typeof child === "boolean") return [];
    if (Array.isArray(child)) return present(child);
    return [child instanceof Node ? child : String(child)];
  });
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (PROPERTIES.has(name)) Object.assign(element, { [name]: value });
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/**
 * Create an HTML element: `h("button", { class: "first", onclick: act }, "text")`.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 */
export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/**
 * Create an SVG element.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 */
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/**
 * Replace all children of an element.
 *
 * @param {Element} element
 * @param {...Child} children
 */
export const refill = (element, ...children) => element.replaceChildren(...present(children));

/** @type {WeakMap<object, symbol>} the latest call of `ifLatest` for each element */
const latestCalls = new WeakMap();

/**
 * Wait for what an element is going to show, and return it. Return null if `ifLatest` was called again for the same
 * element in the meantime: answers can arrive in another order than they were requested, and only the latest may be
 * drawn. For the same reason the error of an earlier call is dropped.
 *
 * @template T
 * @param {object} element
 * @param {Promise<T> | T} answer
 * @returns {Promise<T | null>}
 */
export async function ifLatest(element, answer) {
  const call = Symbol();
  latestCalls.set(element, call);
  const isLatest = () => latestCalls.get(element) === call;
  try {
    const found = await answer;
    return isLatest() ? found : null;
  } catch (error) {
    if (isLatest()) throw error;
    return null;
  }
}

/**
 * Return the element with an id, which must be of the given type.
 *
 * @template {Element} E
 * @param {string} id
 * @param {new () => E} type
 * @returns {E}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`#${id} is not a ${type.name}`);
  return found;
}

/**
 * Return the first element below `root` that matches a selector; it must exist.
 *
 * @param {ParentNode} root
 * @param {string} selector
 */
export function find(root, selector) {
  const found = root.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`no element matches ${selector}`);
  return found;
}

/**
 * Create a select element.
 *
 * @param {readonly Option[]} options
 * @param {string | number} chosen
 * @param {(value: string) => void} onchange
 * @param {Attributes} [attributes]
 */
export function select(options, chosen, onchange, attributes = {}) {
  const element = h(
    "select",
    attributes,
    options.map(([value, text]) => h("option", { value }, text)),
  );
  element.value = String(chosen);
  element.addEventListener("change", () => onchange(element.value));
  return element;
}

/**
 * Put a label next to a control. The control also gets an aria-label, because the text of a label element would
 * include the options of a select.
 *
 * @param {string} label
 * @param {Element} control
 */
export function labelled(label, control) {
  control.setAttribute("aria-label", label);
  return h("label", { class: "field-of" }, h("span", {}, label), control);
}

/**
 * Create a group of buttons of which exactly one is pressed.
 *
 * @param {string} label
 * @param {readonly Option[]} options
 * @param {string | number | undefined} chosen
 * @param {(value: string) => void} onchoose
 */
export function choice(label, options, chosen, onchoose) {
  const buttons = options.map(([value, text]) => {
    const pressed = String(value) === String(chosen);
    return h("button", { type: "button", "data-value": value, "aria-pressed": String(pressed) }, text);
  });
  for (const button of buttons) {
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      onchoose(button.dataset.value ?? "");
    });
  }
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/**
 * Create a checkbox with a label.
 *
 * @param {string} label
 * @param {boolean} checked
 * @param {(checked: boolean) => void} onchange
 */
export function checkbox(label, checked, onchange) {
  const input = h("input", { type: "checkbox", checked, onchange: () => onchange(input.checked) });
  return h("label", { class: "tick" }, input, label);
}

/**
 * Return the value of a CSS custom property, such as "--accent".
 *
 * @param {string} name
 */
export const cssVariable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
