/* Run by test_platforms.py: load the library as ctypes does, and print what it computes, to compare two systems.
 *   platform_check LIBRARY FILE
 * FILE is written: a name in UTF-8, whatever the code page of the arguments, is appended to it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#ifdef _WIN32
#include <windows.h>
#define OPEN(path)         (void *)LoadLibraryA(path)
#define FIND(handle, name) (void *)GetProcAddress(handle, name)
#else
#include <dlfcn.h>
#define OPEN(path)         dlopen(path, RTLD_NOW)
#define FIND(handle, name) dlsym(handle, name)
#endif

#define COUNT(array) (sizeof array / sizeof *array)
#define CALL(name)   ((__typeof__(&name))find(#name)) /* the function of the loaded library */

enum { ROWS = 5, INPUTS = 67, OUTPUTS = 37, BEAM = 3, SENTENCES = 2, CAPACITY = 13 };

static void *library;

static void *find(const char *name) {
    void *found = FIND(library, name);
    if (!found) printf("%s is missing\n", name), exit(1);
    return found;
}

/* Numbers in −1 … 1 that are the same on every system. */
static float *values(size_t count, uint32_t seed) {
    float *x = malloc(sizeof *x * count);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)(seed >> 8) / 8388608.0f - 1;
    }
    return x;
}

static void print(const char *what, const float *x, int count) {
    printf("%s", what);
    for (int i = 0; i < count; i++) printf(" %.9g", (double)x[i]);
    printf("\n");
}

static void operations(void) {
    float *x = values(ROWS * INPUTS, 3), *weight = values(OUTPUTS * INPUTS, 5), *bias = values(INPUTS, 7);
    float out[ROWS * INPUTS];
    for (int precision = GF_FP32; precision <= GF_INT8; precision++) {
        CALL(gf_test_matmul)(x, ROWS, INPUTS, weight, bias, OUTPUTS, precision, out);
        print(precision == GF_INT8 ? "int8" : "fp32", out, ROWS * OUTPUTS);
    }
    CALL(gf_test_layer_norm)(x, ROWS, INPUTS, weight, bias, 1e-5f, out);
    print("layer_norm", out, ROWS * INPUTS);
    CALL(gf_test_attention)(x, weight, weight + 16, NULL, 19, 32, out);
    print("attention", out, 32);
    for (int activation = GF_RELU; activation <= GF_SWISH; activation++) {
        memcpy(out, x, sizeof out);
        CALL(gf_test_activation)(activation, out, ROWS * INPUTS);
        print("activation", out, ROWS * INPUTS);
    }
    free(x), free(weight), free(bias);
}

static gf_model *build(int precision) {
    const gf_settings settings = {.vocab = 211,
                                  .d_model = 48,
                                  .heads = 3,
                                  .d_ff = 67,
                                  .encoder_layers = 2,
                                  .decoder_layers = 2,
                                  .pre_norm = 1,
                                  .activation = GF_GELU,
                                  .positions = GF_SINUSOIDAL,
                                  .scaled_embedding = 1,
                                  .output_bias = 1,
                                  .precision = precision,
                                  .norm_epsilon = 1e-5f};
    gf_model *model;
    if (CALL(gf_model_new)(&settings, &model) != GF_OK) exit(1);
    for (int i = 0; CALL(gf_tensor_name)(model, i); i++) {
        float *x = values((size_t)CALL(gf_tensor_size)(model, i), (uint32_t)i);
        if (CALL(gf_model_set)(model, i, x) != GF_OK) exit(1);
        free(x);
    }
    CALL(gf_model_finish)(model);
    return model;
}

static void translate(const gf_model *model) {
    const int32_t source[] = {3, 5, 7, 11, 2, 199, 2}, lengths[SENTENCES] = {5, 2}, limits[SENTENCES] = {13, 7};
    const gf_search search = {.beam = BEAM, .sos = 1, .eos = 2, .no_repeat_ngram = 2, .length_penalty = 0.6f};
    int32_t tokens[SENTENCES * BEAM * CAPACITY], found[SENTENCES * BEAM], finished[SENTENCES * BEAM];
    double log_probabilities[SENTENCES * BEAM], scores[SENTENCES * BEAM];
    gf_worker *worker;
    if (CALL(gf_worker_new)(model, &worker) != GF_OK) exit(1);
    const int code = CALL(gf_translate)(worker, &search, SENTENCES, source, lengths, limits, NULL, NULL, 0, CAPACITY,
                                        tokens, found, log_probabilities, scores, finished);
    printf("code %d\n", code);
    for (int i = 0; i < SENTENCES * BEAM; i++) {
        printf("tokens");
        for (int t = 0; t < found[i]; t++) printf(" %d", tokens[i * CAPACITY + t]);
        printf("\nlog_probability %.6g\n", log_probabilities[i]);
    }
    CALL(gf_worker_free)(worker);
}

/* Save the model, open it again, translate with it. A file that is still mapped could not be written on Windows. */
static void files(const char *path, int precision) {
    gf_model *model = build(precision), *opened;
    printf("absent %d\n", CALL(gf_model_open)("absent", &opened));
    printf("saved %d\n", CALL(gf_model_save)(model, path));
    printf("opened %d\n", CALL(gf_model_open)(path, &opened));
    translate(opened);
    CALL(gf_model_free)(opened);
    printf("saved again %d\n", CALL(gf_model_save)(model, path));
    CALL(gf_model_free)(model);
}

int main(int count, char **arguments) {
    char path[4096], names[128];
    if (count != 3 || !(library = OPEN(arguments[1]))) return puts("the library cannot be loaded"), 1;
    snprintf(path, sizeof path, "%s-\xc3\xa9\xed\x95\x9c", arguments[2]); /* é, 한 */
    snprintf(names, sizeof names, "%s", CALL(gf_instruction_sets)());
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        printf("set %s\n", name);
        if (CALL(gf_use_instruction_set)(name) != GF_OK) return 1;
        operations();
        files(path, GF_FP32), files(path, GF_INT8);
    }
    FILE *small = fopen(arguments[2], "wb");
    if (!small || fputs("GFENGINE", small) < 0 || fclose(small)) return 1;
    gf_model *opened;
    printf("small %d\n", CALL(gf_model_open)(arguments[2], &opened));
    return 0;
}
