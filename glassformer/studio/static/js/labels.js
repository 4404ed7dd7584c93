// Names of layers, heads, blocks and tensors for people. Layers and heads are counted from 1.

import { hasMessage, t } from "./i18n.js";
import { lastPart } from "./tensor_names.js";

/** @import { Head } from "./attention_weights.js" */
/** @import { Block } from "./types.js" */

/** @param {number} layer */
export const layerLabel = layer => t("layer n", { n: layer + 1 });

/** @param {number} head */
export const headLabel = head => t("head n", { n: head + 1 });

/**
 * @param {number} layer
 * @param {Head} head
 */
export const layerAndHead = (layer, head) =>
  head === "mean"
    ? `${layerLabel(layer)}, ${t("mean of heads")}`
    : t("layer and head", { layer: layer + 1, head: head + 1 });

/**
 * "attention scores"; a name of the model's code, without its underscores, if there is no text for it. A gradient has
 * the label of its tensor after "∂L/∂".
 *
 * @param {string} name
 */
export function tensorLabel(name) {
  const last = lastPart(name);
  const label = hasMessage(`tensor ${last}`) ? t(`tensor ${last}`) : last.replaceAll("_", " ");
  return name.startsWith("gradient.") ? `∂L/∂(${label})` : label;
}

/**
 * The direction of a layer of a bidirectional model: "forward"; empty for other blocks.
 *
 * @param {Block} block
 */
export function blockDirection({ id, layer }) {
  const direction = layer !== null && ["forwards", "backwards"].find(way => id.split(".").includes(way));
  return direction ? t(`direction ${direction}`) : "";
}

/**
 * Where a block is: "encoder, layer 1".
 *
 * @param {Block} block
 */
export function blockPlace(block) {
  const { side, layer } = block;
  const parts = [
    hasMessage(`side ${side}`) && t(`side ${side}`),
    layer !== null && layerLabel(layer),
    blockDirection(block),
  ];
  return parts.filter(Boolean).join(", ");
}

/**
 * A sub-layer by its name in the model: "encoder.0.self" → "encoder, layer 1, self-attention". Other names stay.
 *
 * @param {string} scope
 */
export function scopeLabel(scope) {
  const [side, layer, part] = scope.split(".");
  if (!/^\d+$/.test(layer) || !hasMessage(`sub-layer ${part}`)) return scope;
  return [t(`side ${side}`), layerLabel(Number(layer)), t(`sub-layer ${part}`)].join(", ");
}
