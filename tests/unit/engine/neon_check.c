/* Run by test_neon.py under emulation: the NEON kernels against the scalar ones, for odd sizes. int8 products must be
 * equal bit by bit, everything else nearly equal. Prints what differs, and returns 1 if anything does.
 * With an argument, print the instruction sets that the CPU runs instead. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define MOST (211 * 131)

static int differences;
static const Kernels *const both[2] = {&kernels_scalar, &kernels_neon};

static float *values(int count, float step) {
    float *x = aligned_alloc(ALIGNMENT, sizeof(float) * (size_t)(count + 2 * PANEL) / ALIGNMENT * ALIGNMENT);
    for (int i = 0; i < count; i++) x[i] = sinf(step * (float)(i + 1)) * (float)(1 + i % 7);
    return x;
}

/* Compare two results relative to the largest number of the expected one. */
static void compare(const char *what, int a, int b, int c, const float *found, const float *expected, int count,
                    float tolerance) {
    float largest = 0, worst = 0;
    for (int i = 0; i < count; i++) {
        largest = fmaxf(largest, fabsf(expected[i]));
        if (!(fabsf(found[i] - expected[i]) <= worst)) worst = fabsf(found[i] - expected[i]);
    }
    if (worst <= tolerance * largest) return;
    printf("%s, sizes %d %d %d: off by %g of %g\n", what, a, b, c, (double)worst, (double)largest);
    differences++;
}

static void check_matmul(int rows, int inputs, int outputs, int precision, Epilogue epilogue) {
    static float out[2][MOST];
    float *x = values(rows * inputs, 1.7f), *weight = values(outputs * inputs, 2.3f), *scales = values(rows, 1);
    float *bias = values(outputs + PANEL, 0.9f);
    uint8_t *q = malloc(quantized_bytes(rows, inputs));
    void *memory =
        aligned_alloc(ALIGNMENT, (packed_matrix_bytes(outputs, inputs, precision) / ALIGNMENT + 1) * ALIGNMENT);
    Matrix w = pack_matrix(weight, outputs, inputs, precision, memory);
    w.bias = epilogue == ADD ? NULL : bias;
    for (int set = 0; set < 2; set++) {
        for (int i = 0; i < MOST; i++) out[set][i] = (float)i; /* what is added to, and what must stay */
        if (precision == GF_INT8) {
            both[set]->quantize(x, rows, inputs, w.padded_inputs, q, scales);
            both[set]->matmul_int8(q, scales, rows, &w, out[set], (size_t)outputs, epilogue);
        } else {
            both[set]->matmul_fp32(x, rows, &w, out[set], (size_t)outputs, epilogue);
        }
    }
    const char *what = precision == GF_INT8 ? "int8 product" : "fp32 product";
    compare(what, rows, inputs, outputs, out[1], out[0], rows * outputs, precision == GF_INT8 ? 0 : 1e-6f);
    for (int i = rows * outputs; i < MOST; i++)
        if (out[1][i] != (float)i) {
            printf("%s, sizes %d %d %d: wrote beyond its output\n", what, rows, inputs, outputs);
            differences++;
            break;
        }
    free(x), free(weight), free(scales), free(bias), free(q), free(memory);
}

static void check_layer_norm(int rows, int width) {
    static float out[2][MOST];
    float *x = values(rows * width, 1.7f), *weight = values(width, 2.3f), *bias = values(width, 0.9f);
    for (int set = 0; set < 2; set++) both[set]->layer_norm(x, rows, width, weight, bias, 1e-5f, out[set]);
    compare("layer norm", rows, width, 0, out[1], out[0], rows * width, 1e-5f);
    free(x), free(weight), free(bias);
}

static void check_attention(int length, int size, int chosen) {
    float *query = values(size, 1.3f), *keys = values(length * size, 1.7f), *cached = values(length * size, 2.3f);
    float *scores = values(length + PANEL, 1), *out[2] = {values(size, 1), values(size, 1)};
    int *rows = malloc(sizeof *rows * (size_t)length);
    for (int i = 0; i < length; i++) rows[i] = (7 * i) % length;
    for (int set = 0; set < 2; set++)
        both[set]->attend(query, keys, cached, chosen ? rows : NULL, length, size, scores, out[set]);
    compare("attention", length, size, chosen, out[1], out[0], size, 1e-5f);
    free(query), free(keys), free(cached), free(scores), free(out[0]), free(out[1]), free(rows);
}

static void check_rest(int count) {
    float *x = values(count, 1.7f);
    for (int activation = GF_RELU; activation <= GF_SWISH; activation++) {
        float *y[2] = {values(count, 1.7f), values(count, 1.7f)};
        for (int set = 0; set < 2; set++) both[set]->activate(activation, y[set], (size_t)count);
        compare("activation", count, activation, 0, y[1], y[0], count, 1e-6f);
        free(y[0]), free(y[1]);
    }
    int indices[2][MOST], found[2], first[2];
    float sum[2], largest[2];
    for (int set = 0; set < 2; set++) {
        largest[set] = both[set]->maximum(x, count);
        sum[set] = both[set]->sum_exp(x, count, largest[set]);
        found[set] = both[set]->above(x, 0, count, 0.5f, indices[set], count);
        first[set] = both[set]->first_equal(x, count, largest[set]);
    }
    compare("sum of exponentials", count, 0, 0, &sum[1], &sum[0], 1, 1e-5f);
    if (largest[0] != largest[1] || found[0] != found[1] || first[0] != first[1] || x[first[0]] != largest[0] ||
        memcmp(indices[0], indices[1], sizeof(int) * (size_t)found[0]))
        printf("maximum, above or first_equal, size %d\n", count), differences++;
    free(x);
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) return puts(gf_instruction_sets()) < 0;
    const int rows[] = {1, 2, 3, 4, 5, 7, 11, 211}, inputs[] = {1, 3, 64, 67, 131},
              outputs[] = {1, 15, 16, 17, 83, 131};
    for (int r = 0; r < 8; r++)
        for (int i = 0; i < 5; i++)
            for (int o = 0; o < 6; o++)
                for (int epilogue = STORE; epilogue <= ADD; epilogue++) {
                    check_matmul(rows[r], inputs[i], outputs[o], GF_INT8, (Epilogue)epilogue);
                    check_matmul(rows[r], inputs[i], outputs[o], GF_FP32, (Epilogue)epilogue);
                }
    const int widths[] = {1, 7, 16, 37, 64, 131};
    for (int i = 0; i < 6; i++) check_layer_norm(11, widths[i]), check_rest(widths[i]);
    const int sizes[] = {16, 32, 64, 1, 7, 48, 67};
    for (int i = 0; i < 7; i++)
        for (int length = 1; length < 40; length += 6)
            check_attention(length, sizes[i], 0), check_attention(length, sizes[i], 1);
    return differences > 0;
}
