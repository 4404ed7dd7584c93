// Positions and masks, in four parts: positional encodings, word order, embedding plus encoding, and masks.

import { replaceAddress } from "../address.js";
import { choice, h, ifLatest } from "../dom.js";
import { t } from "../i18n.js";
import { addOrConcatenatePart } from "./add_or_concatenate.js";
import { masksPart } from "./masks.js";
import { orderPart } from "./word_order.js";
import { positionalEncodingPart } from "./positional_encoding.js";

/** @import { Address, Trace, ViewContext } from "../types.js" */

/** @type {Record<string, (place: HTMLElement, trace: Trace, address: Address) => Promise<void>>} by name in the address */
const PARTS = { table: positionalEncodingPart, order: orderPart, together: addOrConcatenatePart, masks: masksPart };
const DEFAULT_PART = "table";

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { trace, address }) {
  let content = h("div", {});
  const open = async (/** @type {string} */ part) => {
    replaceAddress({ part });
    // Each part draws in an element of its own: the previous one may still be waiting for the server.
    const opened = h("div", { class: "view" });
    content.replaceWith(opened);
    content = opened;
    await ifLatest(place, PARTS[part](content, trace, address));
  };
  const names = Object.keys(PARTS);
  const part = names.find(name => name === address.part) ?? DEFAULT_PART;
  const partChoice = choice(
    t("view positions"),
    names.map(name => [name, t(`part ${name}`)]),
    part,
    open,
  );
  place.append(h("div", { class: "controls tight" }, partChoice), content);
  await open(part);
}
