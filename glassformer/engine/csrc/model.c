/* Packed weights: their layout, packing and quantization, and the packed file.
 *
 * The layout follows from the settings alone (visit_tensors), so the file has no table of contents that could be
 * damaged: a header with the settings, then the tensors in a fixed order. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform.h"

#define MAGIC           "GFENGINE"
#define MAX_TENSOR_NAME 96
#define MAX_INPUTS      (1 << 17)                            /* of a matrix: 128 · 127 · inputs fits 32 bits */
#define MAX_BYTES       (SIZE_MAX > UINT32_MAX ? 1e12 : 2e9) /* of a model; sizes must not overflow */

typedef struct {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t bytes;    /* of the whole file */
    uint64_t checksum; /* of the settings and of what follows the header */
    gf_settings settings;
} Header;

typedef enum { VECTOR, TABLE, MATRIX } Kind;

struct Tensor {
    char name[MAX_TENSOR_NAME];
    Kind kind;
    int rows, columns; /* a vector has one row */
    size_t offset;     /* of its data within the block */
    size_t bias;       /* of a matrix: the offset of its bias, or 0 */
    Matrix *matrix;
    const float **vector;
};

typedef struct {
    gf_model *model;
    int count;
    uint64_t end;
} Visit;

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
static int panels_of(int outputs) { return (outputs + PANEL - 1) / PANEL; }
static int padded(int inputs) { return (inputs + INPUT_STEP - 1) / INPUT_STEP * INPUT_STEP; }

/* A packed matrix is its weights, then (int8) the scales and offsets. */
size_t packed_matrix_bytes(int outputs, int inputs, int precision) {
    const size_t columns = (size_t)panels_of(outputs) * PANEL;
    return precision == GF_INT8 ? columns * ((size_t)padded(inputs) + sizeof(float) + sizeof(int32_t))
                                : sizeof(float) * columns * (size_t)inputs;
}

static Matrix packed_matrix(int outputs, int inputs, int precision, const void *memory) {
    const size_t columns = (size_t)panels_of(outputs) * PANEL;
    Matrix w = {.outputs = outputs, .inputs = inputs, .panels = panels_of(outputs), .padded_inputs = padded(inputs)};
    if (precision == GF_FP32) {
        w.fp32 = memory;
    } else {
        w.int8 = memory;
        w.scales = (const float *)(w.int8 + columns * (size_t)padded(inputs));
        w.offsets = (const int32_t *)(w.scales + columns);
    }
    return w;
}

/* "<prefix>.<layer>.<name><suffix>", or "<name><suffix>" outside a layer. snprintf would do the same, but adds a fifth
 * to the size of the WebAssembly module. */
static void write_name(char *out, const char *prefix, int layer, const char *name, const char *suffix) {
    char number[16] = {0}, *digit = &number[sizeof number - 1];
    out[0] = 0;
    if (layer >= 0) {
        *--digit = '.';
        for (int left = layer; left > 0 || *digit == '.'; left /= 10) *--digit = (char)('0' + left % 10);
        *--digit = '.';
        strcat(strcat(out, prefix), digit);
    }
    strcat(strcat(out, name), suffix);
}

static struct Tensor *add_tensor(Visit *visit, const char *prefix, int layer, const char *name, const char *suffix,
                                 Kind kind, int rows, int columns) {
    struct Tensor *tensor = visit->model->list ? &visit->model->list[visit->count] : NULL;
    visit->count++;
    if (!tensor) return NULL;
    write_name(tensor->name, prefix, layer, name, suffix);
    tensor->kind = kind, tensor->rows = rows, tensor->columns = columns;
    return tensor;
}

static void visit_vector(Visit *visit, const char *prefix, int layer, const char *name, const char *suffix, int rows,
                         int columns, const float **place) {
    struct Tensor *tensor = add_tensor(visit, prefix, layer, name, suffix, rows > 1 ? TABLE : VECTOR, rows, columns);
    if (!tensor) return;
    tensor->offset = visit->end;
    tensor->vector = place;
    visit->end += aligned(sizeof(float) * (size_t)rows * (size_t)columns);
}

/* A weight matrix, and its bias as a tensor of its own. */
static void visit_matrix(Visit *visit, const char *prefix, int layer, const char *name, int outputs, int inputs,
                         int bias, Matrix *place) {
    struct Tensor *tensor = add_tensor(visit, prefix, layer, name, bias ? ".weight" : "", MATRIX, outputs, inputs);
    if (tensor) {
        tensor->matrix = place;
        tensor->offset = visit->end;
        visit->end += aligned(packed_matrix_bytes(outputs, inputs, visit->model->settings.precision));
        tensor->bias = bias ? visit->end : 0;
    }
    if (bias) {
        struct Tensor *of_bias = add_tensor(visit, prefix, layer, name, ".bias", VECTOR, 1, outputs);
        if (of_bias) {
            of_bias->offset = visit->end;
            visit->end += aligned(sizeof(float) * (size_t)panels_of(outputs) * PANEL);
        }
    }
}

static void visit_norm(Visit *visit, const char *prefix, int layer, const char *name, Norm *place) {
    const int width = visit->model->settings.d_model;
    visit_vector(visit, prefix, layer, name, ".weight", 1, width, &place->weight);
    visit_vector(visit, prefix, layer, name, ".bias", 1, width, &place->bias);
}

static void visit_layer(Visit *visit, const char *stack, int i, int cross, Layer *place) {
    const int width = visit->model->settings.d_model, inner = visit->model->settings.d_ff;
    visit_matrix(visit, stack, i, "self_attention.query_key_value", 3 * width, width, 1, &place->query_key_value);
    visit_matrix(visit, stack, i, "self_attention.output", width, width, 1, &place->self_output);
    visit_norm(visit, stack, i, "self_residual.norm", &place->self_norm);
    if (cross) {
        visit_matrix(visit, stack, i, "cross_attention.query", width, width, 1, &place->query);
        visit_matrix(visit, stack, i, "cross_attention.key_value", 2 * width, width, 1, &place->key_value);
        visit_matrix(visit, stack, i, "cross_attention.output", width, width, 1, &place->cross_output);
        visit_norm(visit, stack, i, "cross_residual.norm", &place->cross_norm);
    }
    visit_matrix(visit, stack, i, "feed_forward.expand", inner, width, 1, &place->expand);
    visit_matrix(visit, stack, i, "feed_forward.contract", width, inner, 1, &place->contract);
    visit_norm(visit, stack, i, "feed_forward_residual.norm", &place->feed_forward_norm);
}

/* Every tensor of the model in order. The first visit, without a list, only counts. */
static void visit_tensors(Visit *visit) {
    gf_model *m = visit->model;
    const gf_settings *s = &m->settings;
    const int has_encoder = s->encoder_layers > 0, has_decoder = s->decoder_layers > 0;
    const int learned = s->positions == GF_LEARNED;
    Layer counted; /* target of the pointers in the first visit */
    visit->count = 0, visit->end = aligned(sizeof(Header));
    if (has_encoder) visit_matrix(visit, "", -1, "source_embedding", s->vocab, s->d_model, 0, &m->source_embedding);
    if (has_decoder && !(s->tied && has_encoder))
        visit_matrix(visit, "", -1, "target_embedding", s->vocab, s->d_model, 0, &m->target_embedding);
    if (has_decoder && !s->tied) visit_matrix(visit, "", -1, "output", s->vocab, s->d_model, 0, &m->output);
    if (has_decoder && s->output_bias)
        visit_vector(visit, "", -1, "output_bias", "", 1, panels_of(s->vocab) * PANEL, &m->output.bias);
    if (has_encoder && learned)
        visit_vector(visit, "", -1, "source_positions", "", s->max_positions, s->d_model, &m->source_positions);
    if (has_decoder && learned)
        visit_vector(visit, "", -1, "target_positions", "", s->max_positions, s->d_model, &m->target_positions);
    if (s->segments) visit_vector(visit, "", -1, "segments", "", s->segments, s->d_model, &m->segments);
    if (s->input_norm) visit_norm(visit, "", -1, "input_norm", &m->input_norm);
    for (int i = 0; i < s->encoder_layers; i++)
        visit_layer(visit, "encoder", i, 0, m->encoder ? &m->encoder[i] : &counted);
    if (has_encoder && s->pre_norm) visit_norm(visit, "", -1, "encoder_norm", &m->encoder_norm);
    for (int i = 0; i < s->decoder_layers; i++)
        visit_layer(visit, "decoder", i, has_encoder, m->decoder ? &m->decoder[i] : &counted);
    if (has_decoder && s->pre_norm) visit_norm(visit, "", -1, "decoder_norm", &m->decoder_norm);
}

static int within(int32_t value, int32_t low, int32_t high) { return value >= low && value <= high; }

static int valid(const gf_settings *s) {
    return within(s->vocab, 1, GF_MAX_VOCAB) && within(s->d_model, 1, 1 << 16) && within(s->heads, 1, s->d_model) &&
           s->d_model % s->heads == 0 && within(s->d_ff, 1, MAX_INPUTS) && within(s->encoder_layers, 0, 1024) &&
           within(s->decoder_layers, 0, 1024) && s->encoder_layers + s->decoder_layers > 0 &&
           within(s->pre_norm, 0, 1) && within(s->activation, GF_RELU, GF_SWISH) &&
           within(s->positions, GF_NO_POSITIONS, GF_ROTARY) && within(s->max_positions, 0, GF_MAX_TOKENS) &&
           (s->positions != GF_LEARNED || s->max_positions > 0) &&
           (s->positions != GF_ROTARY || s->d_model / s->heads % 2 == 0) && within(s->scaled_embedding, 0, 1) &&
           within(s->tied, 0, 1) && within(s->output_bias, 0, 1) && within(s->segments, 0, 1 << 16) &&
           within(s->input_norm, 0, 1) && within(s->precision, GF_FP32, GF_INT8) && s->norm_epsilon >= 0 &&
           s->norm_epsilon < 1;
}

/* Bytes of the weights without padding, as a bound that cannot overflow for valid settings. */
static double approximate_bytes(const gf_settings *s) {
    const double d = s->d_model, layer_floats = 10 * d * d + 2 * d * s->d_ff + 16 * d + s->d_ff;
    return 4 * (3.0 * s->vocab * d + 2.0 * s->max_positions * d +
                ((double)s->encoder_layers + s->decoder_layers) * layer_floats);
}

/* Make a model without weights: its tensors and their places in a block of `size` bytes. */
static int lay_out(const gf_settings *settings, gf_model **out) {
    if (!valid(settings) || approximate_bytes(settings) > MAX_BYTES) return GF_BAD_ARGUMENT;
    gf_model *m = calloc(1, sizeof *m);
    if (!m) return GF_NO_MEMORY;
    m->settings = *settings;
    Visit visit = {m, 0, 0};
    visit_tensors(&visit);
    m->tensors = visit.count;
    m->list = calloc((size_t)visit.count, sizeof *m->list);
    m->encoder = calloc((size_t)settings->encoder_layers + 1, sizeof *m->encoder);
    m->decoder = calloc((size_t)settings->decoder_layers + 1, sizeof *m->decoder);
    if (!m->list || !m->encoder || !m->decoder) {
        gf_model_free(m);
        return GF_NO_MEMORY;
    }
    visit_tensors(&visit);
    if ((double)visit.end > MAX_BYTES) {
        gf_model_free(m);
        return GF_BAD_ARGUMENT;
    }
    m->size = (size_t)visit.end;
    *out = m;
    return GF_OK;
}

/* Point the layers at their weights within the block. */
static void connect(gf_model *m) {
    const gf_settings *s = &m->settings;
    const float *output_bias = NULL;
    for (int i = 0; i < m->tensors; i++) {
        struct Tensor *t = &m->list[i];
        if (t->matrix) {
            Matrix *w = t->matrix;
            *w = packed_matrix(t->rows, t->columns, s->precision, m->data + t->offset);
            w->bias = t->bias ? (const float *)(m->data + t->bias) : NULL;
        } else if (t->vector == &m->output.bias) {
            output_bias = (const float *)(m->data + t->offset);
        } else if (t->vector) {
            *t->vector = (const float *)(m->data + t->offset);
        }
    }
    if (s->tied && s->encoder_layers > 0) m->target_embedding = m->source_embedding;
    if (s->tied) m->output = m->target_embedding;
    m->output.bias = output_bias;
}

int gf_model_new(const gf_settings *settings, gf_model **out) {
    int code = lay_out(settings, out);
    if (code != GF_OK) return code;
    gf_model *m = *out;
    m->data = allocate_aligned(m->size);
    if (!m->data) {
        gf_model_free(m);
        return GF_NO_MEMORY;
    }
    m->owner = ALLOCATED;
    Header header = {.version = GF_VERSION, .header_bytes = sizeof(Header), .bytes = m->size, .settings = *settings};
    memcpy(header.magic, MAGIC, 8);
    memset(m->data, 0, aligned(sizeof(Header)));
    memcpy(m->data, &header, sizeof header);
    connect(m);
    return GF_OK;
}

const char *gf_tensor_name(const gf_model *m, int index) {
    return index >= 0 && index < m->tensors ? m->list[index].name : NULL;
}

int64_t gf_tensor_size(const gf_model *m, int index) {
    if (index < 0 || index >= m->tensors) return GF_BAD_ARGUMENT;
    const struct Tensor *t = &m->list[index];
    return t->vector == &m->output.bias ? m->settings.vocab : (int64_t)t->rows * t->columns;
}

static void pack_fp32(const float *values, int outputs, int inputs, float *out) {
    for (int panel = 0; panel < panels_of(outputs); panel++)
        for (int i = 0; i < inputs; i++)
            for (int n = 0; n < PANEL; n++, out++) {
                const int output = panel * PANEL + n;
                *out = output < outputs ? values[(size_t)output * (size_t)inputs + (size_t)i] : 0;
            }
}

static void pack_int8(const float *values, int outputs, int inputs, int8_t *out, float *scales, int32_t *offsets) {
    const int K = padded(inputs);
    memset(out, 0, (size_t)panels_of(outputs) * PANEL * (size_t)K);
    for (int n = 0; n < panels_of(outputs) * PANEL; n++) {
        scales[n] = 0, offsets[n] = 0;
        if (n >= outputs) continue;
        const float *row = values + (size_t)n * (size_t)inputs;
        int8_t *column = out + (size_t)(n / PANEL) * PANEL * (size_t)K + 4 * (n % PANEL);
        float largest = 0;
        for (int i = 0; i < inputs; i++) largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
        const float inverse = largest > QUANTIZE_MIN ? 127 / largest : 0;
        int32_t sum = 0;
        for (int i = 0; i < inputs; i++) {
            const int8_t q = (int8_t)rintf(row[i] * inverse);
            column[(size_t)(i / 4) * 4 * PANEL + (size_t)(i % 4)] = q;
            sum += q;
        }
        scales[n] = largest / 127, offsets[n] = 128 * sum;
    }
}

Matrix pack_matrix(const float *values, int outputs, int inputs, int precision, void *memory) {
    const Matrix w = packed_matrix(outputs, inputs, precision, memory);
    if (precision == GF_FP32)
        pack_fp32(values, outputs, inputs, memory);
    else
        pack_int8(values, outputs, inputs, memory, (float *)w.scales, (int32_t *)w.offsets);
    return w;
}

int gf_tensor_rows(const gf_model *m, int index) {
    return index >= 0 && index < m->tensors ? m->list[index].rows : GF_BAD_ARGUMENT;
}

int gf_model_set(gf_model *m, int index, const float *values) {
    if (index < 0 || index >= m->tensors || m->owner != ALLOCATED) return GF_BAD_ARGUMENT;
    const int64_t count = gf_tensor_size(m, index);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return GF_BAD_ARGUMENT;
    const struct Tensor *t = &m->list[index];
    unsigned char *place = m->data + t->offset;
    if (t->kind != MATRIX) {
        const size_t bytes = sizeof(float) * (size_t)count;
        memcpy(place, values, bytes);
        /* Biases are read a whole panel at a time, and a file does not contain memory that was never written. */
        memset(place + bytes, 0, aligned(bytes) - bytes);
    } else {
        pack_matrix(values, t->rows, t->columns, m->settings.precision, place);
    }
    return GF_OK;
}

/* A 64-bit hash of the weights: eight lanes of multiply and rotate, fast enough to check a model at every start. */
static uint64_t checksum(const unsigned char *data, size_t size) {
    uint64_t lanes[8];
    for (int i = 0; i < 8; i++) lanes[i] = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
    size_t at = 0;
    for (; at + 64 <= size; at += 64) {
        uint64_t words[8];
        memcpy(words, data + at, 64);
        for (int i = 0; i < 8; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * 0xff51afd7ed558ccdu;
            lanes[i] = lanes[i] << 31 | lanes[i] >> 33;
        }
    }
    uint64_t hash = size;
    for (int i = 0; i < 8; i++) hash = (hash ^ lanes[i]) * 0xc4ceb9fe1a85ec53u, hash ^= hash >> 29;
    for (; at < size; at++) hash = (hash ^ data[at]) * 0x100000001b3u;
    return hash;
}

/* The checksum of a packed model: its settings and its weights. */
static uint64_t model_checksum(const gf_settings *settings, const unsigned char *data, size_t size) {
    const size_t start = aligned(sizeof(Header));
    return checksum((const unsigned char *)settings, sizeof *settings) ^ checksum(data + start, size - start);
}

int gf_model_finish(gf_model *m) {
    if (m->owner != ALLOCATED) return GF_BAD_ARGUMENT;
    Header header;
    memcpy(&header, m->data, sizeof header);
    header.checksum = model_checksum(&m->settings, m->data, m->size);
    memcpy(m->data, &header, sizeof header);
    return GF_OK;
}

int gf_model_from_memory(void *data, size_t size, gf_model **out) {
    Header header;
    if (size < sizeof header) return GF_BAD_FILE;
    memcpy(&header, data, sizeof header);
    if (memcmp(header.magic, MAGIC, 8) != 0 || header.version != GF_VERSION || header.header_bytes != sizeof(Header) ||
        header.bytes != size || (uintptr_t)data % ALIGNMENT != 0)
        return GF_BAD_FILE;
    int code = lay_out(&header.settings, out);
    if (code == GF_BAD_ARGUMENT) return GF_BAD_FILE;
    if (code != GF_OK) return code;
    gf_model *m = *out;
    if (m->size != size || model_checksum(&m->settings, data, size) != header.checksum) {
        gf_model_free(m);
        return GF_BAD_FILE;
    }
    m->data = data;
    connect(m);
    return GF_OK;
}

#ifndef __wasm__
int gf_model_save(const gf_model *m, const char *path) {
    FILE *file = create_file(path);
    if (!file) return GF_IO;
    const int written = fwrite(m->data, 1, m->size, file) == m->size;
    return fclose(file) == 0 && written ? GF_OK : GF_IO;
}

int gf_model_open(const char *path, gf_model **out) {
    void *data;
    size_t size;
    int code = map_file(path, sizeof(Header), &data, &size);
    if (code != GF_OK) return code;
    code = gf_model_from_memory(data, size, out);
    if (code == GF_OK)
        (*out)->owner = MAPPED;
    else
        unmap_file(data, size);
    return code;
}
#endif

void gf_model_settings(const gf_model *m, gf_settings *settings) { *settings = m->settings; }

size_t gf_model_bytes(const gf_model *m) { return m->size; }

void gf_model_free(gf_model *m) {
    if (!m) return;
    if (m->owner == ALLOCATED) free_aligned(m->data);
#ifndef __wasm__
    if (m->owner == MAPPED) unmap_file(m->data, m->size);
#endif
    free(m->list);
    free(m->encoder);
    free(m->decoder);
    free(m);
}

void embedding_row(const Matrix *w, int token, float *out) {
    const int panel = token / PANEL, n = token % PANEL;
    if (w->fp32) {
        const float *column = w->fp32 + (size_t)panel * PANEL * (size_t)w->inputs + n;
        for (int i = 0; i < w->inputs; i++) out[i] = column[(size_t)i * PANEL];
        return;
    }
    const int8_t *column = w->int8 + (size_t)panel * PANEL * (size_t)w->padded_inputs + 4 * n;
    for (int i = 0; i < w->inputs; i++)
        out[i] = w->scales[token] * (float)column[(size_t)(i / 4) * 4 * PANEL + (size_t)(i % 4)];
}

size_t shortlist_bytes(const Matrix *w, int size) {
    return packed_matrix_bytes(size, w->inputs, w->fp32 ? GF_FP32 : GF_INT8) +
           sizeof(float) * (size_t)panels_of(size) * PANEL;
}

Matrix shortlist_matrix(const Matrix *w, const int32_t *shortlist, int size, void *memory) {
    const int precision = w->fp32 ? GF_FP32 : GF_INT8;
    Matrix chosen = packed_matrix(size, w->inputs, precision, memory);
    const size_t columns = (size_t)chosen.panels * PANEL;
    const size_t steps = w->fp32 ? (size_t)w->inputs : (size_t)w->padded_inputs / 4; /* of 4 bytes per column */
    const unsigned char *from = w->fp32 ? (const unsigned char *)w->fp32 : (const unsigned char *)w->int8;
    float *bias = (float *)((unsigned char *)memory + packed_matrix_bytes(size, w->inputs, precision));
    for (size_t n = 0; n < columns; n++) {
        const size_t token = (size_t)shortlist[n < (size_t)size ? n : (size_t)size - 1];
        const unsigned char *source = from + 4 * (token / PANEL * PANEL * steps + token % PANEL);
        unsigned char *target = (unsigned char *)memory + 4 * (n / PANEL * PANEL * steps + n % PANEL);
        for (size_t i = 0; i < steps; i++) memcpy(target + 4 * PANEL * i, source + 4 * PANEL * i, 4);
        if (!w->fp32)
            ((float *)chosen.scales)[n] = w->scales[token], ((int32_t *)chosen.offsets)[n] = w->offsets[token];
        bias[n] = w->bias ? w->bias[token] : 0;
    }
    chosen.bias = w->bias ? bias : NULL;
    return chosen;
}
