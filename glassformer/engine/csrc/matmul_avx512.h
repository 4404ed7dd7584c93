/* Inner products with AVX-512: VPDPBUSD multiplies unsigned activations by signed weights, four at a time. The
 * activations are stored with an offset of 128, which Matrix.offsets takes back. */
#include <immintrin.h>

#define LANES 16
typedef __m512 Vector;
static inline Vector load(const float *x) { return _mm512_loadu_ps(x); }
static inline float lane_sum(Vector v) { return _mm512_reduce_add_ps(v); }

#define ACTIVATION_OFFSET 128
#define ROWS_INT8         6 /* 6 rows × 4 panels = 24 sums, within 32 registers */
#define ROWS_FP32         6
#define WIDE_INT8(rows)   ((rows) > 2 ? 4 : 8)
#define WIDE_FP32(rows)   ((rows) > 2 ? 4 : 8)

/* With few rows every weight is used once: fetch what comes next in the same panel. With more rows the panels of this
 * call are used again, so there is time to fetch those of the next call into the second-level cache. */
static inline __attribute__((always_inline)) void prefetch(const void *weight, size_t next_panels, const int rows) {
    if (rows <= 2)
        _mm_prefetch((const char *)weight + 1024, _MM_HINT_T0);
    else
        _mm_prefetch((const char *)weight + next_panels, _MM_HINT_T1);
}

static inline __attribute__((always_inline)) void finish(__m512 y, const Matrix *w, int first, float *out,
                                                         Epilogue epilogue) {
    const int left = w->outputs - first;
    const __mmask16 mask = left >= PANEL ? 0xffff : (__mmask16)((1u << left) - 1);
    if (w->bias) y = _mm512_add_ps(y, _mm512_load_ps(w->bias + first));
    if (epilogue == STORE_RELU)
        y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_LT_OQ), _mm512_setzero_ps());
    if (epilogue == ADD) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, out + first));
    _mm512_mask_storeu_ps(out + first, mask, y);
}

static inline __attribute__((always_inline)) void finish_int8(__m512i sum, float row_scale, const Matrix *w, int first,
                                                              float *out, Epilogue epilogue) {
    const __m512i exact = _mm512_sub_epi32(sum, _mm512_load_si512(w->offsets + first));
    const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(row_scale), _mm512_load_ps(w->scales + first));
    finish(_mm512_mul_ps(_mm512_cvtepi32_ps(exact), scale), w, first, out, epilogue);
}

/* VPDPBUSD by hand: the compiler copies the sum before and after its own intrinsic. */
static inline __attribute__((always_inline)) __m512i multiply_add(__m512i sum, __m512i activations, __m512i weights) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(activations), "v"(weights));
    return sum;
}

static inline __attribute__((always_inline)) void tile_int8(const uint8_t *q, const float *row_scales, const int rows,
                                                            const Matrix *w, int panel, const int panels, float *out,
                                                            size_t stride, Epilogue epilogue) {
    const size_t K = (size_t)w->padded_inputs, panel_bytes = K * PANEL;
    const int8_t *weight = w->int8 + (size_t)panel * panel_bytes;
    __m512i sum[6][8];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) sum[r][p] = _mm512_setzero_si512();
    for (size_t i = 0; i < K; i += 4, weight += 4 * PANEL) {
        __m512i b[8];
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) {
            b[p] = _mm512_load_si512(weight + (size_t)p * panel_bytes);
            prefetch(weight + (size_t)p * panel_bytes, (size_t)panels * panel_bytes, rows);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, q + (size_t)r * K + i, 4);
            const __m512i a = _mm512_set1_epi32(four);
#pragma GCC unroll 8
            for (int p = 0; p < panels; p++) sum[r][p] = multiply_add(sum[r][p], a, b[p]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++)
            finish_int8(sum[r][p], row_scales[r], w, (panel + p) * PANEL, out + (size_t)r * stride, epilogue);
}

static inline __attribute__((always_inline)) void tile_fp32(const float *x, const int rows, const Matrix *w, int panel,
                                                            const int panels, float *out, size_t stride,
                                                            Epilogue epilogue) {
    const size_t K = (size_t)w->inputs, panel_floats = K * PANEL;
    const float *weight = w->fp32 + (size_t)panel * panel_floats;
    __m512 sum[6][8];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) sum[r][p] = _mm512_setzero_ps();
    for (size_t i = 0; i < K; i++, weight += PANEL) {
        __m512 b[8];
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) {
            b[p] = _mm512_load_ps(weight + (size_t)p * panel_floats);
            prefetch(weight + (size_t)p * panel_floats, sizeof(float) * (size_t)panels * panel_floats, rows);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const __m512 a = _mm512_set1_ps(x[(size_t)r * K + i]);
#pragma GCC unroll 8
            for (int p = 0; p < panels; p++) sum[r][p] = _mm512_fmadd_ps(a, b[p], sum[r][p]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) finish(sum[r][p], w, (panel + p) * PANEL, out + (size_t)r * stride, epilogue);
}

/* Call a tile with constant numbers of rows and panels, so that its sums stay in registers. */
#define FOR_ROWS(TILE, ...)                                                                                            \
    switch (16 * rows + panels) {                                                                                      \
    case 16 * 1 + 8: TILE(1, 8, __VA_ARGS__); break;                                                                   \
    case 16 * 2 + 8: TILE(2, 8, __VA_ARGS__); break;                                                                   \
    case 16 * 1 + 4: TILE(1, 4, __VA_ARGS__); break;                                                                   \
    case 16 * 2 + 4: TILE(2, 4, __VA_ARGS__); break;                                                                   \
    case 16 * 3 + 4: TILE(3, 4, __VA_ARGS__); break;                                                                   \
    case 16 * 4 + 4: TILE(4, 4, __VA_ARGS__); break;                                                                   \
    case 16 * 5 + 4: TILE(5, 4, __VA_ARGS__); break;                                                                   \
    case 16 * 6 + 4: TILE(6, 4, __VA_ARGS__); break;                                                                   \
    case 16 * 1 + 1: TILE(1, 1, __VA_ARGS__); break;                                                                   \
    case 16 * 2 + 1: TILE(2, 1, __VA_ARGS__); break;                                                                   \
    case 16 * 3 + 1: TILE(3, 1, __VA_ARGS__); break;                                                                   \
    case 16 * 4 + 1: TILE(4, 1, __VA_ARGS__); break;                                                                   \
    case 16 * 5 + 1: TILE(5, 1, __VA_ARGS__); break;                                                                   \
    case 16 * 6 + 1: TILE(6, 1, __VA_ARGS__); break;                                                                   \
    }

#define TILE_INT8(R, P, q, s, w, panel, out, stride, e) tile_int8(q, s, R, w, panel, P, out, stride, e)
#define TILE_FP32(R, P, x, w, panel, out, stride, e)    tile_fp32(x, R, w, panel, P, out, stride, e)

static void inner_int8(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, int panel, int panels,
                       float *out, size_t stride, Epilogue epilogue) {
    FOR_ROWS(TILE_INT8, q, row_scales, w, panel, out, stride, epilogue)
}

static void inner_fp32(const float *x, int rows, const Matrix *w, int panel, int panels, float *out, size_t stride,
                       Epilogue epilogue) {
    FOR_ROWS(TILE_FP32, x, w, panel, out, stride, epilogue)
}
