/* Single operations, for tests against the NumPy reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "platform.h"

int gf_test_matmul(const float *x, int rows, int inputs, const float *weight, const float *bias, int outputs,
                   int precision, float *out) {
    Matrix w;
    void *memory = allocate_aligned(packed_matrix_bytes(outputs, inputs, precision));
    float *aligned_bias = allocate_aligned(sizeof(float) * ((size_t)outputs + PANEL));
    uint8_t *q = allocate_aligned(quantized_bytes(rows, inputs));
    float *scales = allocate_aligned(sizeof(float) * (size_t)rows);
    int code = GF_NO_MEMORY;
    if (memory && aligned_bias && q && scales) {
        memset(aligned_bias, 0, sizeof(float) * ((size_t)outputs + PANEL));
        if (bias) memcpy(aligned_bias, bias, sizeof(float) * (size_t)outputs);
        w = pack_matrix(weight, outputs, inputs, precision, memory);
        w.bias = bias ? aligned_bias : NULL;
        if (precision == GF_INT8) {
            kernels()->quantize(x, rows, inputs, w.padded_inputs, q, scales);
            kernels()->matmul_int8(q, scales, rows, &w, out, (size_t)outputs, STORE);
        } else {
            kernels()->matmul_fp32(x, rows, &w, out, (size_t)outputs, STORE);
        }
        code = GF_OK;
    }
    free_aligned(memory), free_aligned(aligned_bias), free_aligned(q), free_aligned(scales);
    return code;
}

int gf_test_layer_norm(const float *x, int rows, int width, const float *weight, const float *bias, float epsilon,
                       float *out) {
    kernels()->layer_norm(x, rows, width, weight, bias, epsilon, out);
    return GF_OK;
}

int gf_test_attention(const float *query, const float *keys, const float *values, const int32_t *rows, int length,
                      int size, float *out) {
    float *scores = malloc(sizeof *scores * (size_t)(length + PANEL));
    if (!scores) return GF_NO_MEMORY;
    kernels()->attend(query, keys, values, rows, length, size, scores, out);
    free(scores);
    return GF_OK;
}

int gf_test_activation(int activation, float *x, int count) {
    kernels()->activate(activation, x, (size_t)count);
    return GF_OK;
}

int gf_test_log_sum_exp(const float *x, int count, float *out) {
    const float largest = kernels()->maximum(x, count);
    *out = largest + logf(kernels()->sum_exp(x, count, largest));
    return GF_OK;
}
