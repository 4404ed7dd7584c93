/* The kernels of training.h. kernels.c includes this file and thus compiles it once per instruction set. */

static inline float from_bf16(uint16_t x) {
    union {
        uint32_t bits;
        float value;
    } number = {.bits = (uint32_t)x << 16};
    return number.value;
}

/* Round to the nearest bf16 number, and to the even one of two. */
static inline uint16_t to_bf16(float x) {
    union {
        float value;
        uint32_t bits;
    } number = {.value = x};
    const uint32_t rounded = (number.bits + 0x7fff + (number.bits >> 16 & 1)) >> 16;
    return (uint16_t)(x == x ? rounded : 0x7fc0);
}

#define PRODUCT_ROWS 4

static inline
    __attribute__((always_inline)) void product_tile(const float *a, size_t row, size_t column, const int rows,
                                                     int inner, const float *b, int columns, float *out) {
    Vector sum[PRODUCT_ROWS][PANEL / LANES];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < PANEL / LANES; v++) sum[r][v] = (Vector){0};
    for (int i = 0; i < inner; i++, a += column, b += columns)
#pragma GCC unroll 4
        for (int v = 0; v < PANEL / LANES; v++) {
            const Vector right = load(b + v * LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) sum[r][v] += a[(size_t)r * row] * right;
        }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < PANEL / LANES; v++)
            memcpy(out + (size_t)r * (size_t)columns + v * LANES, &sum[r][v], sizeof(Vector));
}

/* out (rows × columns) = a (rows × inner) · b (inner × columns); columns is a multiple of PANEL. Entry (r, i) of a is
 * at r · row + i · column, so that a may be a transposed matrix. */
static void product(const float *a, size_t row, size_t column, int rows, int inner, const float *b, int columns,
                    float *out) {
    for (int c = 0; c < columns; c += PANEL)
        for (int r = 0; r < rows; r += PRODUCT_ROWS) {
            const float *from = a + (size_t)r * row;
            float *to = out + (size_t)r * (size_t)columns + c;
            switch (rows - r) {
            case 1: product_tile(from, row, column, 1, inner, b + c, columns, to); break;
            case 2: product_tile(from, row, column, 2, inner, b + c, columns, to); break;
            case 3: product_tile(from, row, column, 3, inner, b + c, columns, to); break;
            default: product_tile(from, row, column, PRODUCT_ROWS, inner, b + c, columns, to);
            }
        }
}

/* The matrices of one head in fp32. Rows are padded with zeros to whole panels: `size` and `keys` are padded. */
typedef struct {
    int size, keys;
    float *query;                           /* times the scale */
    float *key, *value, *keys_t, *values_t; /* …_t: transposed */
    float *weights, *grad_weights;          /* queries × keys */
    float *grad_out, *result;               /* queries × size; result: also keys × size */
    float *mask;                            /* of the keys; −∞ in the padding */
} Head;

static int whole_panels(int count) { return (count + PANEL - 1) / PANEL * PANEL; }

/* Return the matrices in `memory`, or count the floats that they need if it is NULL. */
static size_t lay_out_head(const gf_attention_shape *s, float *memory, Head *head) {
    const int size = whole_panels(s->size), keys = whole_panels(s->keys);
    const size_t of_queries = (size_t)s->queries * (size_t)size, of_keys = (size_t)keys * (size_t)size,
                 of_weights = (size_t)s->queries * (size_t)keys;
    float **const parts[] = {&head->query,    &head->grad_out, &head->key,     &head->value,        &head->keys_t,
                             &head->values_t, &head->result,   &head->weights, &head->grad_weights, &head->mask};
    const size_t sizes[] = {
        of_queries, of_queries, of_keys,     of_keys, of_keys, of_keys, of_queries > of_keys ? of_queries : of_keys,
        of_weights, of_weights, (size_t)keys};
    size_t total = 0;
    head->size = size, head->keys = keys;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *parts[i] = memory ? memory + total : NULL;
        total += sizes[i];
    }
    return total;
}

static void load_rows(const gf_heads *x, int b, int h, int rows, int size, float factor, int padded, float *out) {
    const uint16_t *from = x->data + b * x->batch + h * x->head;
    for (int r = 0; r < rows; r++, from += x->row, out += padded) {
#pragma omp simd
        for (int e = 0; e < size; e++) out[e] = from_bf16(from[e]) * factor;
        for (int e = size; e < padded; e++) out[e] = 0;
    }
}

static void store_rows(const float *x, int padded, float factor, int rows, int size, const gf_heads *out, int b,
                       int h) {
    uint16_t *to = out->data + b * out->batch + h * out->head;
    for (int r = 0; r < rows; r++, to += out->row, x += padded)
#pragma omp simd
        for (int e = 0; e < size; e++) to[e] = to_bf16(x[e] * factor);
}

static void transpose(const float *x, int rows, int columns, int padded_rows, float *out) {
    for (int c = 0; c < columns; c++, out += padded_rows) {
        for (int r = 0; r < rows; r++) out[r] = x[(size_t)r * (size_t)columns + (size_t)c];
        for (int r = rows; r < padded_rows; r++) out[r] = 0;
    }
}

static void load_mask(const gf_attention_shape *s, int b, const Head *head) {
    for (int k = 0; k < head->keys; k++) {
        const float value = s->mask ? s->mask[(size_t)b * (size_t)s->keys + (size_t)(k < s->keys ? k : 0)] : 0;
        head->mask[k] = k < s->keys ? value : -INFINITY;
    }
}

/* Softmax of the scores of a query that sees the first `visible` keys. */
static void softmax_row(float *x, const float *mask, int visible, int count) {
    float shift = -INFINITY, sum = 0;
#pragma omp simd reduction(max : shift)
    for (int k = 0; k < count; k++) {
        x[k] = k < visible ? x[k] + mask[k] : -INFINITY;
        shift = x[k] > shift ? x[k] : shift;
    }
    shift = shift == -INFINITY ? 0 : shift;
#pragma omp simd reduction(+ : sum)
    for (int k = 0; k < count; k++) {
        const float value = exponential(x[k] - shift);
        x[k] = x[k] == -INFINITY ? 0 : value;
        sum += x[k];
    }
    const float inverse = sum == 0 ? 0 : 1 / sum;
#pragma omp simd
    for (int k = 0; k < count; k++) x[k] *= inverse;
}

/* Load queries, keys and values of a head, and compute the attention weights. */
static void weigh(const gf_attention_shape *s, const gf_heads *query, const gf_heads *key, const gf_heads *value, int b,
                  int h, const Head *head) {
    load_rows(query, b, h, s->queries, s->size, s->scale, head->size, head->query);
    load_rows(key, b, h, s->keys, s->size, 1, head->size, head->key);
    load_rows(value, b, h, s->keys, s->size, 1, head->size, head->value);
    transpose(head->key, s->keys, head->size, head->keys, head->keys_t);
    product(head->query, (size_t)head->size, 1, s->queries, s->size, head->keys_t, head->keys, head->weights);
    for (int q = 0; q < s->queries; q++)
        softmax_row(head->weights + (size_t)q * (size_t)head->keys, head->mask, s->causal ? q + 1 : s->keys,
                    head->keys);
}

static void train_attention(const gf_attention_shape *s, const gf_heads *query, const gf_heads *key,
                            const gf_heads *value, const gf_heads *out, float *memory) {
    Head head;
    lay_out_head(s, memory, &head);
    for (int b = 0; b < s->batch; b++) {
        load_mask(s, b, &head);
        for (int h = 0; h < s->heads; h++) {
            weigh(s, query, key, value, b, h, &head);
            product(head.weights, (size_t)head.keys, 1, s->queries, s->keys, head.value, head.size, head.result);
            store_rows(head.result, head.size, 1, s->queries, s->size, out, b, h);
        }
    }
}

/* Turn the gradient of the weights into that of the scores: weight · (gradient − Σ weight · gradient), per query. */
static void softmax_backward(const float *weights, float *grad, int rows, int columns) {
    for (int r = 0; r < rows; r++, weights += columns, grad += columns) {
        float mean = 0;
#pragma omp simd reduction(+ : mean)
        for (int k = 0; k < columns; k++) mean += weights[k] * grad[k];
#pragma omp simd
        for (int k = 0; k < columns; k++) grad[k] = weights[k] * (grad[k] - mean);
    }
}

static void train_attention_backward(const gf_attention_shape *s, const gf_heads *query, const gf_heads *key,
                                     const gf_heads *value, const gf_heads *grad_out, const gf_heads *grad_query,
                                     const gf_heads *grad_key, const gf_heads *grad_value, float *memory) {
    Head head;
    lay_out_head(s, memory, &head);
    const size_t size = (size_t)head.size, keys = (size_t)head.keys;
    for (int b = 0; b < s->batch; b++) {
        load_mask(s, b, &head);
        for (int h = 0; h < s->heads; h++) {
            weigh(s, query, key, value, b, h, &head);
            load_rows(grad_out, b, h, s->queries, s->size, 1, head.size, head.grad_out);
            product(head.weights, 1, keys, s->keys, s->queries, head.grad_out, head.size, head.result);
            store_rows(head.result, head.size, 1, s->keys, s->size, grad_value, b, h);
            transpose(head.value, s->keys, head.size, head.keys, head.values_t);
            product(head.grad_out, size, 1, s->queries, s->size, head.values_t, head.keys, head.grad_weights);
            softmax_backward(head.weights, head.grad_weights, s->queries, head.keys);
            product(head.grad_weights, keys, 1, s->queries, s->keys, head.key, head.size, head.result);
            store_rows(head.result, head.size, s->scale, s->queries, s->size, grad_query, b, h);
            product(head.grad_weights, 1, keys, s->keys, s->queries, head.query, head.size, head.result);
            store_rows(head.result, head.size, 1, s->keys, s->size, grad_key, b, h);
        }
    }
}

static size_t attention_floats(const gf_attention_shape *s) {
    Head head;
    return lay_out_head(s, NULL, &head);
}

static void train_rotate(const uint16_t *x, const float *rotation, int size, float direction, uint16_t *out) {
#pragma omp simd
    for (int i = 0; i < size; i += 2) {
        const float even = from_bf16(x[i]), odd = from_bf16(x[i + 1]);
        const float sine = rotation[i] * direction, cosine = rotation[i + 1];
        out[i] = to_bf16(even * cosine - odd * sine);
        out[i + 1] = to_bf16(even * sine + odd * cosine);
    }
}

/* Load the logits of a row, with their bias; return the highest. */
static float load_logits(const uint16_t *logits, int vocab, const float *bias, float *out) {
    float highest = -INFINITY;
#pragma omp simd
    for (int i = 0; i < vocab; i++) out[i] = from_bf16(logits[i]);
    if (bias)
#pragma omp simd
        for (int i = 0; i < vocab; i++) out[i] += bias[i];
#pragma omp simd reduction(max : highest)
    for (int i = 0; i < vocab; i++) highest = out[i] > highest ? out[i] : highest;
    return highest;
}

/* Cross-entropy of one row, whose logits are replaced by their gradients. `values`: memory for `vocab` floats. */
static double train_cross_entropy(uint16_t *logits, int vocab, int64_t target, const float *bias, float smoothing,
                                  float *values) {
    const float highest = load_logits(logits, vocab, bias, values);
    const float at_target = values[target], label = smoothing / (float)vocab;
    float sum = 0, partition = 0;
#pragma omp simd reduction(+ : sum, partition)
    for (int i = 0; i < vocab; i++) {
        sum += values[i];
        values[i] = exponential(values[i] - highest);
        partition += values[i];
    }
    /* d loss / d logits = softmax − smoothed label */
    const float inverse = 1 / partition;
#pragma omp simd
    for (int i = 0; i < vocab; i++) logits[i] = to_bf16(values[i] * inverse - label);
    logits[target] = to_bf16(values[target] * inverse - label - (1 - smoothing));
    return (double)(logf(partition) + highest - (1 - smoothing) * at_target - label * sum);
}

/* Load the log-probabilities of a row; return the cross-entropy. */
static float load_log_softmax(const uint16_t *logits, int vocab, int64_t target, const float *bias, float smoothing,
                              float *out) {
    const float highest = load_logits(logits, vocab, bias, out);
    const float shift = highest + logf(sum_exp(out, vocab, highest));
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < vocab; i++) {
        out[i] -= shift;
        sum += out[i];
    }
    return (smoothing - 1) * out[target] - smoothing / (float)vocab * sum;
}

/* The gradient of one logit with probability p, which is q in the other pass; d = log p − log q. See
 * gf_train_consistency. */
static inline float consistency_gradient(float p, float q, float d, float divergence, float weight, float label) {
    return weight * ((d - divergence + 1) * p - q) + (p - label) / 2;
}

/* The loss of a row of two passes, whose logits are replaced by their gradients. `values`: memory for 3 · `vocab`
 * floats. */
static double train_consistency(uint16_t *first, uint16_t *second, int vocab, int64_t target, const float *bias,
                                float smoothing, float consistency, float *values) {
    float *p = values, *q = values + vocab, *d = values + 2 * (size_t)vocab;
    const float entropy = load_log_softmax(first, vocab, target, bias, smoothing, p) +
                          load_log_softmax(second, vocab, target, bias, smoothing, q);
    const float weight = consistency / 4, label = smoothing / (float)vocab;
    float from_p = 0, from_q = 0; /* KL(p‖q), KL(q‖p) */
#pragma omp simd reduction(+ : from_p, from_q)
    for (int i = 0; i < vocab; i++) {
        d[i] = p[i] - q[i];
        p[i] = exponential(p[i]);
        q[i] = exponential(q[i]);
        from_p += p[i] * d[i];
        from_q -= q[i] * d[i];
    }
#pragma omp simd
    for (int i = 0; i < vocab; i++) {
        first[i] = to_bf16(consistency_gradient(p[i], q[i], d[i], from_p, weight, label));
        second[i] = to_bf16(consistency_gradient(q[i], p[i], -d[i], from_q, weight, label));
    }
    const int64_t t = target;
    first[t] = to_bf16(consistency_gradient(p[t], q[t], d[t], from_p, weight, label + 1 - smoothing));
    second[t] = to_bf16(consistency_gradient(q[t], p[t], -d[t], from_q, weight, label + 1 - smoothing));
    return (double)(entropy / 2 + weight * (from_p + from_q));
}

static void train_add_dropout(const float *x, const uint16_t *y, const uint8_t *bytes, ptrdiff_t count, int threshold,
                              float scale, float *out) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) out[i] = x[i] + (bytes[i] >= threshold ? from_bf16(y[i]) * scale : 0);
}

static void train_add_dropout_backward(const float *grad, const uint8_t *bytes, ptrdiff_t count, int threshold,
                                       float scale, uint16_t *grad_y) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) grad_y[i] = to_bf16(bytes[i] >= threshold ? grad[i] * scale : 0);
}

static void train_layer_norm(const float *x, ptrdiff_t rows, int width, const float *weight, const float *bias,
                             float epsilon, uint16_t *out, float *statistics) {
    for (ptrdiff_t r = 0; r < rows; r++, x += width, out += width, statistics += 2) {
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < width; i++) sum += x[i];
        const float mean = sum / (float)width;
#pragma omp simd reduction(+ : squares)
        for (int i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
        const float inverse = 1 / sqrtf(squares / (float)width + epsilon);
#pragma omp simd
        for (int i = 0; i < width; i++) out[i] = to_bf16((x[i] - mean) * inverse * weight[i] + bias[i]);
        statistics[0] = mean, statistics[1] = inverse;
    }
}

/* With n = (x − mean) / deviation and g = grad · weight: grad_x = (g − mean of g − n · mean of g · n) / deviation. */
static void train_layer_norm_backward(const uint16_t *grad, const float *x, const float *statistics, ptrdiff_t rows,
                                      int width, const float *weight, float *restrict grad_x,
                                      float *restrict grad_weight, float *restrict grad_bias) {
    for (ptrdiff_t r = 0; r < rows; r++, grad += width, x += width, grad_x += width, statistics += 2) {
        const float mean = statistics[0], inverse = statistics[1];
        float sum = 0, product_sum = 0;
#pragma omp simd reduction(+ : sum, product_sum)
        for (int i = 0; i < width; i++) {
            const float g = from_bf16(grad[i]), normed = (x[i] - mean) * inverse;
            grad_bias[i] += g;
            grad_weight[i] += g * normed;
            sum += g * weight[i];
            product_sum += g * weight[i] * normed;
        }
        sum /= (float)width, product_sum /= (float)width;
#pragma omp simd
        for (int i = 0; i < width; i++) {
            const float normed = (x[i] - mean) * inverse;
            grad_x[i] = (from_bf16(grad[i]) * weight[i] - sum - normed * product_sum) * inverse;
        }
    }
}

static const TrainingKernels training_kernels = {
    attention_floats,  train_attention,   train_attention_backward,   train_rotate,     train_cross_entropy,
    train_consistency, train_add_dropout, train_add_dropout_backward, train_layer_norm, train_layer_norm_backward};
