/* Inner products with WebAssembly's 128-bit SIMD: bytes are widened to 16 bits, multiplied and added in pairs. */
#include <wasm_simd128.h>

#define LANES 4
typedef float Vector __attribute__((vector_size(16)));
static inline Vector load(const float *x) {
    Vector v;
    memcpy(&v, x, sizeof v);
    return v;
}
static inline float lane_sum(Vector v) { return (v[0] + v[2]) + (v[1] + v[3]); }

#define ACTIVATION_OFFSET 0
#define ROWS_INT8         1
#define ROWS_FP32         2
#define WIDE_INT8(rows)   ((void)(rows), 1)
#define WIDE_FP32(rows)   ((void)(rows), 1)

static inline void store(float *out, const float *y, int count, Epilogue epilogue);

static inline __attribute__((always_inline)) void finish(const v128_t *sums, const Matrix *w, int first, float *out,
                                                         Epilogue epilogue) {
    float y[PANEL];
    for (int j = 0; j < 4; j++) {
        const v128_t bias = w->bias ? wasm_v128_load(w->bias + first + 4 * j) : wasm_f32x4_splat(0);
        wasm_v128_store(y + 4 * j, wasm_f32x4_add(sums[j], bias));
    }
    store(out + first, y, w->outputs - first < PANEL ? w->outputs - first : PANEL, epilogue);
}

static void inner_int8(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, int panel, int panels,
                       float *out, size_t stride, Epilogue epilogue) {
    (void)rows, (void)panels, (void)stride;
    const size_t K = (size_t)w->padded_inputs;
    const int8_t *weight = w->int8 + (size_t)panel * K * PANEL;
    const int first = panel * PANEL;
    v128_t low[4], high[4]; /* sums of the first and second pair of inputs of two outputs, interleaved */
    for (int j = 0; j < 4; j++) low[j] = high[j] = wasm_i32x4_splat(0);
    for (size_t i = 0; i < K; i += 4, weight += 4 * PANEL) {
        const v128_t x = wasm_i16x8_load8x8(q + i); /* four inputs and, unused, the four after them */
        const v128_t a = wasm_i64x2_shuffle(x, x, 0, 0);
        for (int j = 0; j < 4; j++) {
            const v128_t b = wasm_v128_load(weight + 16 * j);
            low[j] = wasm_i32x4_add(low[j], wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(b), a));
            high[j] = wasm_i32x4_add(high[j], wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(b), a));
        }
    }
    v128_t y[4];
    for (int j = 0; j < 4; j++) {
        const v128_t even = wasm_i32x4_shuffle(low[j], high[j], 0, 2, 4, 6);
        const v128_t odd = wasm_i32x4_shuffle(low[j], high[j], 1, 3, 5, 7);
        const v128_t scale = wasm_f32x4_mul(wasm_f32x4_splat(row_scales[0]), wasm_v128_load(w->scales + first + 4 * j));
        y[j] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_add(even, odd)), scale);
    }
    finish(y, w, first, out, epilogue);
}

static inline __attribute__((always_inline)) void tile_fp32(const float *x, const int rows, const Matrix *w, int panel,
                                                            float *out, size_t stride, Epilogue epilogue) {
    const size_t K = (size_t)w->inputs;
    const float *weight = w->fp32 + (size_t)panel * K * PANEL;
    v128_t sum[2][4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 4; j++) sum[r][j] = wasm_f32x4_splat(0);
    for (size_t i = 0; i < K; i++, weight += PANEL)
        for (int j = 0; j < 4; j++) {
            const v128_t b = wasm_v128_load(weight + 4 * j);
            for (int r = 0; r < rows; r++)
                sum[r][j] = wasm_f32x4_add(sum[r][j], wasm_f32x4_mul(b, wasm_f32x4_splat(x[(size_t)r * K + i])));
        }
    for (int r = 0; r < rows; r++) finish(sum[r], w, panel * PANEL, out + (size_t)r * stride, epilogue);
}

static void inner_fp32(const float *x, int rows, const Matrix *w, int panel, int panels, float *out, size_t stride,
                       Epilogue epilogue) {
    (void)panels;
    if (rows == 1)
        tile_fp32(x, 1, w, panel, out, stride, epilogue);
    else
        tile_fp32(x, 2, w, panel, out, stride, epilogue);
}
