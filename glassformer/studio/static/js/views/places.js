// What the places of the residual stream are called.

import { say } from "../i18n.js";

export const ENDS = ["input", "memory", "hidden"];
export const last = name => name.split(".").at(-1);

/** "decoder.0.self.residual" → "0 self-attention"; the ends by their own names. */
export const placeName = name => (ENDS.includes(last(name)) ? say(`end ${last(name)}`)
  : `${name.split(".")[1]} ${say(`sub-layer ${name.split(".")[2]}`)}`);
