// Attention on small matrices that the reader types: every step as an equation of matrices, cell by cell.

import { link, navigate, readAddress, replaceAddress } from "../address.js";
import * as api from "../api.js";
import { controls, explanation, panel, withArrowKeys } from "../components.js";
import { copyButton } from "../copying.js";
import { checkbox, choice, h, ifLatest, refill } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { heatmap } from "../heatmap.js";
import { t } from "../i18n.js";
import { formatCell, formatCsv, formatShort } from "../numbers.js";
import { dataTable, foldedTable } from "../table.js";
import { tableDrawing } from "../table_drawing.js";
import { largestMagnitude } from "../vectors.js";
import { compactMatrix, matricesOf, numpyProgram, spacedMatrix, writtenOut } from "../worked_terms.js";

/** @import { Address, CellIndex, ViewContext, WorkedExample, WorkedStep } from "../types.js" */
/** @import { Heatmap } from "../heatmap.js" */
/** @import { Matrices } from "../worked_terms.js" */
/**
 * @typedef {object} State
 * @property {string} kind  "self" or "cross"
 * @property {Record<string, string>} texts  the typed matrices by name
 * @property {boolean} scaled
 * @property {number | null} decimals  of the rounded weights
 * @property {string | null} cell  the chosen cell: step, row, column
 */

const SELF = ["x", "W_Q", "W_K", "W_V"];
const CROSS = ["x", "memory", "W_Q", "W_K", "W_V"];
/** The examples of the lessons: three tokens of self-attention, and two decoder tokens that attend to three. */
const EXAMPLES = {
  self: {
    x: "1,0,1,0;0,2,0,2;1,1,1,1",
    W_Q: "1,0,1;1,0,0;0,0,1;0,1,1",
    W_K: "0,0,1;1,1,0;0,1,0;1,1,0",
    W_V: "0,2,0;0,3,0;1,0,3;1,1,0",
  },
  cross: {
    x: "1,0,0;0,1,1",
    memory: "1,0,1;0,1,1;1,1,0",
    W_Q: "2,0,0,0;0,2,0,0;0,0,0,2",
    W_K: "1,0,1,0;0,1,0,1;1,1,0,0",
    W_V: "1,0,0,1;0,2,0,1;0,0,3,0",
  },
};
/** @type {Record<string, string>} the CSS variable of the colour of a matrix */
const COLOURS = { Q: "--query", K: "--key", V: "--value", output: "--value" };
const WAIT = 250; // milliseconds after the last key

/** @param {string} kind */
const namesOf = kind => (kind === "cross" ? CROSS : SELF);

/**
 * @param {Address} address
 * @returns {State}
 */
function initialState(address) {
  const kind = address.kind === "cross" ? "cross" : "self";
  /** @type {Record<string, string>} */
  const example = EXAMPLES[kind];
  const texts = namesOf(kind).map(name => [name, spacedMatrix(address[name] ?? example[name])]);
  return {
    kind,
    texts: Object.fromEntries(texts),
    scaled: address.scaled !== "0",
    decimals: /^[0-6]$/.test(address.decimals ?? "") ? Number(address.decimals) : null,
    cell: address.cell ?? null,
  };
}

/** @param {State} state */
function addressOf({ kind, texts, scaled, decimals, cell }) {
  /** @type {Record<string, string>} */
  const example = kind === "cross" ? EXAMPLES.cross : EXAMPLES.self;
  const typed = namesOf(kind).map(name => {
    const compact = compactMatrix(texts[name]);
    return [name, compact === example[name] ? null : compact];
  });
  return {
    kind: kind === "cross" ? kind : null,
    ...Object.fromEntries(typed),
    scaled: scaled ? null : 0,
    decimals,
    cell,
  };
}

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { address }) {
  const state = initialState(address);
  const result = h("div", { class: "view worked" });
  const compute = async () => {
    replaceAddress(addressOf(state));
    try {
      const { texts, scaled, decimals } = state;
      const example = await ifLatest(result, api.workedExample({ ...texts, scaled, decimals }));
      if (example) drawExample(result, example, state);
    } catch (error) {
      refill(result, errorMessage(error));
    }
  };
  place.append(inputPanel(state, compute), result);
  await compute();
}

// ---------------------------------------------------------------- what is typed

/**
 * @param {State} state
 * @param {() => void} compute
 */
function inputPanel(state, compute) {
  let waiting = 0;
  const change = /** @param {Partial<State>} changes */ changes => {
    Object.assign(state, { cell: null, ...changes });
    compute();
  };
  const editors = namesOf(state.kind).map(name => {
    const area = h("textarea", { rows: 4, spellcheck: "false", "aria-label": t(`matrix ${name}`) });
    area.value = state.texts[name];
    area.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = window.setTimeout(() => change({ texts: { ...state.texts, [name]: area.value } }), WAIT);
    });
    return h("label", { class: "matrix-input" }, h("span", {}, t(`matrix ${name}`)), area);
  });
  /** @type {(kind: string) => void} */
  const open = kind => navigate(link({ ...withoutMatrices(), kind: kind === "cross" ? kind : null }));
  const kinds = choice(
    t("attention of"),
    [
      ["self", t("worked self")],
      ["cross", t("worked cross")],
    ],
    state.kind,
    open,
  );
  const rounding = choice(
    t("round weights"),
    [
      ["", t("not rounded")],
      [2, t("decimals n", { n: 2 })],
      [1, t("decimal 1")],
    ],
    state.decimals ?? "",
    decimals => change({ decimals: decimals === "" ? null : Number(decimals) }),
  );
  const reset = h("button", { type: "button", class: "quiet", onclick: () => open(state.kind) }, t("worked reset"));
  return panel(
    h("h2", {}, t("worked title")),
    explanation(t(`worked says ${state.kind}`)),
    controls(kinds, reset),
    h("div", { class: "matrix-inputs" }, editors),
    explanation(t("worked format")),
    controls(
      checkbox(t("divide by root"), state.scaled, scaled => change({ scaled })),
      h("span", { class: "soft" }, t("round weights")),
      rounding,
    ),
  );
}

/** The address without the parameters of this view. */
function withoutMatrices() {
  const { run, text, target, question, view } = readAddress();
  return { view, run, text, target, question };
}

// ---------------------------------------------------------------- what is computed

/**
 * @param {HTMLElement} place
 * @param {WorkedExample} example
 * @param {State} state
 */
function drawExample(place, example, state) {
  const matrices = matricesOf(example);
  const [chosenStep, ...chosenCell] = (state.cell ?? "").split(",");
  const equations = example.steps.map((step, i) => {
    const chosen = step.name === chosenStep ? /** @type {CellIndex} */ (chosenCell.map(Number)) : null;
    const choose = /** @param {CellIndex} cell */ cell => {
      state.cell = [step.name, ...cell].join(",");
      replaceAddress({ cell: state.cell });
    };
    return equation(step, i + 1, matrices, chosen, choose);
  });
  const program = numpyProgram(example);
  refill(
    place,
    panel(
      h("h2", {}, t("worked steps")),
      explanation(t("worked hover")),
      h("ol", { class: "equations" }, equations),
      explanation(t("worked rounding note")),
      h(
        "div",
        { class: "numpy" },
        copyButton(t("copy as numpy"), () => program),
        h("details", {}, h("summary", {}, t("show numpy")), h("pre", { tabindex: "0" }, program)),
      ),
      foldedTable(() =>
        h(
          "div",
          {},
          Object.entries(matrices).map(([name, rows]) => matrixTable(name, rows)),
        ),
      ),
      exportButtons("worked-example", {
        drawing: () => tableDrawing(t("worked title"), tableRows(matrices, formatCell)),
        rows: () => tableRows(matrices, formatCsv),
      }),
    ),
  );
}

/**
 * @param {string} name
 * @param {number[][]} rows
 */
const matrixTable = (name, rows) =>
  dataTable(
    name,
    ["", ...rows[0].map((_, c) => String(c + 1))],
    rows.map((row, r) => [String(r + 1), ...row.map(formatShort)]),
  );

/**
 * All matrices as rows of equal length.
 *
 * @param {Matrices} matrices
 * @param {(x: number) => string} format
 */
function tableRows(matrices, format) {
  const width = Math.max(...Object.values(matrices).map(rows => rows[0].length));
  const heading = ["matrix", "row", ...Array.from({ length: width }, (_, c) => String(c + 1))];
  const rows = Object.entries(matrices).flatMap(([name, values]) =>
    values.map((row, r) => [name, String(r + 1), ...heading.slice(2).map((_, c) => (c in row ? format(row[c]) : ""))]),
  );
  return [heading, ...rows];
}

/**
 * One step: its operands, its result, and the cell under the pointer or chosen, written out.
 *
 * @param {WorkedStep} step
 * @param {number} number
 * @param {Matrices} matrices
 * @param {CellIndex | null} chosen
 * @param {(cell: CellIndex) => void} onchoose
 */
function equation(step, number, matrices, chosen, onchoose) {
  const { name, formula, values, operands } = step;
  const isInside = chosen !== null && chosen[0] in values && chosen[1] in values[0];
  let fixed = isInside ? chosen : null;
  const says = h("p", { class: "formula written-out", "aria-live": "polite" });
  const maps = operands.map(operand => matrixMap(operand, matrices[operand], { transposed: isKey(step, operand) }));
  const showCell = /** @param {CellIndex | null} cell */ cell => {
    const regions = cell ? step.cells[cell[0]][cell[1]] : [];
    maps.forEach((map, i) => {
      const own = regions.filter(region => region.matrix === operands[i]);
      const flip = isKey(step, operands[i]);
      map.highlight(own.map(({ row, column }) => (flip ? { row: column, column: row } : { row, column })));
    });
    if (!cell) return refill(says);
    const [row, column] = cell;
    const value = h("strong", {}, formatShort(values[row][column]));
    refill(says, `${name}[${row + 1}, ${column + 1}] = ${writtenOut(step, row, column, matrices)} = `, value);
  };
  const result = matrixMap(name, values, {
    chosen: fixed,
    onhover: cell => showCell(cell ?? fixed),
    onchoose: cell => {
      fixed = cell;
      showCell(cell);
      onchoose(cell);
    },
  });
  showCell(fixed);
  const title = h("h3", {}, `${number}. ${t(`worked step ${name}`)} `, h("span", { class: "soft" }, `${formula}`));
  const [first, second] = maps.map((map, i) => captioned(map, operands[i], matrices[operands[i]], step));
  return h(
    "li",
    {},
    title,
    h(
      "div",
      { class: "equation scroll" },
      operatorBefore(step),
      first,
      h("span", { class: "operator" }, second ? "×" : operatorAfter(step)),
      second,
      second && h("span", { class: "operator" }, "="),
      captioned(result, name, values, null),
    ),
    says,
  );
}

/** @type {(step: WorkedStep, operand: string) => boolean} */
const isKey = (step, operand) => step.name === "scores" && operand === "K";

/** @param {WorkedStep} step */
const operatorBefore = ({ name }) => {
  const text = { weights: "softmax", rounded_weights: "round" }[name];
  return text && h("span", { class: "operator" }, text);
};

/** @param {WorkedStep} step */
const operatorAfter = ({ name, constants }) =>
  name === "scaled_scores" ? `/ √${Math.round(constants.factor ** -2)} =` : "=";

/**
 * @param {Heatmap} map
 * @param {string} name
 * @param {number[][]} rows
 * @param {WorkedStep | null} step  the step that reads the matrix
 */
function captioned(map, name, rows, step) {
  const shape = [rows.length, rows[0].length];
  const transposed = step && isKey(step, name);
  if (transposed) shape.reverse();
  return h(
    "figure",
    { class: "matrix" },
    map,
    h("figcaption", {}, `${name}${transposed ? "ᵀ" : ""} `, h("span", { class: "soft" }, shape.join(" × "))),
  );
}

/**
 * @param {string} name
 * @param {number[][]} rows
 * @param {{ transposed?: boolean, chosen?: CellIndex | null, onhover?: (cell: CellIndex | null) => void,
 *   onchoose?: (cell: CellIndex) => void }} [options]
 */
function matrixMap(name, rows, { transposed = false, ...options } = {}) {
  const shown = transposed ? rows[0].map((_, c) => rows.map(row => row[c])) : rows;
  const numbers = Float64Array.from(shown.flat());
  return heatmap({
    numbers,
    rows: shown.length,
    columns: shown[0].length,
    label: withArrowKeys(name),
    hue: COLOURS[name] ?? "--weights",
    most: largestMagnitude(numbers),
    ...options,
  });
}
