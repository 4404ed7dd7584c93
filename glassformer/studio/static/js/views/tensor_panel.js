// A panel with one tensor that was chosen in a figure, cell by cell: the same as in the worksheet.

import { isEmbedded, replaceAddress } from "../address.js";
import { controls } from "../components.js";
import { choice, h, refill } from "../dom.js";
import { rememberFocus } from "../focus.js";
import { t } from "../i18n.js";
import { tensorLabel } from "../labels.js";
import { exactNamesCheckbox } from "./exact_names.js";
import { drawTensor } from "./tensor.js";

/** @import { Address, Trace } from "../types.js" */
/** @import { WorksheetState } from "./tensor.js" */
/** @typedef {{ title: string, tensors: string[] }} TensorGroup  tensors to choose from, under one title */

const FRAME_MARGIN = 8; // pixels above the panel in the frame of a lesson

/**
 * The cell of an address: "0,3" → [0, 3].
 *
 * @param {string | undefined} text
 */
const readCell = text => (text && /^\d+(,\d+)*$/.test(text) ? text.split(",").map(Number) : null);

/** Shows one tensor of a group; the address names the tensor and the cell. */
export class TensorPanel {
  /**
   * @param {Trace} trace
   * @param {TensorGroup[]} groups
   * @param {Address} address
   */
  constructor(trace, groups, address) {
    this.trace = trace;
    this.groups = groups;
    this.element = h("section", { class: "panel detail", "aria-live": "off" });
    /** @type {HTMLElement | null} */
    this.content = null; // what was drawn last, or is being drawn
    /** @type {WorksheetState} */
    this.state = {
      layer: 0,
      block: undefined,
      tensor: address.tensor,
      head: Number(address.head) || 0,
      row: 0,
      cell: readCell(address.cell),
      wide: false,
    };
  }

  /** Draw the tensor of the address, or the one that is named. @param {string} fallback */
  async start(fallback) {
    if (!this.state.tensor || !(this.state.tensor in this.trace.tensors)) {
      Object.assign(this.state, { tensor: fallback, cell: null, head: 0 });
    }
    const named = this.state.tensor !== fallback || this.state.cell !== null;
    await this.draw();
    if (isEmbedded() && named) requestAnimationFrame(() => this.scrollFrame());
  }

  /**
   * Show another tensor, and scroll to it if it is out of sight.
   *
   * @param {string} tensor
   * @param {number[] | null} [cell]
   */
  async open(tensor, cell = null) {
    await this.show({ tensor, cell, row: cell?.at(-2) ?? 0, head: cell?.length === 3 ? cell[0] : this.state.head });
    const { top } = this.element.getBoundingClientRect();
    if (top > innerHeight / 2) this.element.scrollIntoView({ block: "start" });
  }

  /** @param {Partial<WorksheetState>} changes */
  async show(changes) {
    Object.assign(this.state, changes);
    this.note();
    await this.draw();
  }

  note() {
    const { tensor, head, cell } = this.state;
    replaceAddress({ tensor, head: head || null, cell: cell?.join(",") });
  }

  async draw() {
    const { tensor = "" } = this.state;
    const group = this.groups.find(({ tensors }) => tensors.includes(tensor));
    const content = h("div", {});
    const restoreFocus = rememberFocus(this.element);
    this.content = content;
    this.element.inert = true; // the tensor that is still shown must not take a choice meant for the next one
    try {
      await drawTensor(content, this.trace, this.state, {
        redraw: changes => this.show(changes),
        choose: changes => {
          Object.assign(this.state, changes);
          this.note();
        },
      });
    } catch (error) {
      if (this.content === content) throw error; // the error of an earlier tensor is of no interest
    } finally {
      this.element.inert = this.content !== content;
    }
    if (this.content !== content) return; // another tensor was chosen meanwhile
    refill(
      this.element,
      h("h2", { tabindex: "-1" }, group?.title ?? tensorLabel(tensor)),
      group &&
        choice(
          t("matrices"),
          group.tensors.map(name => [name, tensorLabel(name)]),
          tensor,
          chosen => this.show({ tensor: chosen, cell: null, row: 0 }),
        ),
      content,
      controls(exactNamesCheckbox(this.element)),
    );
    restoreFocus();
  }

  /** Scroll the frame of a lesson, but not the lesson, to this panel. */
  scrollFrame() {
    const { top } = this.element.getBoundingClientRect();
    if (top > innerHeight / 2) scrollTo(0, scrollY + top - FRAME_MARGIN);
  }
}
