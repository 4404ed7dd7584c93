/* Inner products in portable C: the reference for the other instruction sets, and the fallback for unknown CPUs. */

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
#define ROWS_FP32         1
#define WIDE_INT8(rows)   ((void)(rows), 1)
#define WIDE_FP32(rows)   ((void)(rows), 1)

static inline void store(float *out, const float *y, int count, Epilogue epilogue);

static void inner_int8(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, int panel, int panels,
                       float *out, size_t stride, Epilogue epilogue) {
    (void)rows, (void)panels, (void)stride;
    const int8_t *x = (const int8_t *)q, *weight = w->int8 + (size_t)panel * (size_t)w->padded_inputs * PANEL;
    const int first = panel * PANEL, count = w->outputs - first < PANEL ? w->outputs - first : PANEL;
    int32_t sum[PANEL] = {0};
    for (int i = 0; i < w->padded_inputs; i += 4, weight += 4 * PANEL)
        for (int n = 0; n < PANEL; n++)
            for (int j = 0; j < 4; j++) sum[n] += x[i + j] * weight[4 * n + j];
    float y[PANEL];
    for (int n = 0; n < PANEL; n++)
        y[n] = (float)sum[n] * (row_scales[0] * w->scales[first + n]) + (w->bias ? w->bias[first + n] : 0);
    store(out + first, y, count, epilogue);
}

static void inner_fp32(const float *x, int rows, const Matrix *w, int panel, int panels, float *out, size_t stride,
                       Epilogue epilogue) {
    (void)rows, (void)panels, (void)stride;
    const float *weight = w->fp32 + (size_t)panel * (size_t)w->inputs * PANEL;
    const int first = panel * PANEL, count = w->outputs - first < PANEL ? w->outputs - first : PANEL;
    float y[PANEL] = {0};
    for (int i = 0; i < w->inputs; i++, weight += PANEL)
        for (int n = 0; n < PANEL; n++) y[n] += x[i] * weight[n];
    for (int n = 0; n < PANEL; n++) y[n] += w->bias ? w->bias[first + n] : 0;
    store(out + first, y, count, epilogue);
}
