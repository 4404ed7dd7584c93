// Ticks of a chart's axis.

const INTERVALS = 4; // about
const ROUND_STEPS = [1, 2, 2.5, 5, 10];
const MOST_DIGITS = 9;

/**
 * Round numbers at equal distances, from 0 to at least `most`.
 *
 * @param {number} most
 */
export function ticks(most) {
  if (!(most > 0)) return [0, 1];
  const rough = most / INTERVALS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (ROUND_STEPS.find(n => n * power >= rough * 0.999) ?? 10) * power;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
}

/**
 * @param {number} x
 * @param {number} digits
 */
function tickLabel(x, digits) {
  if (x === 0) return "0";
  const rounded = Number(x.toPrecision(digits));
  return x >= 0.001 && x < 1e5 ? String(rounded) : rounded.toExponential();
}

/**
 * Labels of ticks, with as many digits as are needed to write each of them exactly.
 *
 * @param {number[]} values
 */
export function tickLabels(values) {
  const tolerance = 1e-9 * values[values.length - 1];
  let digits = 1;
  while (digits < MOST_DIGITS && values.some(x => Math.abs(Number(tickLabel(x, digits)) - x) > tolerance)) digits++;
  return values.map(x => tickLabel(x, digits));
}
