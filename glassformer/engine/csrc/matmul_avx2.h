/* Inner products with AVX2.
 *
 * VPMADDUBSW multiplies unsigned by signed bytes and adds neighbouring products to 16 bits, where 255·127·2 would
 * saturate. So the sign of a weight is moved to the activation: |w|·(±x) is at most 127·127·2 = 32,258, which fits. The
 * sums are exact, the same as those of the other instruction sets. */
#include <immintrin.h>

#define LANES 8
typedef __m256 Vector;
static inline Vector load(const float *x) { return _mm256_loadu_ps(x); }
static inline float lane_sum(Vector v) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

#define ACTIVATION_OFFSET 0
#define ROWS_INT8         4 /* 4 rows × 2 registers = 8 sums, within 16 registers */
#define ROWS_FP32         6
#define WIDE_INT8(rows)   ((void)(rows), 1)
#define WIDE_FP32(rows)   ((void)(rows), 1)

static inline void store(float *out, const float *y, int count, Epilogue epilogue);

static inline __attribute__((always_inline)) void finish(__m256 low, __m256 high, const Matrix *w, int first,
                                                         float *out, Epilogue epilogue) {
    if (w->bias) {
        low = _mm256_add_ps(low, _mm256_load_ps(w->bias + first));
        high = _mm256_add_ps(high, _mm256_load_ps(w->bias + first + 8));
    }
    float y[PANEL];
    _mm256_storeu_ps(y, low);
    _mm256_storeu_ps(y + 8, high);
    store(out + first, y, w->outputs - first < PANEL ? w->outputs - first : PANEL, epilogue);
}

static inline __attribute__((always_inline)) void tile_int8(const uint8_t *q, const float *row_scales, const int rows,
                                                            const Matrix *w, int panel, float *out, size_t stride,
                                                            Epilogue epilogue) {
    const size_t K = (size_t)w->padded_inputs;
    const int8_t *weight = w->int8 + (size_t)panel * K * PANEL;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i low[4], high[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) low[r] = high[r] = _mm256_setzero_si256();
    for (size_t i = 0; i < K; i += 4, weight += 4 * PANEL) {
        const __m256i w_low = _mm256_load_si256((const __m256i *)weight);
        const __m256i w_high = _mm256_load_si256((const __m256i *)(weight + 32));
        const __m256i abs_low = _mm256_abs_epi8(w_low), abs_high = _mm256_abs_epi8(w_high);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, q + (size_t)r * K + i, 4);
            const __m256i x = _mm256_set1_epi32(four);
            const __m256i pairs_low = _mm256_maddubs_epi16(abs_low, _mm256_sign_epi8(x, w_low));
            const __m256i pairs_high = _mm256_maddubs_epi16(abs_high, _mm256_sign_epi8(x, w_high));
            low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(pairs_low, ones));
            high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(pairs_high, ones));
        }
    }
    const int first = panel * PANEL;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const __m256 scale = _mm256_set1_ps(row_scales[r]);
        const __m256 s_low = _mm256_mul_ps(scale, _mm256_load_ps(w->scales + first));
        const __m256 s_high = _mm256_mul_ps(scale, _mm256_load_ps(w->scales + first + 8));
        finish(_mm256_mul_ps(_mm256_cvtepi32_ps(low[r]), s_low), _mm256_mul_ps(_mm256_cvtepi32_ps(high[r]), s_high), w,
               first, out + (size_t)r * stride, epilogue);
    }
}

static inline __attribute__((always_inline)) void tile_fp32(const float *x, const int rows, const Matrix *w, int panel,
                                                            float *out, size_t stride, Epilogue epilogue) {
    const size_t K = (size_t)w->inputs;
    const float *weight = w->fp32 + (size_t)panel * K * PANEL;
    __m256 low[6], high[6];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) low[r] = high[r] = _mm256_setzero_ps();
    for (size_t i = 0; i < K; i++, weight += PANEL) {
        const __m256 w_low = _mm256_load_ps(weight), w_high = _mm256_load_ps(weight + 8);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const __m256 a = _mm256_broadcast_ss(x + (size_t)r * K + i);
            low[r] = _mm256_fmadd_ps(a, w_low, low[r]);
            high[r] = _mm256_fmadd_ps(a, w_high, high[r]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) finish(low[r], high[r], w, panel * PANEL, out + (size_t)r * stride, epilogue);
}

static void inner_int8(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, int panel, int panels,
                       float *out, size_t stride, Epilogue epilogue) {
    (void)panels;
    switch (rows) { /* constants, so that the sums stay in registers */
    case 1: tile_int8(q, row_scales, 1, w, panel, out, stride, epilogue); break;
    case 2: tile_int8(q, row_scales, 2, w, panel, out, stride, epilogue); break;
    case 3: tile_int8(q, row_scales, 3, w, panel, out, stride, epilogue); break;
    default: tile_int8(q, row_scales, 4, w, panel, out, stride, epilogue);
    }
}

static void inner_fp32(const float *x, int rows, const Matrix *w, int panel, int panels, float *out, size_t stride,
                       Epilogue epilogue) {
    (void)panels;
    switch (rows) {
    case 1: tile_fp32(x, 1, w, panel, out, stride, epilogue); break;
    case 2: tile_fp32(x, 2, w, panel, out, stride, epilogue); break;
    case 3: tile_fp32(x, 3, w, panel, out, stride, epilogue); break;
    case 4: tile_fp32(x, 4, w, panel, out, stride, epilogue); break;
    case 5: tile_fp32(x, 5, w, panel, out, stride, epilogue); break;
    default: tile_fp32(x, 6, w, panel, out, stride, epilogue);
    }
}
