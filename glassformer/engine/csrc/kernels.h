/* The computations that depend on the instruction set: one table of functions per set, chosen when the library loads.
 */
#ifndef GLASSFORMER_KERNELS_H
#define GLASSFORMER_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "training.h"

#define PANEL      16 /* outputs per panel of a packed matrix: one AVX-512 register of floats */
#define INPUT_STEP 64 /* int8 inputs are padded to a multiple of this: one AMX tile row */
#define ALIGNMENT  64 /* bytes: a cache line, and the widest vector */

#define QUANTIZE_MIN 1e-36f /* a row without a larger number is quantized to zeros: 127 / largest would overflow */

/* A weight matrix (outputs × inputs) packed for x·Wᵀ + b, in panels of PANEL outputs:
 *   fp32   [panel][input][16]
 *   int8   [panel][input / 4][16][4]: four neighbouring inputs of an output are one 32-bit lane, as VPDPBUSD, SDOT
 *          and the AMX tiles expect them. One layout serves every instruction set. */
typedef struct {
    int outputs, inputs, panels;
    int padded_inputs;      /* int8 */
    const float *fp32;      /* NULL for int8 */
    const int8_t *int8;     /* NULL for fp32 */
    const float *scales;    /* per output: weight = scale · int8 */
    const int32_t *offsets; /* per output: 128 · sum of its int8 weights, for kernels with unsigned activations */
    const float *bias;      /* per output, or NULL */
} Matrix;

typedef enum { STORE, STORE_RELU, ADD } Epilogue; /* out = y, out = max(0, y), out += y */

/* The operations of training.h. `attention_floats` is the size of the memory of both passes of attention.
 * `rotate` and the losses take one row; the losses need memory for `vocab` floats, the consistency for three times as
 * many. */
typedef struct {
    size_t (*attention_floats)(const gf_attention_shape *shape);
    void (*attention)(const gf_attention_shape *shape, const gf_heads *query, const gf_heads *key,
                      const gf_heads *value, const gf_heads *out, float *memory);
    void (*attention_backward)(const gf_attention_shape *shape, const gf_heads *query, const gf_heads *key,
                               const gf_heads *value, const gf_heads *grad_out, const gf_heads *grad_query,
                               const gf_heads *grad_key, const gf_heads *grad_value, float *memory);
    void (*rotate)(const uint16_t *x, const float *rotation, int size, float direction, uint16_t *out);
    double (*cross_entropy)(uint16_t *logits, int vocab, int64_t target, const float *bias, float smoothing,
                            float *values);
    double (*consistency)(uint16_t *first, uint16_t *second, int vocab, int64_t target, const float *bias,
                          float smoothing, float consistency, float *values);
    void (*add_dropout)(const float *x, const uint16_t *y, const uint8_t *bytes, ptrdiff_t count, int threshold,
                        float scale, float *out);
    void (*add_dropout_backward)(const float *grad, const uint8_t *bytes, ptrdiff_t count, int threshold, float scale,
                                 uint16_t *grad_y);
    void (*layer_norm)(const float *x, ptrdiff_t rows, int width, const float *weight, const float *bias, float epsilon,
                       uint16_t *out, float *statistics);
    void (*layer_norm_backward)(const uint16_t *grad, const float *x, const float *statistics, ptrdiff_t rows,
                                int width, const float *weight, float *grad_x, float *grad_weight, float *grad_bias);
} TrainingKernels;

typedef struct {
    const char *name;

    /* Quantize rows to int8, each with a scale of its own: x ≈ scale · q, q in −127 … 127. The rows of q are
     * `padded` apart; kernels with unsigned activations store q + 128. */
    void (*quantize)(const float *x, int rows, int width, int padded, uint8_t *q, float *scales);

    /* out (rows × outputs, `stride` floats apart) = x·Wᵀ + b. Every output is summed in the order of the inputs,
     * however many rows there are, so that a row does not depend on its neighbours. */
    void (*matmul_int8)(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, float *out, size_t stride,
                        Epilogue epilogue);
    void (*matmul_fp32)(const float *x, int rows, const Matrix *w, float *out, size_t stride, Epilogue epilogue);

    void (*layer_norm)(const float *x, int rows, int width, const float *weight, const float *bias, float epsilon,
                       float *out);

    /* Attention of one query with one head: softmax(q·Kᵀ / √size)·V. Keys and values are rows of `size` floats;
     * `rows` are the rows to attend to, or NULL for the first `length`. scores: room for `length` floats, rounded up
     * to whole panels. */
    void (*attend)(const float *query, const float *keys, const float *values, const int *rows, int length, int size,
                   float *scores, float *out);

    void (*activate)(int activation, float *x, size_t count);
    float (*maximum)(const float *x, int count);
    float (*sum_exp)(const float *x, int count, float shift); /* Σ exp(x − shift) */
    /* Write the indices ≥ start of entries above a threshold; stop when `room` are found. Return their number. */
    int (*above)(const float *x, int start, int count, float threshold, int *indices, int room);
    int (*first_equal)(const float *x, int count, float value); /* the index of the first such entry; −1: none */
#ifndef __wasm__
    const TrainingKernels *training;
#endif
} Kernels;

extern const Kernels kernels_scalar, kernels_avx2, kernels_avx512, kernels_amx, kernels_neon, kernels_simd128;

/* Bytes of quantized rows, with the rows that an AMX tile may read beyond the last. */
static inline size_t quantized_bytes(int rows, int inputs) {
    return ((size_t)rows + 16) * (((size_t)inputs + INPUT_STEP - 1) / INPUT_STEP * INPUT_STEP);
}

const Kernels *kernels(void); /* the table in use */

#endif
