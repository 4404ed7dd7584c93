/* The operations of training.h: arguments are checked here, and the kernels of this CPU called. */
#ifndef __wasm__ /* nothing is trained in a browser */
#include "training.h"

#include "kernels.h"
#include "platform.h"

static int valid(const gf_attention_shape *s) {
    return s->batch >= 0 && s->heads > 0 && s->queries > 0 && s->keys > 0 && s->size > 0 && s->queries < 1 << 15 &&
           s->keys < 1 << 15 && s->size < 1 << 15;
}

static float *attention_memory(const gf_attention_shape *s) {
    return allocate_aligned(sizeof(float) * kernels()->training->attention_floats(s));
}

int gf_train_attention(const gf_attention_shape *shape, const gf_heads *query, const gf_heads *key,
                       const gf_heads *value, const gf_heads *out) {
    if (!valid(shape)) return GF_BAD_ARGUMENT;
    float *memory = attention_memory(shape);
    if (!memory) return GF_NO_MEMORY;
    kernels()->training->attention(shape, query, key, value, out, memory);
    free_aligned(memory);
    return GF_OK;
}

int gf_train_attention_backward(const gf_attention_shape *shape, const gf_heads *query, const gf_heads *key,
                                const gf_heads *value, const gf_heads *grad_out, const gf_heads *grad_query,
                                const gf_heads *grad_key, const gf_heads *grad_value) {
    if (!valid(shape)) return GF_BAD_ARGUMENT;
    float *memory = attention_memory(shape);
    if (!memory) return GF_NO_MEMORY;
    kernels()->training->attention_backward(shape, query, key, value, grad_out, grad_query, grad_key, grad_value,
                                            memory);
    free_aligned(memory);
    return GF_OK;
}

int gf_train_rotate(int32_t batch, int32_t heads, int32_t rows, int32_t size, const gf_heads *x, const float *rotation,
                    int32_t rotation_rows, int32_t direction, const gf_heads *out) {
    if (batch < 0 || heads < 0 || size < 0 || size % 2 || (rotation_rows != 1 && rotation_rows != rows))
        return GF_BAD_ARGUMENT;
    const ptrdiff_t stride = rotation_rows == 1 ? 0 : size;
    for (int32_t b = 0; b < batch; b++)
        for (int32_t t = 0; t < rows; t++)
            for (int32_t h = 0; h < heads; h++)
                kernels()->training->rotate(x->data + b * x->batch + h * x->head + t * x->row, rotation + t * stride,
                                            size, (float)direction,
                                            out->data + b * out->batch + h * out->head + t * out->row);
    return GF_OK;
}

static int valid_targets(const int64_t *targets, int64_t rows, int32_t vocab) {
    if (vocab <= 0 || vocab > GF_MAX_VOCAB) return 0;
    for (int64_t r = 0; r < rows; r++)
        if (targets[r] < 0 || targets[r] >= vocab) return 0;
    return 1;
}

int gf_train_cross_entropy(uint16_t *logits, int64_t rows, int32_t vocab, const int64_t *targets, const float *bias,
                           float smoothing, double *loss) {
    if (!valid_targets(targets, rows, vocab)) return GF_BAD_ARGUMENT;
    float *values = allocate_aligned(sizeof(float) * (size_t)vocab);
    if (!values) return GF_NO_MEMORY;
    *loss = 0;
    for (int64_t r = 0; r < rows; r++, logits += vocab)
        *loss += kernels()->training->cross_entropy(logits, vocab, targets[r], bias, smoothing, values);
    free_aligned(values);
    return GF_OK;
}

int gf_train_consistency(uint16_t *first, uint16_t *second, int64_t rows, int32_t vocab, const int64_t *targets,
                         const float *bias, float smoothing, float consistency, double *loss) {
    if (!valid_targets(targets, rows, vocab)) return GF_BAD_ARGUMENT;
    float *values = allocate_aligned(3 * sizeof(float) * (size_t)vocab);
    if (!values) return GF_NO_MEMORY;
    *loss = 0;
    for (int64_t r = 0; r < rows; r++, first += vocab, second += vocab)
        *loss +=
            kernels()->training->consistency(first, second, vocab, targets[r], bias, smoothing, consistency, values);
    free_aligned(values);
    return GF_OK;
}

int gf_train_add_dropout(const float *x, const uint16_t *y, const uint8_t *bytes, int64_t count, int32_t threshold,
                         float scale, float *out) {
    kernels()->training->add_dropout(x, y, bytes, (ptrdiff_t)count, threshold, scale, out);
    return GF_OK;
}

int gf_train_add_dropout_backward(const float *grad, const uint8_t *bytes, int64_t count, int32_t threshold,
                                  float scale, uint16_t *grad_y) {
    kernels()->training->add_dropout_backward(grad, bytes, (ptrdiff_t)count, threshold, scale, grad_y);
    return GF_OK;
}

int gf_train_layer_norm(const float *x, int64_t rows, int32_t width, const float *weight, const float *bias,
                        float epsilon, uint16_t *out, float *statistics) {
    kernels()->training->layer_norm(x, (ptrdiff_t)rows, width, weight, bias, epsilon, out, statistics);
    return GF_OK;
}

int gf_train_layer_norm_backward(const uint16_t *grad, const float *x, const float *statistics, int64_t rows,
                                 int32_t width, const float *weight, float *grad_x, float *grad_weight,
                                 float *grad_bias) {
    kernels()->training->layer_norm_backward(grad, x, statistics, (ptrdiff_t)rows, width, weight, grad_x, grad_weight,
                                             grad_bias);
    return GF_OK;
}

#endif
