// Download buttons: drawings as SVG and PNG, numbers as CSV. The files are made in the page.

import { cssVariable, h, s } from "./dom.js";
import { t } from "./i18n.js";

/** @typedef {string | number | boolean} CsvCell */

const STYLES = [
  "fill",
  "fill-opacity",
  "paint-order",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
];
const PAGE_ATTRIBUTES = ["class", "tabindex", "role"];
const TITLE_HEIGHT = 30;
const PNG_SCALE = 2;
const REVOKE_AFTER = 10_000; // milliseconds: the browser must have read the file by then

/**
 * Call a function while the page has its light theme, so that a drawing can be printed whatever the theme is. The
 * browser does not paint meanwhile.
 *
 * @template T
 * @param {() => T} draw
 */
function inLightTheme(draw) {
  const { dataset } = document.documentElement;
  const theme = dataset.theme;
  dataset.theme = "light";
  try {
    return draw();
  } finally {
    dataset.theme = theme;
  }
}

/**
 * The area of an exported drawing, with room for a title above it.
 *
 * @param {SVGSVGElement} svg
 * @param {string} title
 */
function exportedBox(svg, title) {
  const [x, y, width, height] = (svg.getAttribute("viewBox") ?? "0 0 1 1").split(/\s+/).map(Number);
  if (!title) return { x, y, width, height };
  return { x, y: y - TITLE_HEIGHT, width: Math.max(width, 16 + 8.5 * title.length), height: height + TITLE_HEIGHT };
}

/**
 * Copy the computed styles of a drawing to attributes, because the file has no style sheet.
 *
 * @param {SVGSVGElement} svg
 */
function withStyleAttributes(svg) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const [originals, copies] = [svg, copy].map(root => [root, ...root.querySelectorAll("*")]);
  originals.forEach((element, i) => {
    const computed = getComputedStyle(element);
    for (const name of STYLES) {
      const value = computed.getPropertyValue(name);
      if (value) copies[i].setAttribute(name, value);
    }
    for (const name of PAGE_ATTRIBUTES) copies[i].removeAttribute(name);
  });
  return copy;
}

/**
 * Write a drawing as a file of its own, with a background and a title.
 *
 * @param {SVGSVGElement} svg  must be in the page: only then it has computed styles
 * @param {string} title
 */
function serialize(svg, title) {
  const copy = withStyleAttributes(svg);
  const box = exportedBox(svg, title);
  copy.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  const font = { "font-weight": "600", "font-size": "14px", "font-family": getComputedStyle(svg).fontFamily };
  const heading = s("text", { x: box.x + 8, y: box.y + 20, fill: cssVariable("--ink"), ...font }, title);
  copy.prepend(s("rect", { ...box, fill: cssVariable("--panel") }), ...(title ? [heading] : []));
  return new XMLSerializer().serializeToString(copy);
}

/**
 * @param {string} svgText
 * @param {number} width
 * @param {number} height
 * @returns {Promise<Blob>}
 */
async function rasterize(svgText, width, height) {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([svgText], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = h("canvas", { width: width * PNG_SCALE, height: height * PNG_SCALE });
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob(
        blob => (blob ? resolve(blob) : reject(new Error("the drawing is too large for a PNG"))),
        "image/png",
      ),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

/**
 * @param {string} name
 * @param {Blob} blob
 */
export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), REVOKE_AFTER);
}

/** @param {CsvCell} cell */
function csvCell(cell) {
  const text = String(cell);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {CsvCell[][]} rows */
export const csv = rows => rows.map(row => `${row.map(csvCell).join(",")}\n`).join("");

/**
 * Create the download buttons of a drawing.
 *
 * @param {string} name  of the files, without extension
 * @param {{ title?: string, drawing: () => SVGSVGElement, rows: () => CsvCell[][] }} content
 *   title: for a drawing that has none; drawing: may be outside the page; rows: the lines of the CSV file
 */
export function exportButtons(name, { title = "", drawing, rows }) {
  const svgFile = () =>
    inLightTheme(() => {
      const svg = drawing();
      const attached = svg.isConnected;
      if (!attached) document.body.append(svg);
      const text = serialize(svg, title);
      if (!attached) svg.remove();
      return { text, box: exportedBox(svg, title) };
    });
  /** @type {Record<string, () => Blob | Promise<Blob>>} */
  const formats = {
    SVG: () => new Blob([svgFile().text], { type: "image/svg+xml" }),
    PNG: () => {
      const { text, box } = svgFile();
      return rasterize(text, box.width, box.height);
    },
    CSV: () => new Blob([csv(rows())], { type: "text/csv" }),
  };
  const buttons = Object.entries(formats).map(([format, make]) => {
    const download = async () => save(`${name}.${format.toLowerCase()}`, await make());
    return h("button", { type: "button", class: "quiet", onclick: download }, format);
  });
  return h(
    "div",
    { class: "exports", role: "group", "aria-label": t("export") },
    h("span", { class: "soft" }, t("export")),
    buttons,
  );
}
