// Draws a trace from the numbers in this file; nothing is fetched or rounded.
"use strict";
const trace = JSON.parse(document.getElementById("trace").textContent);
const bytes = Uint8Array.from(atob(document.getElementById("numbers").textContent.trim()), c => c.charCodeAt(0));
const floats = new Float32Array(bytes.buffer);
const byName = new Map(trace.tensors.map(t => [t.name, t]));
const $ = id => document.getElementById(id);
const texts = trace.texts;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
const values = t => floats.subarray(t.offset, t.offset + t.shape.reduce((a, b) => a * b, 1));

// ---------------------------------------------------------------- attention

const layers = trace.layers;
const kinds = [...new Set(layers.map(l => l.kind))];

function fill(select, entries, keep) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value, textContent: text })));
  select.value = entries.some(([value]) => String(value) === keep) ? keep : entries[0][0];
}

function chosen() {
  const ofKind = layers.filter(l => l.kind === $("kind").value);
  return ofKind.find(l => String(l.layer) === $("layer").value) ?? ofKind[0];
}

function weightsOf(attention, head) {
  const all = values(byName.get(attention.name)), size = attention.rows.length * attention.columns.length;
  if (head !== "mean") return all.subarray(head * size, (head + 1) * size);
  return Float32Array.from({ length: size }, (_, i) => {
    let sum = 0;
    for (let h = 0; h < attention.heads; h++) sum += all[h * size + i];
    return sum / attention.heads;
  });
}

function heat(attention, head, caption) {
  const weights = weightsOf(attention, head), K = attention.columns.length;
  const top = element("tr", {}, element("td"), ...attention.columns.map(c =>
    element("th", { scope: "col" }, element("span", { textContent: c }))));
  top.firstChild.style.visibility = "hidden";
  const body = attention.rows.map((row, q) => element("tr", {}, element("th", { scope: "row", textContent: row }),
    ...attention.columns.map((column, k) => {
      const w = weights[q * K + k];
      const cell = element("td", { className: w > .5 ? "dark" : "" },
        element("span", { textContent: w.toFixed(2).replace(/^0/, "") }));
      cell.style.setProperty("--w", w);
      cell.dataset.readout = `${row} → ${column}: ${w}`;
      return cell;
    })));
  return element("table", { className: "heat" }, element("caption", { textContent: caption }),
    element("thead", {}, top), element("tbody", {}, ...body));
}

function drawAttention() {
  const attention = chosen(), head = $("head").value;
  const about = `${texts[attention.kind]}, ${texts.layer} ${attention.layer}`;
  $("rows").textContent = texts[`rows ${attention.kind}`];
  const shown = head === "all"
    ? Array.from({ length: attention.heads }, (_, h) => element("div", { className: "wide" }, heat(attention, h, `${texts.head} ${h}`)))
    : [element("div", { className: "wide" }, heat(attention, head === "mean" ? head : +head,
        `${about}, ${head === "mean" ? texts.mean : `${texts.head} ${head}`}`))];
  $("grid").className = (head === "all" ? "many" : "") + ($("exact").checked ? " numbers" : "");
  $("grid").replaceChildren(...shown);
  $("readout").textContent = "";
}

function chooseKind() {
  const ofKind = layers.filter(l => l.kind === $("kind").value);
  fill($("layer"), ofKind.map(l => [l.layer, l.layer]), $("layer").value || String(ofKind.at(-1).layer));
  const heads = Array.from({ length: ofKind[0].heads }, (_, h) => [h, h]);
  fill($("head"), [["mean", texts.mean], ["all", texts["all heads"]], ...heads], $("head").value);
  drawAttention();
}

if (layers.length) {
  fill($("kind"), kinds.map(k => [k, texts[k]]), kinds.includes("cross") ? "cross" : kinds[0]);
  $("kind").onchange = chooseKind;
  for (const id of ["layer", "head", "exact"]) $(id).onchange = drawAttention;
  for (const event of ["mouseover", "click"])
    $("grid").addEventListener(event, e => {
      const cell = e.target.closest("td[data-readout]");
      if (cell) $("readout").textContent = cell.dataset.readout;
    });
  chooseKind();
}

// ---------------------------------------------------------------- every tensor

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const parts = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));

/** Draw one pixel block per number; a stronger colour is farther from 0. */
function canvasOf(numbers, rows, columns, most, readout) {
  const scale = Math.max(1, Math.min(16, Math.floor(1000 / columns), Math.floor(480 / rows)));
  const canvas = element("canvas", { width: columns, height: rows });
  canvas.style.width = `${columns * scale}px`;
  canvas.style.height = `${rows * scale}px`;
  const [panel, plus, minus, never] = ["--panel", "--plus", "--minus", "--never"].map(n => parts(colour(n)));
  const image = new ImageData(columns, rows);
  numbers.forEach((x, i) => {
    const strength = most > 0 ? Math.min(1, Math.abs(x) / most) : 0, to = x < 0 ? minus : plus;
    const rgb = Number.isFinite(x) ? panel.map((p, c) => p + (to[c] - p) * strength) : never;
    image.data.set([...rgb, 255], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.onmousemove = e => {
    const box = canvas.getBoundingClientRect();
    const r = Math.min(rows - 1, Math.floor((e.clientY - box.top) / scale));
    const c = Math.min(columns - 1, Math.floor((e.clientX - box.left) / scale));
    readout.textContent = `[${r}, ${c}]: ${numbers[r * columns + c]}`;
  };
  return canvas;
}

function exactTable(numbers, rows, columns) {
  const lines = Array.from({ length: rows }, (_, r) => element("tr", {}, element("th", { scope: "row", textContent: r }),
    ...Array.from(numbers.subarray(r * columns, (r + 1) * columns), x => element("td", { textContent: x }))));
  return element("div", { className: "scroll" }, element("table", { className: "exact" }, ...lines));
}

function show(name) {
  const t = byName.get(name), all = values(t), shape = t.shape;
  const columns = shape.at(-1) ?? 1, rows = shape.length > 1 ? shape.at(-2) : 1, size = rows * columns;
  const most = all.reduce((m, x) => Number.isFinite(x) ? Math.max(m, Math.abs(x)) : m, 0);
  const readout = element("p", { className: "readout" });
  const shown = [];
  for (let i = 0; i * size < all.length; i++) {
    const part = all.subarray(i * size, (i + 1) * size);
    const details = element("details", {}, element("summary", { textContent: texts.table }));
    details.ontoggle = () => details.childElementCount < 2 && details.append(exactTable(part, rows, columns));
    shown.push(element("div", {}, ...(all.length > size ? [element("p", { className: "soft", textContent: `[${i}]` })] : []),
      element("div", { className: "wide" }, canvasOf(part, rows, columns, most, readout)), details));
  }
  const made = element("p", {}, t.formula ?? "");
  for (const parent of t.parents ?? []) made.append(" · ", nameButton(parent));
  const program = t.numpy ? [element("details", {}, element("summary", { textContent: "NumPy" }),
    element("pre", { textContent: t.numpy }))] : [];
  $("tensor").replaceChildren(element("h3", { textContent: `${name}  ${shape.join("×")}` }), made, readout, ...shown, ...program);
  document.querySelectorAll("tr.open").forEach(row => row.classList.remove("open"));
  document.querySelector(`tr[data-name="${name}"]`)?.classList.add("open");
  opened = name;
}
let opened = null;

const nameButton = name => byName.has(name)
  ? element("button", { className: "name", textContent: name, onclick: () => show(name) })
  : element("code", { textContent: name });

function list() {
  const wanted = $("filter").value.trim();
  const rows = trace.tensors.filter(t => t.name.includes(wanted)).map(t => {
    const row = element("tr", {}, element("td", {}, nameButton(t.name)),
      element("td", { className: "number", textContent: t.shape.join("×") }),
      element("td", { textContent: t.formula ?? "" }));
    row.dataset.name = t.name;
    return row;
  });
  $("names").replaceChildren(...rows);
}
$("filter").oninput = list;
list();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => opened && show(opened));
