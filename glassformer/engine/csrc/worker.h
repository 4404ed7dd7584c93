/* The memory of one thread, and the passes through the layers (layers.c) that the searches (search.c) use. */
#ifndef GLASSFORMER_WORKER_H
#define GLASSFORMER_WORKER_H

#include <stdatomic.h>

#include "model.h"

typedef struct {
    void *data;
    size_t bytes;
} Buffer;

/* One token for the decoder to read. */
typedef struct {
    int sentence, beam; /* beam: which hypothesis of the sentence */
    int position;       /* of the token in the output */
    int32_t token;
} Row;

struct gf_worker {
    const gf_model *model;
    atomic_int cancelled; /* set by another thread */

    /* Activations of one pass, rows × width each. */
    Buffer x, normed, projected, heads, inner, scores, rows, split, quantized, scales, logits;
    Buffer sinusoids;
    int sinusoid_rows;

    /* Keys and values lie head by head, so that attention reads them in order: [head][keys, values][row][head size].
     * The source: those of encoder–decoder attention, [layer][sentence][head]…; one row per source token. */
    Buffer memory;
    int source_tokens, sentences;
    Buffer source_start, source_length; /* int per sentence */

    /* The output so far: [layer][sentence][head]…; row position·beam + b belongs to hypothesis b. Rows that belong to
     * no surviving hypothesis stay where they are; `ancestors` says which ones a hypothesis descends from. */
    Buffer cache, cache_start, cache_length; /* per sentence: rows before its first one (size_t), its rows (int) */
    uint64_t cache_rows;                     /* of one layer */
    int beam, capacity;                      /* capacity: positions */
    Buffer ancestors;                        /* [sentence][beam][position]: the hypothesis at that position */
    int read;                                /* tokens read by gf_read */

    Buffer shortlist;             /* memory of `output` */
    Matrix output;                /* the output layer, or its shortlist */
    Buffer search, numbers, more; /* of search.c */
};

/* Make room for at least `bytes`, keeping no content. NULL if there is no memory. Sizes are computed in 64 bits, so
 * that they do not overflow where an address has 32 (WebAssembly). */
void *reserve(Buffer *buffer, uint64_t bytes);

/* Run the encoder over all sentences; the result is in worker->x. */
int run_encoder(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *segments);

/* Run the encoder, compute the keys and values of encoder–decoder attention, and make room for the outputs. */
int start_decoder(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *limits,
                  int beam);

/* Read `count` tokens; hidden states are in worker->x afterwards. */
int run_decoder(gf_worker *worker, const Row *rows, int count);

/* Logits of rows first … first + count − 1 of worker->x, in worker->logits. */
int run_output(gf_worker *worker, int first, int count);

int *ancestors_of(gf_worker *worker, int sentence, int beam);

#endif
