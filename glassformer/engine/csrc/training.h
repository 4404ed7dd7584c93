/* Operations of training in bf16, which PyTorch calls on tensors of its own: forward and backward passes of everything
 * around the matrix products. All sums are in fp32. A call uses one thread, and several threads may call at a time.
 *
 * A bf16 number is the upper half of a float, here a uint16_t. */
#ifndef GLASSFORMER_TRAINING_H
#define GLASSFORMER_TRAINING_H

#include "engine.h"

/* A tensor of batch × heads × rows × size numbers. The numbers of a row are adjacent; the distances between the others
 * are counted in numbers, so that queries, keys and values may lie in the output of one projection. */
typedef struct {
    uint16_t *data;
    int64_t batch, head, row;
} gf_heads;

typedef struct {
    int32_t batch, heads, queries, keys, size;
    int32_t causal;    /* query i sees the keys ≤ i */
    float scale;       /* of the scores */
    const float *mask; /* NULL, or batch × keys numbers that are added to the scores of every query */
} gf_attention_shape;

/* out = softmax(scale · query·keyᵀ + mask)·value, and its gradients. The weights of a query that sees no key are 0. */
GF_API int gf_train_attention(const gf_attention_shape *shape, const gf_heads *query, const gf_heads *key,
                              const gf_heads *value, const gf_heads *out);
GF_API int gf_train_attention_backward(const gf_attention_shape *shape, const gf_heads *query, const gf_heads *key,
                                       const gf_heads *value, const gf_heads *grad_out, const gf_heads *grad_query,
                                       const gf_heads *grad_key, const gf_heads *grad_value);

/* Rotate each pair of numbers (2i, 2i + 1) of every row by an angle; direction −1 rotates back (the gradient).
 *   rotation  sines and cosines, interleaved: `size` floats per row, or for all rows (rotation_rows = 1) */
GF_API int gf_train_rotate(int32_t batch, int32_t heads, int32_t rows, int32_t size, const gf_heads *x,
                           const float *rotation, int32_t rotation_rows, int32_t direction, const gf_heads *out);

/* Label-smoothed cross-entropy of rows of logits, summed into *loss: the label of the target is 1 − smoothing +
 * smoothing / vocab, of every other token smoothing / vocab. The logits are replaced by their gradients.
 *   bias      NULL, or numbers that are added to the logits of every row */
GF_API int gf_train_cross_entropy(uint16_t *logits, int64_t rows, int32_t vocab, const int64_t *targets,
                                  const float *bias, float smoothing, double *loss);

/* The loss of two passes over the same rows (R-Drop), with the logits p and q of each:
 * (CE(p) + CE(q)) / 2 + consistency / 4 · (KL(p‖q) + KL(q‖p)). Otherwise like gf_train_cross_entropy. */
GF_API int gf_train_consistency(uint16_t *first, uint16_t *second, int64_t rows, int32_t vocab, const int64_t *targets,
                                const float *bias, float smoothing, float consistency, double *loss);

/* Dropout and residual connection: out = x + y · scale where byte ≥ threshold, and x elsewhere. The gradient of y. */
GF_API int gf_train_add_dropout(const float *x, const uint16_t *y, const uint8_t *bytes, int64_t count,
                                int32_t threshold, float scale, float *out);
GF_API int gf_train_add_dropout_backward(const float *grad, const uint8_t *bytes, int64_t count, int32_t threshold,
                                         float scale, uint16_t *grad_y);

/* Layer normalization of fp32 rows to bf16. `statistics` receives the mean and 1 / deviation of each row, which the
 * backward pass takes. It adds to grad_weight and grad_bias. */
GF_API int gf_train_layer_norm(const float *x, int64_t rows, int32_t width, const float *weight, const float *bias,
                               float epsilon, uint16_t *out, float *statistics);
GF_API int gf_train_layer_norm_backward(const uint16_t *grad, const float *x, const float *statistics, int64_t rows,
                                        int32_t width, const float *weight, float *grad_x, float *grad_weight,
                                        float *grad_bias);

#endif
