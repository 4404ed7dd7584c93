// Pictures and numbers to take away: SVG, PNG and CSV, made in the page.

import { colour, h, s } from "./dom.js";
import { say } from "./i18n.js";

const STYLES = ["fill", "fill-opacity", "paint-order", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity",
  "font-size", "font-family", "font-weight", "text-anchor", "dominant-baseline"];
const TITLE = 30;  // pixels above a drawing for its title
const SCALE = 2;  // pixels of a PNG for one of the page

/** A copy of a drawing that needs no style sheet, with a title above it. */
function standalone(svg, title) {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map(root => [root, ...root.querySelectorAll("*")]);
  from.forEach((element, i) => {
    const computed = getComputedStyle(element);
    for (const name of STYLES) {
      const value = computed.getPropertyValue(name);
      if (value) to[i].setAttribute(name, value);
    }
    for (const name of ["class", "tabindex", "role"]) to[i].removeAttribute(name);
  });
  const [left, top, width, height] = sized(svg, title);
  copy.setAttribute("viewBox", [left, top, width, height].join(" "));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("x", left);
  ground.setAttribute("y", top);
  ground.setAttribute("width", width);
  ground.setAttribute("height", height);
  ground.setAttribute("fill", colour("--panel"));
  copy.prepend(ground, title ? s("text", { x: left + 8, y: top + 20, "font-weight": "600", "font-size": "14px",
    "font-family": getComputedStyle(svg).fontFamily, fill: colour("--ink") }, title) : "");
  return new XMLSerializer().serializeToString(copy);
}

/** The box of a drawing that is exported: left, top, width, height. */
function sized(svg, title) {
  const [left, top, width, height] = svg.getAttribute("viewBox").split(/\s+/).map(Number);
  return title ? [left, top - TITLE, Math.max(width, 16 + 8.5 * title.length), height + TITLE] : [left, top, width, height];
}

async function asPng(text, width, height) {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise(done => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

function save(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const quoted = cell => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell));
const csv = rows => rows.map(row => row.map(quoted).join(",") + "\n").join("");

/** Three buttons. `title` stands above a drawing that has none of its own. `drawing()` gives an SVG element in the page (or a detached one), `rows()` the lines of a CSV. */
export function exports(name, { title = "", drawing, rows }) {
  const svg = async () => {
    const drawn = await drawing();
    const attached = drawn.isConnected;
    if (!attached) document.body.append(drawn);  // only what is in the page has computed styles
    const text = standalone(drawn, title);
    if (!attached) drawn.remove();
    return { text, size: sized(drawn, title).slice(2) };
  };
  const kinds = {
    SVG: async () => new Blob([(await svg()).text], { type: "image/svg+xml" }),
    PNG: async () => { const { text, size } = await svg(); return asPng(text, ...size); },
    CSV: async () => new Blob([csv(await rows())], { type: "text/csv" }),
  };
  return h("div", { class: "exports", role: "group", "aria-label": say("export") }, h("span", { class: "soft" }, say("export")),
    Object.entries(kinds).map(([kind, make]) => h("button", { type: "button", class: "quiet",
      onclick: async () => save(`${name}.${kind.toLowerCase()}`, await make()) }, kind)));
}
