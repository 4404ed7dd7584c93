// Where a token stands, and what it may see: positions by themselves, positions in the sentence, masks.

import { note } from "../address.js";
import { choice, h } from "../dom.js";
import { say } from "../i18n.js";
import { masksPart } from "./masks.js";
import { togetherPart } from "./together.js";
import { wavesPart } from "./waves.js";

const PARTS = { table: wavesPart, together: togetherPart, masks: masksPart };

export async function show(place, { trace, address }) {
  const inner = h("div", { class: "view" });
  const open = async part => {
    note({ part });
    await PARTS[part](inner, trace, address);
  };
  const part = Object.hasOwn(PARTS, address.part ?? "") ? address.part : "table";
  place.append(h("div", { class: "controls tight" },
    choice(say("view positions"), Object.keys(PARTS).map(name => [name, say(`part ${name}`)]), part, open)), inner);
  await open(part);
}
