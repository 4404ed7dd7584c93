// Arithmetic on rows of numbers, in double precision: what a view computes from the numbers that it was sent.

/** Row `r` of a matrix that is `width` wide. */
export const rowOf = (numbers, width, r) => numbers.subarray(r * width, (r + 1) * width);
export const columnOf = (numbers, width, c) =>
  Float64Array.from({ length: numbers.length / width }, (_, r) => numbers[r * width + c]);

export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
export const length = a => Math.sqrt(dot(Float64Array.from(a), a));
export const sum = (a, b) => Float64Array.from(a, (x, i) => x + b[i]);

/** The products of all rows of one matrix with all rows of another, as one list. */
export function products(a, b, width) {
  const [A, B] = [a, b].map(numbers => Array.from({ length: numbers.length / width },
    (_, r) => Float64Array.from(rowOf(numbers, width, r))));
  return Float64Array.from(A.flatMap(row => B.map(other => dot(row, other))));
}

/** Mean and deviation, as normalisation takes them. */
export function statistics(numbers, epsilon = 0) {
  const values = Float64Array.from(numbers), mean = values.reduce((a, x) => a + x, 0) / values.length;
  const variance = values.reduce((a, x) => a + (x - mean) ** 2, 0) / values.length;
  return { mean, deviation: Math.sqrt(variance + epsilon) };
}
