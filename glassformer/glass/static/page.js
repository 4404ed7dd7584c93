// Draws a trace from the numbers that are embedded in the page. Nothing is fetched or rounded.
"use strict";

/** @typedef {import("./page_types.js").PageAttention} PageAttention */
/** @typedef {import("./page_types.js").PageTensor} PageTensor */
/** @typedef {import("./page_types.js").PageTrace} PageTrace */
/** @typedef {number | "mean"} Head */

/**
 * Return the element with an id, which must be of the given type.
 *
 * @template {Element} E
 * @param {string} id
 * @param {new () => E} type
 * @returns {E}
 */
function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`#${id} is not a ${type.name}`);
  return found;
}

/**
 * Create an element. `properties` are properties, not attributes.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Partial<HTMLElementTagNameMap[Tag]>} [properties]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
function element(tag, properties = {}, ...children) {
  const created = Object.assign(document.createElement(tag), properties);
  created.append(...children);
  return created;
}

/** @type {PageTrace} */
const trace = JSON.parse(byId("trace", HTMLScriptElement).textContent ?? "");
const base64 = byId("numbers", HTMLScriptElement).textContent ?? "";
const floats = new Float32Array(Uint8Array.from(atob(base64.trim()), c => c.charCodeAt(0)).buffer);
const tensors = new Map(trace.tensors.map(tensor => [tensor.name, tensor]));
const texts = trace.texts;

/**
 * The numbers of a tensor.
 *
 * @param {string} name
 */
function valuesOf(name) {
  const tensor = tensors.get(name);
  if (!tensor) throw new Error(`the page has no tensor ${name}`);
  return floats.subarray(tensor.offset, tensor.offset + tensor.shape.reduce((a, b) => a * b, 1));
}

// ---------------------------------------------------------------- attention

/**
 * The weights of one head, or the mean over heads.
 *
 * @param {PageAttention} attention
 * @param {Head} head
 */
function weightsOf(attention, head) {
  const all = valuesOf(attention.name);
  const size = attention.rows.length * attention.columns.length;
  if (head !== "mean") return all.subarray(head * size, (head + 1) * size);
  return Float32Array.from({ length: size }, (_, i) => {
    let sum = 0;
    for (let h = 0; h < attention.heads; h++) sum += all[h * size + i];
    return sum / attention.heads;
  });
}

/**
 * A table of attention weights, coloured by the style sheet.
 *
 * @param {PageAttention} attention
 * @param {Head} head
 * @param {string} caption
 */
function weightTable(attention, head, caption) {
  const { rows, columns } = attention;
  const weights = weightsOf(attention, head);
  const corner = element("td");
  corner.style.visibility = "hidden";
  const headings = columns.map(name => element("th", { scope: "col" }, element("span", {}, name)));
  const body = rows.map((row, r) => {
    const cells = columns.map((column, c) => weightCell(row, column, weights[r * columns.length + c]));
    return element("tr", {}, element("th", { scope: "row" }, row), ...cells);
  });
  return element(
    "table",
    { className: "heat" },
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, corner, ...headings)),
    element("tbody", {}, ...body),
  );
}

/**
 * @param {string} row
 * @param {string} column
 * @param {number} weight
 */
function weightCell(row, column, weight) {
  const text = element("span", {}, weight.toFixed(2).replace(/^0/, ""));
  const cell = element("td", { className: weight > 0.5 ? "dark" : "" }, text);
  cell.style.setProperty("--w", String(weight));
  cell.dataset.readout = `${row} → ${column}: ${weight}`;
  return cell;
}

/**
 * Fill a select and keep its value if it is still among the options.
 *
 * @param {HTMLSelectElement} select
 * @param {[string | number, string | number][]} options
 * @param {string} value
 */
function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => element("option", { value: String(key) }, String(text))));
  select.value = options.some(([key]) => String(key) === value) ? value : String(options[0][0]);
}

function showAttention() {
  const kindSelect = byId("kind", HTMLSelectElement);
  const layerSelect = byId("layer", HTMLSelectElement);
  const headSelect = byId("head", HTMLSelectElement);
  const exact = byId("exact", HTMLInputElement);
  const grid = byId("grid", HTMLElement);
  const readout = byId("readout", HTMLElement);
  const ofKind = () => trace.layers.filter(({ kind }) => kind === kindSelect.value);
  const draw = () => {
    const attention = ofKind().find(({ layer }) => String(layer) === layerSelect.value) ?? ofKind()[0];
    const head = headSelect.value;
    byId("rows", HTMLElement).textContent = texts[`rows ${attention.kind}`];
    grid.className = (head === "all" ? "many" : "") + (exact.checked ? " numbers" : "");
    grid.replaceChildren(...weightTables(attention, head).map(table => element("div", { className: "wide" }, table)));
    readout.textContent = "";
  };
  const changeKind = () => {
    const layers = ofKind();
    /** @type {[number, number][]} */
    const layerOptions = layers.map(({ layer }) => [layer, layer + 1]);
    fillSelect(layerSelect, layerOptions, layerSelect.value || String(layers[layers.length - 1].layer));
    /** @type {[number, number][]} */
    const headOptions = Array.from({ length: layers[0].heads }, (_, h) => [h, h + 1]);
    fillSelect(headSelect, [["mean", texts.mean], ["all", texts["all heads"]], ...headOptions], headSelect.value);
    draw();
  };
  const showCell = (/** @type {Event} */ event) => {
    const cell = event.target instanceof Element ? event.target.closest("td[data-readout]") : null;
    if (cell) readout.textContent = cell.getAttribute("data-readout");
  };
  const kinds = [...new Set(trace.layers.map(({ kind }) => kind))];
  /** @type {[string, string][]} */
  const kindOptions = kinds.map(kind => [kind, texts[kind]]);
  fillSelect(kindSelect, kindOptions, kinds.includes("cross") ? "cross" : kinds[0]);
  kindSelect.onchange = changeKind;
  for (const control of [layerSelect, headSelect, exact]) control.onchange = draw;
  for (const event of ["mouseover", "click"]) grid.addEventListener(event, showCell);
  changeKind();
}

/**
 * The tables of a choice of heads: "all", "mean" or one head.
 *
 * @param {PageAttention} attention
 * @param {string} head
 */
function weightTables(attention, head) {
  const layer = `${texts[attention.kind]}, ${texts.layer} ${attention.layer + 1}`;
  if (head === "mean") return [weightTable(attention, "mean", `${layer}, ${texts.mean}`)];
  if (head !== "all") return [weightTable(attention, Number(head), `${layer}, ${texts.head} ${Number(head) + 1}`)];
  return Array.from({ length: attention.heads }, (_, h) => weightTable(attention, h, `${texts.head} ${h + 1}`));
}

// ---------------------------------------------------------------- every tensor

/**
 * A colour of the style sheet as red, green and blue.
 *
 * @param {string} name
 */
function themeColour(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
}

/**
 * A matrix as colour: the stronger the colour, the larger the absolute value.
 *
 * @param {Float32Array} numbers
 * @param {number} rows
 * @param {number} columns
 * @param {number} most  the absolute value with the full colour
 * @param {HTMLElement} readout
 */
function heatmap(numbers, rows, columns, most, readout) {
  const scale = Math.max(1, Math.min(16, Math.floor(1000 / columns), Math.floor(480 / rows)));
  const canvas = element("canvas", { width: columns, height: rows });
  canvas.style.width = `${columns * scale}px`;
  canvas.style.height = `${rows * scale}px`;
  const [zero, positive, negative, infinite] = ["--panel", "--plus", "--minus", "--never"].map(themeColour);
  const image = new ImageData(columns, rows);
  numbers.forEach((x, i) => {
    const strength = most > 0 ? Math.min(1, Math.abs(x) / most) : 0;
    const end = x < 0 ? negative : positive;
    const colour = Number.isFinite(x) ? zero.map((from, c) => from + (end[c] - from) * strength) : infinite;
    image.data.set([...colour, 255], 4 * i);
  });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  canvas.onmousemove = event => {
    const box = canvas.getBoundingClientRect();
    const r = Math.min(rows - 1, Math.floor((event.clientY - box.top) / scale));
    const c = Math.min(columns - 1, Math.floor((event.clientX - box.left) / scale));
    readout.textContent = `[${r}, ${c}]: ${numbers[r * columns + c]}`;
  };
  return canvas;
}

/**
 * @param {Float32Array} numbers
 * @param {number} rows
 * @param {number} columns
 */
function numberTable(numbers, rows, columns) {
  const lines = Array.from({ length: rows }, (_, r) => {
    const cells = Array.from(numbers.subarray(r * columns, (r + 1) * columns), x => element("td", {}, String(x)));
    return element("tr", {}, element("th", { scope: "row" }, String(r)), ...cells);
  });
  return element("div", { className: "scroll" }, element("table", { className: "exact" }, ...lines));
}

/** @type {string | null} */
let openTensor = null;

/** @param {string} name */
function showTensor(name) {
  const tensor = tensors.get(name);
  if (!tensor) return;
  const readout = element("p", { className: "readout" });
  const origin = element("p", {}, tensor.formula ?? "");
  for (const parent of tensor.parents ?? []) origin.append(" · ", tensorLink(parent));
  const program = tensor.numpy
    ? [element("details", {}, element("summary", {}, "NumPy"), element("pre", {}, tensor.numpy))]
    : [];
  const title = element("h3", {}, `${name}  ${tensor.shape.join("×")}`);
  byId("tensor", HTMLElement).replaceChildren(title, origin, readout, ...matricesOf(tensor, readout), ...program);
  for (const row of document.querySelectorAll("tr[data-name]")) {
    row.classList.toggle("open", row.getAttribute("data-name") === name);
  }
  openTensor = name;
}

/**
 * The matrices of a tensor, one per head, as colours and as folded tables.
 *
 * @param {PageTensor} tensor
 * @param {HTMLElement} readout
 */
function matricesOf({ name, shape }, readout) {
  const all = valuesOf(name);
  const columns = shape.at(-1) ?? 1;
  const rows = shape.at(-2) ?? 1;
  const size = rows * columns;
  const most = all.reduce((largest, x) => (Number.isFinite(x) ? Math.max(largest, Math.abs(x)) : largest), 0);
  return Array.from({ length: all.length / size }, (_, i) => {
    const numbers = all.subarray(i * size, (i + 1) * size);
    const details = element("details", {}, element("summary", {}, texts.table));
    details.ontoggle = () => {
      if (details.childElementCount < 2) details.append(numberTable(numbers, rows, columns));
    };
    const canvas = element("div", { className: "wide" }, heatmap(numbers, rows, columns, most, readout));
    const index = all.length > size ? [element("p", { className: "soft" }, `[${i}]`)] : [];
    return element("div", {}, ...index, canvas, details);
  });
}

/** @param {string} name */
const tensorLink = name =>
  tensors.has(name)
    ? element("button", { className: "name", onclick: () => showTensor(name) }, name)
    : element("code", {}, name);

function listTensors() {
  const wanted = byId("filter", HTMLInputElement).value.trim();
  const rows = trace.tensors
    .filter(({ name }) => name.includes(wanted))
    .map(({ name, shape, formula }) => {
      const size = element("td", { className: "number" }, shape.join("×"));
      const row = element("tr", {}, element("td", {}, tensorLink(name)), size, element("td", {}, formula ?? ""));
      row.dataset.name = name;
      return row;
    });
  byId("names", HTMLElement).replaceChildren(...rows);
}

if (trace.layers.length) showAttention();
byId("filter", HTMLInputElement).oninput = listTensors;
listTensors();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (openTensor) showTensor(openTensor);
});
