/* The kernels of one instruction set. This file is compiled once per set, with the set's compiler flags and
 * -DKERNELS=<name of the table>; the loops below are vectorized by the compiler, the matrix products by hand. */
#include "kernels.h"

#include <math.h>
#include <string.h>

#include "engine.h"

#if defined(KERNELS_AVX512) || defined(KERNELS_AMX)
#include "matmul_avx512.h"
#elif defined(KERNELS_AVX2)
#include "matmul_avx2.h"
#elif defined(KERNELS_NEON)
#include "matmul_neon.h"
#elif defined(KERNELS_SIMD128)
#include "matmul_simd128.h"
#else
#include "matmul_scalar.h"
#endif
#include "matmul.h"
#if defined(KERNELS_AMX)
#include "matmul_amx.h"
#define MATMUL_INT8 matmul_int8_amx
#else
#define MATMUL_INT8 matmul_int8
#endif

#define MAX_VECTORS (64 / LANES) /* of the largest head that attention is specialized for */
#define STRING_(a)  #a
#define STRING(a)   STRING_(a)

static void quantize(const float *x, int rows, int width, int padded, uint8_t *q, float *scales) {
    for (int r = 0; r < rows; r++, x += width, q += padded) {
        float largest = 0;
#pragma omp simd reduction(max : largest)
        for (int i = 0; i < width; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        float inverse = largest > QUANTIZE_MIN && largest < INFINITY ? 127 / largest : 0;
        scales[r] = largest < INFINITY ? largest / 127 : NAN; /* a row with ∞ has no meaningful result */
#pragma omp simd
        for (int i = 0; i < width; i++) {
            float scaled = x[i] * inverse;
            scaled = scaled == scaled ? scaled : 0; /* NaN has no integer */
            q[i] = (uint8_t)((int32_t)rintf(scaled) + ACTIVATION_OFFSET);
        }
        memset(q + width, ACTIVATION_OFFSET, (size_t)(padded - width));
        int nan = 0;
#pragma omp simd reduction(| : nan)
        for (int i = 0; i < width; i++) nan |= x[i] != x[i];
        if (nan) scales[r] = NAN;
    }
}

static void layer_norm(const float *x, int rows, int width, const float *weight, const float *bias, float epsilon,
                       float *out) {
    for (int r = 0; r < rows; r++, x += width, out += width) {
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < width; i++) sum += x[i];
        float mean = sum / (float)width;
#pragma omp simd reduction(+ : squares)
        for (int i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
        float inverse = 1 / sqrtf(squares / (float)width + epsilon);
#pragma omp simd
        for (int i = 0; i < width; i++) out[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
    }
}

/* e^x within 2 units in the last place, in a form that vectorizes: 2^n · e^r with |r| ≤ ln(2)/2. */
static inline float exponential(float x) {
    x = x < -87.33654f ? -87.33654f : x;
    x = x > 88.72283f ? 88.72283f : x;
    float n = rintf(x * 1.44269504f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1;
    /* 2^n in two factors, because n may be 128. NaN has no integer; p keeps it. */
    const int32_t whole = (int32_t)(n == n ? n : 0);
    union {
        int32_t bits;
        float value;
    } half = {.bits = ((whole >> 1) + 127) << 23}, rest = {.bits = (whole - (whole >> 1) + 127) << 23};
    return p * half.value * rest.value;
}

static float maximum(const float *x, int count) {
    float largest = -INFINITY;
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static float sum_exp(const float *x, int count, float shift) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < count; i++) {
        float value = exponential(x[i] - shift);
        sum += x[i] == -INFINITY ? 0 : value;
    }
    return sum;
}

/* The scores are padded to whole vectors, whose loops have no remainder: attention is often short. */
static void softmax(float *x, int count) {
    const int padded = (count + PANEL - 1) / PANEL * PANEL;
    for (int i = count; i < padded; i++) x[i] = -INFINITY;
    float shift = -INFINITY, sum = 0;
#pragma omp simd reduction(max : shift)
    for (int i = 0; i < padded / PANEL * PANEL; i++) shift = x[i] > shift ? x[i] : shift;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < padded / PANEL * PANEL; i++) {
        x[i] = exponential(x[i] - shift);
        sum += x[i];
    }
    const float inverse = 1 / sum;
#pragma omp simd
    for (int i = 0; i < padded / PANEL * PANEL; i++) x[i] *= inverse;
}

/* Attention with vectors of LANES floats; `vectors` per row is a constant where this is inlined. */
static inline __attribute__((always_inline)) void attend_vectors(const float *query, const float *keys,
                                                                 const float *values, const int *rows, int length,
                                                                 const int vectors, float *scores, float *out) {
    const int size = vectors * LANES;
    const float scale = 1 / sqrtf((float)size);
    Vector q[MAX_VECTORS], sum[MAX_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) q[v] = load(query + v * LANES), sum[v] = (Vector){0};
    for (int i = 0; i < length; i++) {
        const float *key = keys + (size_t)(rows ? rows[i] : i) * (size_t)size;
        Vector products = q[0] * load(key);
#pragma GCC unroll 16
        for (int v = 1; v < vectors; v++) products += q[v] * load(key + v * LANES);
        scores[i] = lane_sum(products) * scale;
    }
    softmax(scores, length);
    for (int i = 0; i < length; i++) {
        const float *value = values + (size_t)(rows ? rows[i] : i) * (size_t)size;
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) sum[v] += scores[i] * load(value + v * LANES);
    }
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) memcpy(out + v * LANES, &sum[v], sizeof(Vector));
}

static void attend_any_size(const float *query, const float *keys, const float *values, const int *rows, int length,
                            int size, float *scores, float *out) {
    const float scale = 1 / sqrtf((float)size);
    for (int i = 0; i < length; i++) {
        const float *key = keys + (size_t)(rows ? rows[i] : i) * (size_t)size;
        float sum = 0;
        for (int e = 0; e < size; e++) sum += query[e] * key[e];
        scores[i] = sum * scale;
    }
    softmax(scores, length);
    for (int e = 0; e < size; e++) out[e] = 0;
    for (int i = 0; i < length; i++) {
        const float *value = values + (size_t)(rows ? rows[i] : i) * (size_t)size;
        for (int e = 0; e < size; e++) out[e] += scores[i] * value[e];
    }
}

static void attend(const float *query, const float *keys, const float *values, const int *rows, int length, int size,
                   float *scores, float *out) {
    switch (size) {
    case 64: attend_vectors(query, keys, values, rows, length, 64 / LANES, scores, out); break;
    case 32: attend_vectors(query, keys, values, rows, length, 32 / LANES, scores, out); break;
    case 16: attend_vectors(query, keys, values, rows, length, 16 / LANES, scores, out); break;
    default: attend_any_size(query, keys, values, rows, length, size, scores, out);
    }
}

static void activate(int activation, float *x, size_t count) {
    const ptrdiff_t n = (ptrdiff_t)count; /* long has 32 bits on Windows */
    switch (activation) {
    case GF_RELU:
#pragma omp simd
        for (ptrdiff_t i = 0; i < n; i++) x[i] = x[i] < 0 ? 0 : x[i]; /* keeps NaN */
        break;
    case GF_GELU:
        for (ptrdiff_t i = 0; i < n; i++) x[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
        break;
    case GF_GELU_TANH:
#pragma omp simd
        for (ptrdiff_t i = 0; i < n; i++) {
            float inner = 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
            x[i] = x[i] * (1 - 1 / (exponential(2 * inner) + 1)); /* 0.5·(1 + tanh(u)) = 1 − 1 / (e^{2u} + 1) */
        }
        break;
    default: /* GF_SWISH */
#pragma omp simd
        for (ptrdiff_t i = 0; i < n; i++) x[i] = x[i] / (1 + exponential(-x[i]));
    }
}

static int above(const float *x, int start, int count, float threshold, int *indices, int room) {
    int found = 0;
    for (int block = start; block < count; block += 64) {
        const int end = block + 64 < count ? block + 64 : count;
        int any = 0;
#pragma omp simd reduction(| : any)
        for (int i = block; i < end; i++) any |= x[i] > threshold;
        for (int i = block; any && i < end; i++)
            if (x[i] > threshold) {
                indices[found++] = i;
                if (found == room) return found;
            }
    }
    return found;
}

static int first_equal(const float *x, int count, float value) {
    for (int block = 0; block < count; block += 64) {
        const int end = block + 64 < count ? block + 64 : count;
        int any = 0;
#pragma omp simd reduction(| : any)
        for (int i = block; i < end; i++) any |= x[i] == value;
        for (int i = block; any && i < end; i++)
            if (x[i] == value) return i;
    }
    return -1;
}

#ifdef __wasm__
#define TRAINING
#else
#include "training_kernels.h"
#define TRAINING &training_kernels
#endif

const Kernels KERNELS = {
    STRING(KERNELS_NAME), quantize, MATMUL_INT8, matmul_fp32, layer_norm, attend, activate, maximum, sum_exp, above,
    first_equal,          TRAINING};
