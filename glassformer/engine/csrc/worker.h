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

/* The rows of one sentence in the cache of a layer. */
typedef struct {
    size_t start; /* rows before its first one */
    int rows;     /* positions that there is room for, times beam */
    int limit;    /* positions that its output may have; 0 after it has ended */
} CachePlace;

/* Who changes what during a step of a search: search.c fills decoder_rows and calls run_decoder and run_output
 * (layers.c), which fill the activations, the cache and the logits. Then search.c chooses tokens and updates its own
 * buffers and the ancestors. */
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

    /* The output so far: [layer][sentence][head]…. The token that hypothesis b reads at a position has the cache row
     * position·beam + b. Rows that belong to no surviving hypothesis stay where they are; `ancestors` says which ones
     * a hypothesis descends from. A sentence with a beam of 2 at position 2:
     *
     *     position              0       1     2
     *     tokens of beam 0      <sos>   a     c        cache rows 0, 2, 4
     *     tokens of beam 1              b     d        cache rows 1, 3, 5
     *
     * Hypothesis 0 is "b c": c extended hypothesis 1. Its ancestors are 0, 1, so c attends to the cache rows
     * 0·2 + 0 (<sos>), 1·2 + 1 (b) and 2·2 + 0 (c itself). Hypothesis 1 is "a d" with the ancestors 0, 0: d attends to
     * the rows 0, 2 and 5. */
    Buffer cache, places; /* places: a CachePlace per sentence */
    uint64_t cache_rows;  /* of one layer */
    int beam;
    int limit;        /* the highest limit of a sentence */
    int capacity;     /* positions that there is room for; the cache grows up to `limit` */
    Buffer ancestors; /* [sentence][beam][capacity]: the hypothesis at that position; unused with a beam of 1 */
    int read;         /* tokens read by gf_read */

    Buffer shortlist; /* memory of `output` */
    Matrix output;    /* the output layer, or its shortlist */

    /* Of search.c. */
    Buffer decoder_rows; /* Row per token that the decoder reads in this step */
    Buffer totals;       /* greedy decoding: log-probability per sentence */
    Buffer beams;        /* beam search: Beam per sentence that is not done */
    Buffer outputs;      /* beam search: [sentence][beam][capacity of the caller], tokens of the hypotheses */
    Buffer scratch;      /* tokens or ancestors of one sentence while they change places */
};

/* Make room for at least `bytes`, keeping no content. NULL if there is no memory. Sizes are computed in 64 bits, so
 * that they do not overflow where an address has 32 (WebAssembly). */
void *reserve(Buffer *buffer, uint64_t bytes);

/* Run the encoder over all sentences; the result is in worker->x. */
int run_encoder(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *segments);

/* Run the encoder, compute the keys and values of encoder–decoder attention, and make room for the first positions of
 * the outputs. */
int start_decoder(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *limits,
                  int beam);

/* Read `count` tokens; hidden states are in worker->x afterwards. Sentences without a row have ended: they may lose
 * their part of the cache. */
int run_decoder(gf_worker *worker, const Row *rows, int count);

/* Logits of rows first … first + count − 1 of worker->x, in worker->logits. */
int run_output(gf_worker *worker, int first, int count);

/* The ancestors of a hypothesis: `capacity` ints. They move when the cache grows. */
int *ancestors_of(gf_worker *worker, int sentence, int beam);

#endif
