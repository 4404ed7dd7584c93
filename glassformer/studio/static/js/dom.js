// Elements. Text goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Children without those that a condition left out: `replaceChildren(null)` would print "null". */
const present = children => children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false);

/** Puts these children in the place of all that an element has. */
export const refill = (element, ...children) => element.replaceChildren(...present(children));

/** `h("button", {class: "first", onclick: act}, "text")` */
export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for drawings. */
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const $ = id => document.getElementById(id);

/** A select whose entries are [value, text] pairs. */
export function select(entries, chosen, onchange, attributes = {}) {
  const made = h("select", { ...attributes, onchange: event => onchange(event.target.value) },
    entries.map(([value, text]) => h("option", { value }, text)));
  made.value = chosen;
  return made;
}

/** A control with its name beside it. The name is given twice: that of a label would have the control's options in it. */
export function labelled(label, control) {
  control.setAttribute("aria-label", label);
  return h("label", { class: "field-of" }, h("span", {}, label), control);
}

/** Buttons of which one is pressed. */
export function choice(label, entries, chosen, onchoose) {
  const press = event => {
    for (const button of event.currentTarget.parentElement.children)
      button.setAttribute("aria-pressed", button === event.currentTarget);
    onchoose(event.currentTarget.dataset.value);
  };
  return h("div", { class: "choice", role: "group", "aria-label": label }, entries.map(([value, text]) =>
    h("button", { type: "button", "data-value": value, "aria-pressed": String(value) === String(chosen) ? "true" : "false",
      onclick: press }, text)));
}

/** A box to tick. */
export const tick = (label, checked, onchange) => h("label", { class: "tick" },
  h("input", { type: "checkbox", checked, onchange: event => onchange(event.target.checked) }), label);

export const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
