// Colours of numbers in a heat map.

/** @typedef {[number, number, number]} Colour  red, green, blue, 0 to 255 */
/** @typedef {{ zero: Colour, positive: Colour, negative: Colour, infinite: Colour }} Palette */

/**
 * "#1f77b4" → [31, 119, 180].
 *
 * @param {string} hex
 * @returns {Colour}
 */
export const parseHex = hex => [
  parseInt(hex.slice(1, 3), 16),
  parseInt(hex.slice(3, 5), 16),
  parseInt(hex.slice(5, 7), 16),
];

/**
 * Return a function from a number to its colour: linear from `zero` at 0 to `positive` at `most` and to `negative` at
 * −most. Infinities and NaN have the colour `infinite`.
 *
 * @param {Palette} palette
 * @param {number} most
 * @returns {(x: number) => Colour}
 */
export function colourScale({ zero, positive, negative, infinite }, most) {
  return x => {
    if (!Number.isFinite(x)) return infinite;
    const strength = most > 0 ? Math.min(1, Math.abs(x) / most) : 0;
    const end = x < 0 ? negative : positive;
    /** @param {0 | 1 | 2} channel */
    const mix = channel => Math.round(zero[channel] + (end[channel] - zero[channel]) * strength);
    return [mix(0), mix(1), mix(2)];
  };
}

/**
 * Black or white, whichever has the higher contrast with a colour.
 *
 * @param {Colour} colour
 * @returns {Colour}
 */
export function readableOn(colour) {
  const [red, green, blue] = colour.map(value => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  // Contrast (WCAG 2): above this luminance black text has a higher contrast than white text.
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? [0, 0, 0] : [255, 255, 255];
}
