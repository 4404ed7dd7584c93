/* Inner products with NEON: SDOT multiplies four signed bytes at a time (ARMv8.2). */
#include <arm_neon.h>

#define LANES 4
typedef float32x4_t Vector;
static inline Vector load(const float *x) { return vld1q_f32(x); }
static inline float lane_sum(Vector v) { return vaddvq_f32(v); }

#define ACTIVATION_OFFSET 0
#define ROWS_INT8         4 /* 4 rows × 4 registers = 16 sums, within 32 registers */
#define ROWS_FP32         4
#define WIDE_INT8(rows)   ((void)(rows), 1)
#define WIDE_FP32(rows)   ((void)(rows), 1)

static inline void store(float *out, const float *y, int count, Epilogue epilogue);

static inline __attribute__((always_inline)) void finish(const float32x4_t *sums, const Matrix *w, int first,
                                                         float *out, Epilogue epilogue) {
    float y[PANEL];
    for (int j = 0; j < 4; j++) {
        const float32x4_t bias = w->bias ? vld1q_f32(w->bias + first + 4 * j) : vdupq_n_f32(0);
        vst1q_f32(y + 4 * j, vaddq_f32(sums[j], bias));
    }
    store(out + first, y, w->outputs - first < PANEL ? w->outputs - first : PANEL, epilogue);
}

static inline __attribute__((always_inline)) void tile_int8(const int8_t *q, const float *row_scales, const int rows,
                                                            const Matrix *w, int panel, float *out, size_t stride,
                                                            Epilogue epilogue) {
    const size_t K = (size_t)w->padded_inputs;
    const int8_t *weight = w->int8 + (size_t)panel * K * PANEL;
    int32x4_t sum[4][4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 4; j++) sum[r][j] = vdupq_n_s32(0);
    for (size_t i = 0; i < K; i += 4, weight += 4 * PANEL) {
        int8x16_t b[4];
        for (int j = 0; j < 4; j++) b[j] = vld1q_s8(weight + 16 * j);
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, q + (size_t)r * K + i, 4);
            const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(four));
            for (int j = 0; j < 4; j++) sum[r][j] = vdotq_s32(sum[r][j], b[j], a);
        }
    }
    const int first = panel * PANEL;
    for (int r = 0; r < rows; r++) {
        float32x4_t y[4];
        for (int j = 0; j < 4; j++) {
            const float32x4_t scale = vmulq_n_f32(vld1q_f32(w->scales + first + 4 * j), row_scales[r]);
            y[j] = vmulq_f32(vcvtq_f32_s32(sum[r][j]), scale);
        }
        finish(y, w, first, out + (size_t)r * stride, epilogue);
    }
}

static inline __attribute__((always_inline)) void tile_fp32(const float *x, const int rows, const Matrix *w, int panel,
                                                            float *out, size_t stride, Epilogue epilogue) {
    const size_t K = (size_t)w->inputs;
    const float *weight = w->fp32 + (size_t)panel * K * PANEL;
    float32x4_t sum[4][4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 4; j++) sum[r][j] = vdupq_n_f32(0);
    for (size_t i = 0; i < K; i++, weight += PANEL) {
        float32x4_t b[4];
        for (int j = 0; j < 4; j++) b[j] = vld1q_f32(weight + 4 * j);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < 4; j++) sum[r][j] = vfmaq_n_f32(sum[r][j], b[j], x[(size_t)r * K + i]);
    }
    for (int r = 0; r < rows; r++) finish(sum[r], w, panel * PANEL, out + (size_t)r * stride, epilogue);
}

static void inner_int8(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, int panel, int panels,
                       float *out, size_t stride, Epilogue epilogue) {
    const int8_t *x = (const int8_t *)q;
    (void)panels;
    switch (rows) { /* constants, so that the sums stay in registers */
    case 1: tile_int8(x, row_scales, 1, w, panel, out, stride, epilogue); break;
    case 2: tile_int8(x, row_scales, 2, w, panel, out, stride, epilogue); break;
    case 3: tile_int8(x, row_scales, 3, w, panel, out, stride, epilogue); break;
    default: tile_int8(x, row_scales, 4, w, panel, out, stride, epilogue);
    }
}

static void inner_fp32(const float *x, int rows, const Matrix *w, int panel, int panels, float *out, size_t stride,
                       Epilogue epilogue) {
    (void)panels;
    switch (rows) {
    case 1: tile_fp32(x, 1, w, panel, out, stride, epilogue); break;
    case 2: tile_fp32(x, 2, w, panel, out, stride, epilogue); break;
    case 3: tile_fp32(x, 3, w, panel, out, stride, epilogue); break;
    default: tile_fp32(x, 4, w, panel, out, stride, epilogue);
    }
}
