/* The encoder and the decoder: one pass through the layers for a number of tokens. There is no padding: the tokens of
 * all sentences are concatenated, and only attention knows where a sentence starts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "platform.h"
#include "worker.h"

#define FLOATS(buffer)  ((float *)(buffer).data)
#define FIRST_POSITIONS 128 /* of the cache: more than most sentences have tokens */

void *reserve(Buffer *buffer, uint64_t bytes) {
    if (bytes > buffer->bytes || !buffer->data) {
        free_aligned(buffer->data);
        const uint64_t rounded = (bytes + bytes / 8 + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
        buffer->data = bytes <= SIZE_MAX / 2 ? allocate_aligned((size_t)rounded) : NULL;
        buffer->bytes = buffer->data ? (size_t)rounded : 0;
    }
    return buffer->data;
}

static int reserve_rows(gf_worker *worker, uint64_t rows, uint64_t longest) {
    const gf_settings *s = &worker->model->settings;
    const size_t width = (size_t)s->d_model, inner = (size_t)s->d_ff, widest = inner > width ? inner : width;
    return reserve(&worker->x, sizeof(float) * rows * width) &&
           reserve(&worker->normed, sizeof(float) * rows * width) &&
           reserve(&worker->projected, sizeof(float) * rows * 3 * width) &&
           reserve(&worker->heads, sizeof(float) * rows * width) &&
           reserve(&worker->inner, sizeof(float) * rows * inner) &&
           reserve(&worker->scores, sizeof(float) * (longest + PANEL)) &&
           reserve(&worker->rows, sizeof(int) * longest) &&
           reserve(&worker->split, sizeof(float) * longest * 2 * width) &&
           (s->precision == GF_FP32 || (reserve(&worker->quantized, quantized_bytes((int)rows, (int)widest)) &&
                                        reserve(&worker->scales, sizeof(float) * rows)));
}

/* out = x·Wᵀ + b */
static void linear(gf_worker *worker, const float *x, int rows, const Matrix *w, float *out, size_t stride,
                   Epilogue epilogue) {
    const Kernels *k = kernels();
    if (w->fp32) {
        k->matmul_fp32(x, rows, w, out, stride, epilogue);
        return;
    }
    uint8_t *q = worker->quantized.data;
    k->quantize(x, rows, w->inputs, w->padded_inputs, q, FLOATS(worker->scales));
    k->matmul_int8(q, FLOATS(worker->scales), rows, w, out, stride, epilogue);
}

/* The input of a sub-layer: LayerNorm(x) in a pre-norm model, x itself in a post-norm model. */
static const float *norm_before(gf_worker *worker, const Norm *norm, int rows) {
    const gf_settings *s = &worker->model->settings;
    if (!s->pre_norm) return worker->x.data;
    kernels()->layer_norm(worker->x.data, rows, s->d_model, norm->weight, norm->bias, s->norm_epsilon,
                          worker->normed.data);
    return worker->normed.data;
}

/* After a sub-layer has been added to x: LayerNorm(x) in a post-norm model. */
static void norm_after(gf_worker *worker, const Norm *norm, int rows) {
    const gf_settings *s = &worker->model->settings;
    if (!s->pre_norm)
        kernels()->layer_norm(worker->x.data, rows, s->d_model, norm->weight, norm->bias, s->norm_epsilon,
                              worker->x.data);
}

static void final_norm(gf_worker *worker, const Norm *norm, int rows) {
    const gf_settings *s = &worker->model->settings;
    if (s->pre_norm)
        kernels()->layer_norm(worker->x.data, rows, s->d_model, norm->weight, norm->bias, s->norm_epsilon,
                              worker->x.data);
}

static void feed_forward(gf_worker *worker, const Layer *layer, int rows) {
    const gf_settings *s = &worker->model->settings;
    const float *input = norm_before(worker, &layer->feed_forward_norm, rows);
    const int relu = s->activation == GF_RELU;
    linear(worker, input, rows, &layer->expand, worker->inner.data, (size_t)s->d_ff, relu ? STORE_RELU : STORE);
    if (!relu) kernels()->activate(s->activation, worker->inner.data, (size_t)rows * (size_t)s->d_ff);
    linear(worker, worker->inner.data, rows, &layer->contract, worker->x.data, (size_t)s->d_model, ADD);
    norm_after(worker, &layer->feed_forward_norm, rows);
}

/* Sinusoidal encodings of positions 0 … rows − 1 (§3.5), as wide as the model or, to rotate its heads, as a head. */
static const float *sinusoids(gf_worker *worker, int rows) {
    const gf_settings *s = &worker->model->settings;
    const int width = s->positions == GF_ROTARY ? s->d_model / s->heads : s->d_model;
    if (rows <= worker->sinusoid_rows) return worker->sinusoids.data;
    const int grown = rows < 128 ? 256 : 2 * rows;
    float *table = reserve(&worker->sinusoids, sizeof(float) * (uint64_t)grown * (size_t)width);
    worker->sinusoid_rows = 0;
    if (!table) return NULL;
    for (int i = 0; i < width; i += 2) {
        const double rate = pow(10000, (double)i / width);
        for (int t = 0; t < grown; t++) {
            table[(size_t)t * (size_t)width + (size_t)i] = (float)sin(t / rate);
            if (i + 1 < width) table[(size_t)t * (size_t)width + (size_t)i + 1] = (float)cos(t / rate);
        }
    }
    worker->sinusoid_rows = grown;
    return table;
}

/* x = embedding of a token · √d_model + positional encoding */
static void embed(gf_worker *worker, const Matrix *embedding, int token, int position, const float *table, float *x) {
    const gf_settings *s = &worker->model->settings;
    const float scale = s->scaled_embedding ? (float)sqrt(s->d_model) : 1;
    embedding_row(embedding, token, x);
    for (int i = 0; i < s->d_model; i++) x[i] *= scale;
    if (table && s->positions != GF_ROTARY)
        for (int i = 0; i < s->d_model; i++) x[i] += table[(size_t)position * (size_t)s->d_model + (size_t)i];
}

/* The table of positional encodings for `rows` positions; NULL in *table without one. */
static int positions(gf_worker *worker, const float *learned, int rows, const float **table) {
    const gf_settings *s = &worker->model->settings;
    *table = NULL;
    if (s->positions == GF_NO_POSITIONS) return GF_OK;
    if (s->positions == GF_LEARNED) {
        *table = learned;
        return rows <= s->max_positions ? GF_OK : GF_BAD_ARGUMENT;
    }
    *table = sinusoids(worker, rows);
    return *table ? GF_OK : GF_NO_MEMORY;
}

/* Rotary positions: turn each pair of entries of the queries and keys of one token (2·d_model floats) by an angle. */
static void rotate(const gf_settings *s, const float *table, int position, float *query_key) {
    const int size = s->d_model / s->heads;
    if (s->positions != GF_ROTARY) return;
    const float *sine = table + (size_t)position * (size_t)size, *cosine = sine + 1;
    for (int h = 0; h < 2 * s->heads; h++, query_key += size)
        for (int i = 0; i < size; i += 2) {
            const float even = query_key[i], odd = query_key[i + 1];
            query_key[i] = even * cosine[i] - odd * sine[i];
            query_key[i + 1] = even * sine[i] + odd * cosine[i];
        }
}

/* Copy the keys and values of one token (2·d_model floats) to row `row` of `rows`: [head][keys, values][row][size]. */
static void split_heads(const float *key_value, int heads, int size, int row, int rows, float *out) {
    for (int part = 0; part < 2; part++)
        for (int h = 0; h < heads; h++, key_value += size)
            memcpy(out + ((size_t)(2 * h + part) * (size_t)rows + (size_t)row) * (size_t)size, key_value,
                   sizeof(float) * (size_t)size);
}

/* Attend with every head; `key_value` as split_heads lays it out. The mean of the attention weights of all heads is
 * added to `mean`, unless it is NULL. */
static void attend_heads(gf_worker *worker, const float *query, const float *key_value, int rows, const int *chosen,
                         int length, float *out, float *mean) {
    const int heads = worker->model->settings.heads, size = worker->model->settings.d_model / heads;
    const size_t part = (size_t)rows * (size_t)size;
    const float *weights = worker->scores.data;
    for (int h = 0; h < heads; h++, query += size, out += size, key_value += 2 * part) {
        kernels()->attend(query, key_value, key_value + part, chosen, length, size, worker->scores.data, out);
        for (int i = 0; mean && i < length; i++) mean[i] += weights[i] / (float)heads;
        if (worker->record) {
            memcpy(worker->record, weights, sizeof(float) * (size_t)length);
            worker->record += length;
        }
    }
}

static void encoder_attention(gf_worker *worker, const Layer *layer, int count, const int32_t *lengths, int tokens,
                              const float *table) {
    const gf_settings *s = &worker->model->settings;
    const size_t width = (size_t)s->d_model;
    const float *input = norm_before(worker, &layer->self_norm, tokens);
    float *row = worker->projected.data, *heads = worker->heads.data, *split = worker->split.data;
    linear(worker, input, tokens, &layer->query_key_value, row, 3 * width, STORE);
    for (int sentence = 0; sentence < count; sentence++) {
        const int length = lengths[sentence];
        for (int i = 0; i < length; i++) {
            rotate(s, table, i, row + (size_t)i * 3 * width);
            split_heads(row + (size_t)i * 3 * width + width, s->heads, s->d_model / s->heads, i, length, split);
        }
        for (int i = 0; i < length; i++, row += 3 * width, heads += width)
            attend_heads(worker, row, split, length, NULL, length, heads, NULL);
    }
    linear(worker, worker->heads.data, tokens, &layer->self_output, worker->x.data, width, ADD);
    norm_after(worker, &layer->self_norm, tokens);
}

/* The sum and the maximum of the lengths of `count` sentences. */
static int measure(int count, const int32_t *lengths, int *total, int *longest) {
    *total = *longest = 0;
    for (int i = 0; i < count; i++) {
        if (lengths[i] < 1 || lengths[i] > GF_MAX_TOKENS || *total > GF_MAX_BATCH_TOKENS) return GF_BAD_ARGUMENT;
        *total += lengths[i];
        *longest = lengths[i] > *longest ? lengths[i] : *longest;
    }
    return GF_OK;
}

int run_encoder(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *segments) {
    const gf_model *m = worker->model;
    const gf_settings *s = &m->settings;
    int total, longest;
    if (measure(count, lengths, &total, &longest) != GF_OK) return GF_BAD_ARGUMENT;
    const float *table;
    const int code = positions(worker, m->source_positions, longest, &table);
    if (code != GF_OK) return code;
    if (!reserve_rows(worker, (size_t)total, (size_t)longest)) return GF_NO_MEMORY;
    const size_t width = (size_t)s->d_model;
    float *x = worker->x.data;
    for (int sentence = 0, at = 0; sentence < count; sentence++)
        for (int i = 0; i < lengths[sentence]; i++, at++, x += width) {
            const int segment = segments ? segments[at] : 0;
            if (tokens[at] < 0 || tokens[at] >= s->vocab || segment < 0 || (s->segments && segment >= s->segments))
                return GF_BAD_ARGUMENT;
            embed(worker, &m->source_embedding, tokens[at], i, table, x);
            if (m->segments)
                for (size_t e = 0; e < width; e++) x[e] += m->segments[(size_t)segment * width + e];
        }
    if (s->input_norm)
        kernels()->layer_norm(worker->x.data, total, s->d_model, m->input_norm.weight, m->input_norm.bias,
                              s->norm_epsilon, worker->x.data);
    for (int i = 0; i < s->encoder_layers; i++) {
        if (worker->cancelled) return GF_CANCELLED;
        encoder_attention(worker, &m->encoder[i], count, lengths, total, table);
        feed_forward(worker, &m->encoder[i], total);
    }
    final_norm(worker, &m->encoder_norm, total);
    worker->source_tokens = total;
    return GF_OK;
}

/* The floats of `rows` rows of keys and values in one layer. */
static size_t layer_floats(const gf_worker *worker, int rows) {
    return (size_t)rows * 2 * (size_t)worker->model->settings.d_model;
}

int32_t *list_of(const Slot *slot, SlotList list, int beam) {
    return (int32_t *)slot->lists.data +
           ((size_t)list * (size_t)slot->options.beam + (size_t)beam) * (size_t)slot->capacity;
}

/* Copy the rows of a sentence to the places that they have in a larger cache: [head][keys, values][row][head size]. */
static void move_rows(const gf_settings *s, const float *from, int old_rows, float *to, int new_rows) {
    const size_t size = (size_t)(s->d_model / s->heads), old_part = (size_t)old_rows * size;
    for (int part = 0; part < 2 * s->heads; part++, from += old_part, to += (size_t)new_rows * size)
        memcpy(to, from, sizeof(float) * old_part);
}

int make_room(const gf_worker *worker, Slot *slot, int positions) {
    const gf_settings *s = &worker->model->settings;
    const int beam = slot->options.beam, most = slot->prompt + slot->limit, old = slot->capacity;
    if (positions <= old) return GF_OK;
    /* Limits are rarely reached: allocating all positions at the start would take much more memory. */
    int capacity = 2 * old > FIRST_POSITIONS ? 2 * old : FIRST_POSITIONS;
    capacity = capacity < most ? capacity : most;
    capacity = capacity > positions ? capacity : positions;
    Buffer cache = old ? (Buffer){0} : slot->cache, lists = old ? (Buffer){0} : slot->lists;
    const uint64_t rows = (uint64_t)capacity * (uint64_t)beam;
    const int room = reserve(&cache, sizeof(float) * (uint64_t)s->decoder_layers * rows * 2 * (uint64_t)s->d_model) &&
                     reserve(&lists, sizeof(int32_t) * SLOT_LISTS * rows);
    if (!room && old) free_aligned(cache.data), free_aligned(lists.data);
    if (!room && !old) slot->cache = cache, slot->lists = lists;
    if (!room) return GF_NO_MEMORY;
    for (int i = 0; old && i < s->decoder_layers; i++)
        move_rows(s, FLOATS(slot->cache) + (size_t)i * layer_floats(worker, old * beam), old * beam,
                  FLOATS(cache) + (size_t)i * layer_floats(worker, capacity * beam), capacity * beam);
    for (size_t row = 0; old && row < SLOT_LISTS * (size_t)beam; row++)
        memcpy((int32_t *)lists.data + row * (size_t)capacity, (int32_t *)slot->lists.data + row * (size_t)old,
               sizeof(int32_t) * (size_t)old);
    if (old) free_aligned(slot->cache.data), free_aligned(slot->lists.data);
    slot->cache = cache, slot->lists = lists, slot->capacity = capacity;
    return GF_OK;
}

int read_sources(gf_worker *worker, Slot *const *slots, int count, const int32_t *tokens, const int32_t *lengths) {
    const gf_model *m = worker->model;
    const gf_settings *s = &m->settings;
    const size_t width = (size_t)s->d_model;
    const int code = run_encoder(worker, count, tokens, lengths, NULL);
    if (code != GF_OK) return code;
    for (int i = 0; i < count; i++) {
        const uint64_t rows = (uint64_t)s->decoder_layers * (uint64_t)lengths[i];
        slots[i]->source_length = lengths[i];
        if (!reserve(&slots[i]->memory, sizeof(float) * rows * 2 * width)) return GF_NO_MEMORY;
    }
    for (int layer = 0; layer < s->decoder_layers; layer++) {
        const float *key_value = worker->projected.data;
        linear(worker, worker->x.data, worker->source_tokens, &m->decoder[layer].key_value, worker->projected.data,
               2 * width, STORE);
        for (int i = 0; i < count; i++) {
            float *of_sentence = FLOATS(slots[i]->memory) + (size_t)layer * layer_floats(worker, lengths[i]);
            for (int j = 0; j < lengths[i]; j++, key_value += 2 * width)
                split_heads(key_value, s->heads, s->d_model / s->heads, j, lengths[i], of_sentence);
        }
    }
    return GF_OK;
}

/* Masked self-attention: each token attends to its hypothesis up to itself. */
static void decoder_attention(gf_worker *worker, int i, const Row *rows, int count, const float *table) {
    const gf_settings *s = &worker->model->settings;
    const Layer *layer = &worker->model->decoder[i];
    const size_t width = (size_t)s->d_model;
    int *chosen = worker->rows.data;
    float *projected = worker->projected.data;
    linear(worker, norm_before(worker, &layer->self_norm, count), count, &layer->query_key_value, projected, 3 * width,
           STORE);
    for (int r = 0; r < count; r++) {
        const Slot *slot = rows[r].slot;
        const int beam = slot->options.beam, all = slot->capacity * beam;
        rotate(s, table, rows[r].position, projected + (size_t)r * 3 * width);
        split_heads(projected + (size_t)r * 3 * width + width, s->heads, s->d_model / s->heads,
                    rows[r].position * beam + rows[r].beam, all,
                    FLOATS(slot->cache) + (size_t)i * layer_floats(worker, all));
    }
    for (int r = 0; r < count; r++) {
        const Slot *slot = rows[r].slot;
        const int position = rows[r].position, beam = slot->options.beam, all = slot->capacity * beam;
        if (beam > 1) {
            const int32_t *ancestors = list_of(slot, ANCESTORS, rows[r].beam);
            for (int t = 0; t < position; t++) chosen[t] = t * beam + ancestors[t];
            chosen[position] = position * beam + rows[r].beam;
        }
        attend_heads(worker, projected + (size_t)r * 3 * width,
                     FLOATS(slot->cache) + (size_t)i * layer_floats(worker, all), all, beam > 1 ? chosen : NULL,
                     position + 1, FLOATS(worker->heads) + (size_t)r * width, NULL);
    }
    linear(worker, worker->heads.data, count, &layer->self_output, worker->x.data, width, ADD);
    norm_after(worker, &layer->self_norm, count);
}

/* Encoder–decoder attention: each token attends to the source. `mean` receives the mean attention weights of each row,
 * unless it is NULL. */
static void cross_attention(gf_worker *worker, int i, const Row *rows, int count, float *mean) {
    const gf_settings *s = &worker->model->settings;
    const Layer *layer = &worker->model->decoder[i];
    const size_t width = (size_t)s->d_model;
    float *query = worker->projected.data;
    linear(worker, norm_before(worker, &layer->cross_norm, count), count, &layer->query, query, width, STORE);
    for (int r = 0; r < count; r++) {
        const int length = rows[r].slot->source_length;
        const float *memory = FLOATS(rows[r].slot->memory) + (size_t)i * layer_floats(worker, length);
        attend_heads(worker, query + (size_t)r * width, memory, length, NULL, length,
                     FLOATS(worker->heads) + (size_t)r * width, mean);
        if (mean) mean += length;
    }
    linear(worker, worker->heads.data, count, &layer->cross_output, worker->x.data, width, ADD);
    norm_after(worker, &layer->cross_norm, count);
}

int run_decoder(gf_worker *worker, const Row *rows, int count, int recorded, float *mean) {
    const gf_model *m = worker->model;
    const gf_settings *s = &m->settings;
    const size_t width = (size_t)s->d_model;
    int last = 0, longest = 0;
    for (int r = 0; r < count; r++) {
        if (rows[r].token < 0 || rows[r].token >= s->vocab || rows[r].position >= rows[r].slot->capacity)
            return GF_BAD_ARGUMENT;
        last = rows[r].position > last ? rows[r].position : last;
        longest = rows[r].slot->source_length > longest ? rows[r].slot->source_length : longest;
    }
    const float *table;
    const int code = positions(worker, m->target_positions, last + 1, &table);
    if (code != GF_OK) return code;
    if (!reserve_rows(worker, (size_t)count, (size_t)(longest > last ? longest : last + 1))) return GF_NO_MEMORY;
    for (int r = 0; r < count; r++)
        embed(worker, &m->target_embedding, rows[r].token, rows[r].position, table,
              FLOATS(worker->x) + (size_t)r * width);
    for (int i = 0; i < s->decoder_layers; i++) {
        if (worker->cancelled) return GF_CANCELLED;
        decoder_attention(worker, i, rows, count, table);
        if (s->encoder_layers) cross_attention(worker, i, rows, count, i == recorded ? mean : NULL);
        feed_forward(worker, &m->decoder[i], count);
    }
    final_norm(worker, &m->decoder_norm, count);
    return GF_OK;
}

int run_output(gf_worker *worker, int first, int count) {
    const size_t width = (size_t)worker->model->settings.d_model, vocab = (size_t)worker->output.outputs;
    float *logits = reserve(&worker->logits, sizeof(float) * (uint64_t)count * vocab);
    if (!logits) return GF_NO_MEMORY;
    linear(worker, FLOATS(worker->x) + (size_t)first * width, count, &worker->output, logits, vocab, STORE);
    return GF_OK;
}

int gf_encode(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *segments,
              float *hidden) {
    worker->cancelled = 0;
    if (count < 1 || !worker->model->settings.encoder_layers) return GF_BAD_ARGUMENT;
    const int code = run_encoder(worker, count, tokens, lengths, segments);
    if (code != GF_OK) return code;
    memcpy(hidden, worker->x.data,
           sizeof(float) * (size_t)worker->source_tokens * (size_t)worker->model->settings.d_model);
    return GF_OK;
}
