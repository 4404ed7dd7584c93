// Names of the tensors of a residual stream.

import { t } from "../i18n.js";
import { layerLabel } from "../labels.js";
import { STREAM_ENDS, lastPart } from "../tensor_names.js";

/**
 * "decoder.0.self.residual" → "layer 1, self-attention"; the input and the output of the stream have names of their own.
 *
 * @param {string} name
 */
export function streamLabel(name) {
  const last = lastPart(name);
  if (STREAM_ENDS.includes(last)) return t(`end ${last}`);
  const [, layer, subLayer] = name.split(".");
  return `${layerLabel(Number(layer))}, ${t(`sub-layer ${subLayer}`)}`;
}
