/* The loops around the inner products of one instruction set (matmul_<set>.h), which define
 *   ROWS_INT8, ROWS_FP32               the most rows that an inner product takes at a time
 *   WIDE_INT8(rows), WIDE_FP32(rows)   the most panels that it takes for such a number of rows
 *   inner_int8(…), inner_fp32(…)       the inner product of a number of rows and panels
 * Panels are the outer loop: a group of panels stays in the cache while all rows pass by. */

/* Write `count` sums of one row, or add them to it. */
static inline __attribute__((always_inline)) void store(float *out, const float *y, int count, Epilogue epilogue) {
    if (epilogue == ADD) {
#pragma omp simd
        for (int i = 0; i < count; i++) out[i] += y[i];
    } else if (epilogue == STORE_RELU) {
#pragma omp simd
        for (int i = 0; i < count; i++) out[i] = y[i] < 0 ? 0 : y[i];
    } else {
        memcpy(out, y, sizeof(float) * (size_t)count);
    }
}

/* A group of `wide` panels, or of 4 or 1 where fewer are left. */
static inline int panels_at_a_time(int left, int wide) { return left >= wide ? wide : left >= 4 && wide > 4 ? 4 : 1; }

static const int BLOCK_ROWS = 192; /* rows that are multiplied while a group of panels is in the cache */

/* The number of rows of the next inner product: blocks of nearly equal size, none above `most`. */
static inline int next_rows(int left, int most) {
    const int blocks = (left + most - 1) / most;
    return (left + blocks - 1) / blocks;
}

static void matmul_int8(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, float *out, size_t stride,
                        Epilogue epilogue) {
    for (int top = 0; top < rows; top += BLOCK_ROWS) {
        const int end = top + BLOCK_ROWS < rows ? top + BLOCK_ROWS : rows;
        const int wide = WIDE_INT8(next_rows(end - top, ROWS_INT8));
        for (int panel = 0; panel < w->panels;) {
            const int panels = panels_at_a_time(w->panels - panel, wide);
            for (int r = top; r < end;) {
                const int count = next_rows(end - r, ROWS_INT8);
                inner_int8(q + (size_t)r * (size_t)w->padded_inputs, row_scales + r, count, w, panel, panels,
                           out + (size_t)r * stride, stride, epilogue);
                r += count;
            }
            panel += panels;
        }
    }
}

static void matmul_fp32(const float *x, int rows, const Matrix *w, float *out, size_t stride, Epilogue epilogue) {
    for (int top = 0; top < rows; top += BLOCK_ROWS) {
        const int end = top + BLOCK_ROWS < rows ? top + BLOCK_ROWS : rows;
        const int wide = WIDE_FP32(next_rows(end - top, ROWS_FP32));
        for (int panel = 0; panel < w->panels;) {
            const int panels = panels_at_a_time(w->panels - panel, wide);
            for (int r = top; r < end;) {
                const int count = next_rows(end - r, ROWS_FP32);
                inner_fp32(x + (size_t)r * (size_t)w->inputs, count, w, panel, panels, out + (size_t)r * stride, stride,
                           epilogue);
                r += count;
            }
            panel += panels;
        }
    }
}
