/* The memory of one thread, and the passes through the layers (layers.c) that the searches (search.c, session.c) use.
 */
#ifndef GLASSFORMER_WORKER_H
#define GLASSFORMER_WORKER_H

#include <stdatomic.h>

#include "model.h"

typedef struct {
    void *data;
    size_t bytes;
} Buffer;

/* The lists of token ids or numbers that each hypothesis of a sentence has, `capacity` entries each. */
typedef enum {
    ANCESTORS, /* the hypothesis that wrote the token at each position; unused with a beam of 1 */
    OUTPUT,    /* tokens written so far */
    FINISHED,  /* tokens of the finished hypotheses, best first */
    SLOT_LISTS
} SlotList;

/* A finished hypothesis; its tokens are in the list FINISHED. */
typedef struct {
    double total, score; /* log-probability, with and without length normalization */
    int length;
    int ended; /* with <eos>, not at the limit */
} Finished;

typedef enum { SLOT_FREE = 0, SLOT_ACTIVE, SLOT_DONE } SlotState; /* negative: the error that ended the sentence */

/* One sentence that is decoded: its keys and values, its hypotheses, and its results.
 *
 * Keys and values lie head by head, so that attention reads them in order: [layer][head][keys, values][row][head size].
 * The token that hypothesis b reads at a position has the cache row position·beam + b. Rows that belong to no surviving
 * hypothesis stay where they are; the ancestors say which ones a hypothesis descends from. With a beam of 2 at
 * position 2:
 *
 *     position              0       1     2
 *     tokens of beam 0      <sos>   a     c        cache rows 0, 2, 4
 *     tokens of beam 1              b     d        cache rows 1, 3, 5
 *
 * Hypothesis 0 is "b c": c extended hypothesis 1. Its ancestors are 0, 1, so c attends to the cache rows
 * 0·2 + 0 (<sos>), 1·2 + 1 (b) and 2·2 + 0 (c itself). Hypothesis 1 is "a d" with the ancestors 0, 0: d attends to
 * the rows 0, 2 and 5. */
typedef struct {
    int number; /* that identifies it for the caller */
    int state;  /* a SlotState, or a negative error code */
    gf_search options;
    int limit;  /* tokens that the output may have */
    int length; /* tokens that the live hypotheses have */
    int sampled;

    Buffer memory; /* keys and values of encoder–decoder attention; one row per source token */
    int source_length;
    Buffer cache;  /* keys and values of self-attention */
    Buffer lists;  /* int32_t [SlotList][beam][capacity] */
    int capacity;  /* positions that there is room for; it grows up to prompt + limit */
    int positions; /* that have been read */

    int prompt, prefix, forbidden; /* number of tokens: read first; forced as the output's first; never written */
    Buffer given;                  /* int32_t: these tokens, one list after the other */
    Buffer rolls;                  /* double per output token, for sampling */
    Buffer terms;                  /* int32_t: see constraints.c */
    int terms_size;

    int live; /* hypotheses that are still extended */
    double totals[GF_MAX_BEAM];
    int finished;
    Finished results[GF_MAX_BEAM];
} Slot;

/* One token for the decoder to read. */
typedef struct {
    Slot *slot;
    int beam;     /* which hypothesis of the sentence */
    int position; /* of the token among all that the decoder reads */
    int32_t token;
} Row;

/* Data flow of a step: session.c fills step_rows and calls run_decoder and run_output (layers.c), which fill
 * the activations, the caches of the slots and the logits. Then search.c chooses tokens and updates the slots. */
struct gf_worker {
    const gf_model *model;
    atomic_int cancelled; /* set by another thread */

    /* Activations of one pass, rows × width each. */
    Buffer x, normed, projected, heads, inner, scores, rows, split, quantized, scales, logits;
    Buffer sinusoids;
    int sinusoid_rows, source_tokens;
    float *record; /* of gf_attention: where the next attention weights go; NULL otherwise */

    Buffer slots,
        active; /* Slot * of every sentence by its number; Slot * of those to decode, in the order they came */
    int slot_count, active_count;
    Slot reader;                         /* of gf_read, gf_cross_attention and gf_attention */
    Buffer sources, taken, source_sizes; /* of gf_add: tokens and lengths of the sources, their slots */
    Buffer sentences;                    /* gf_sentence, of gf_translate */
    Buffer step_rows;                    /* Row per token that the decoder reads in this step */
    Buffer pool;                         /* candidates of one sentence with terms, and their banks */
    Buffer scratch;                      /* scratch memory for reordering the lists of one sentence */

    Buffer shortlist;       /* memory of `output` */
    Matrix output;          /* the output layer, or its shortlist */
    const int32_t *allowed; /* token of each logit with a shortlist; NULL without one */
};

/* Make room for at least `bytes`, keeping no content. NULL if there is no memory. Sizes are computed in 64 bits, so
 * that they do not overflow where an address has 32 (WebAssembly). */
void *reserve(Buffer *buffer, uint64_t bytes);

/* Run the encoder over all sentences; the result is in worker->x. */
int run_encoder(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *segments);

/* Run the encoder, and compute the keys and values of encoder–decoder attention of each slot. */
int read_sources(gf_worker *worker, Slot *const *slots, int count, const int32_t *tokens, const int32_t *lengths);

/* Make room for this many positions in the cache and the lists of a slot, keeping their content. */
int make_room(const gf_worker *worker, Slot *slot, int positions);

/* Read `count` tokens; hidden states are in worker->x afterwards. Unless `mean` is NULL, it receives for each row the
 * mean attention weights of layer `recorded` over the source; it has to be zero before. */
int run_decoder(gf_worker *worker, const Row *rows, int count, int recorded, float *mean);

/* Logits of rows first … first + count − 1 of worker->x, in worker->logits. */
int run_output(gf_worker *worker, int first, int count);

/* A list of a hypothesis: `capacity` entries. It moves when the cache grows. */
int32_t *list_of(const Slot *slot, SlotList list, int beam);

/* Choose the next tokens of a sentence by the logits of its hypotheses; sets its state when it has ended. */
void choose_tokens(gf_worker *worker, Slot *slot, float *logits);

/* Add the log-probability of a forced token. */
void force_token(gf_worker *worker, Slot *slot, const float *logits, int32_t token);

#endif
