/* Greedy decoding, sampling and beam search: the choice of the next tokens of one sentence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

static int32_t token_at(const gf_worker *w, int index) { return w->allowed ? w->allowed[index] : index; }

/* The index of a token among the logits; −1 if it may not be written. */
static int index_of(const gf_worker *w, int32_t token) {
    const int vocab = w->output.outputs;
    if (!w->allowed) return token >= 0 && token < vocab ? token : -1;
    int low = 0, high = vocab;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (w->allowed[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low < vocab && w->allowed[low] == token ? low : -1;
}

static void forbid(const gf_worker *w, float *logits, int32_t token) {
    const int index = index_of(w, token);
    if (index >= 0) logits[index] = -INFINITY;
}

void apply_options(const gf_worker *w, const Slot *slot, int beam, float *logits) {
    const int n = slot->options.no_repeat_ngram, length = slot->length;
    const int32_t *output = list_of(slot, OUTPUT, beam);
    const int32_t *forbidden = (int32_t *)slot->given.data + slot->prompt + slot->prefix;
    if (length < slot->options.min_length) forbid(w, logits, slot->options.eos);
    for (int i = 0; n > 0 && i + n <= length; i++)
        if (memcmp(output + i, output + length - n + 1, sizeof *output * (size_t)(n - 1)) == 0)
            forbid(w, logits, output[i + n - 1]);
    for (int i = 0; i < slot->forbidden; i++) forbid(w, logits, forbidden[i]);
}

/* log Σ exp of the logits; NaN where they are not finite. */
static float log_sum_exp(const float *logits, int vocab, float largest) {
    return largest + logf(kernels()->sum_exp(logits, vocab, largest));
}

double log_probability(const gf_worker *w, const float *logits, int32_t token) {
    const int index = index_of(w, token), vocab = w->output.outputs;
    return index < 0 ? -INFINITY : logits[index] - log_sum_exp(logits, vocab, kernels()->maximum(logits, vocab));
}

void force_token(gf_worker *w, Slot *slot, const float *logits, int32_t token) {
    slot->totals[0] += log_probability(w, logits, token);
}

static void write_result(Slot *slot, int index, const int32_t *tokens, Finished result) {
    memmove(list_of(slot, FINISHED, index), tokens, sizeof *tokens * (size_t)result.length);
    slot->results[index] = result;
}

/* The position of the largest logit; −1 if there is none. */
static int argmax(const float *logits, int vocab) {
    const float largest = kernels()->maximum(logits, vocab);
    return largest > -INFINITY ? kernels()->first_equal(logits, vocab, largest) : -1;
}

typedef struct {
    double probability;
    int index;
} Weighted;

static int by_probability(const void *a, const void *b) {
    const Weighted *x = a, *y = b;
    if (x->probability != y->probability) return x->probability < y->probability ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

int gf_sample(const float *logits, int vocab, float temperature, int top_k, float top_p, double roll, int32_t *token) {
    if (vocab < 1 || !(temperature > 0)) return GF_BAD_ARGUMENT;
    const float largest = kernels()->maximum(logits, vocab);
    if (!isfinite(largest)) return GF_NOT_FINITE;
    Weighted *all = malloc(sizeof *all * (size_t)vocab);
    if (!all) return GF_NO_MEMORY;
    double sum = 0;
    for (int i = 0; i < vocab; i++) {
        const double p = logits[i] == logits[i] ? exp(((double)logits[i] - largest) / temperature) : 0;
        all[i] = (Weighted){p, i};
        sum += p;
    }
    qsort(all, (size_t)vocab, sizeof *all, by_probability);
    if (top_k > 0 && top_k < vocab) {
        vocab = top_k, sum = 0;
        for (int i = 0; i < vocab; i++) sum += all[i].probability;
    }
    /* A token is kept while those before it have not reached top_p, so the first one always is. */
    double kept = 0;
    int count = 0;
    while (count < vocab && all[count].probability > 0 && (count == 0 || kept < (double)top_p * sum))
        kept += all[count++].probability;
    double reached = 0;
    int chosen = 0;
    for (; chosen < count - 1; chosen++) {
        reached += all[chosen].probability;
        if (reached > roll * kept) break;
    }
    *token = all[chosen].index;
    free(all);
    return GF_OK;
}

/* Greedy decoding or sampling: one hypothesis. */
static void follow(gf_worker *w, Slot *slot, float *logits) {
    const gf_search *o = &slot->options;
    const int vocab = w->output.outputs;
    int32_t *output = list_of(slot, OUTPUT, 0);
    apply_options(w, slot, 0, logits);
    int index = argmax(logits, vocab);
    const float largest = index >= 0 ? logits[index] : NAN;
    if (slot->sampled) {
        const double roll = ((double *)slot->rolls.data)[slot->length];
        const int code =
            index < 0 ? GF_NOT_FINITE : gf_sample(logits, vocab, o->temperature, o->top_k, o->top_p, roll, &index);
        if (code != GF_OK) {
            slot->state = code;
            return;
        }
    }
    /* Without any finite logit the output ends here: the weights are damaged, or all was forbidden. */
    const int32_t token = index >= 0 ? token_at(w, index) : o->eos;
    const int ended = index < 0 || token == o->eos;
    slot->totals[0] += index >= 0 ? logits[index] - log_sum_exp(logits, vocab, largest) : -INFINITY;
    if (!ended) output[slot->length] = token;
    slot->length++;
    if (!ended && slot->length < slot->limit) return;
    const double total = slot->totals[0];
    write_result(slot, 0, output, (Finished){total, total / slot->length, slot->length - ended, ended && index >= 0});
    slot->finished = 1, slot->state = SLOT_DONE;
}

/* Insert a candidate into a list of the best, sorted by total; return the new size. */
static int insert(Candidate *list, int size, int most, Candidate new) {
    if (size == most && !(new.total > list[size - 1].total)) return size;
    int at = size < most ? size++ : size - 1;
    for (; at > 0 && new.total > list[at - 1].total; at--) list[at] = list[at - 1];
    list[at] = new;
    return size;
}

/* Merge the best extensions of one hypothesis into the candidates of its sentence. */
int extend(const gf_worker *w, const Slot *slot, const float *logits, int beam, Candidate *candidates, int size) {
    const int most = 2 * slot->options.beam, vocab = w->output.outputs;
    const float largest = kernels()->maximum(logits, vocab);
    if (!(largest > -INFINITY)) return size;
    const float normalizer = log_sum_exp(logits, vocab, largest);
    Candidate best[2 * GF_MAX_BEAM];
    int found = 0, index = -1;
    float threshold = -INFINITY;
    while (kernels()->above(logits, index + 1, vocab, threshold, &index, 1)) {
        found = insert(best, found, most, (Candidate){logits[index], beam, token_at(w, index)});
        if (found == most) threshold = (float)best[most - 1].total;
    }
    for (int i = 0; i < found; i++) {
        best[i].total = slot->totals[beam] + ((float)best[i].total - normalizer);
        if (best[i].total > -INFINITY) size = insert(candidates, size, most, best[i]); /* not NaN either */
    }
    return size;
}

/* ((5 + length) / 6)^alpha of Wu et al. (2016). */
static double length_normalizer(int length, float alpha) { return pow((5 + length) / 6.0, alpha); }

/* Add a hypothesis to the finished ones of its sentence, best first. */
static void add_finished(Slot *slot, const int32_t *tokens, Finished new) {
    const int beam = slot->options.beam;
    const Finished *all = slot->results;
    /* A hypothesis that the limit cut off ranks behind all that ended. */
    int at = slot->finished;
    while (at > 0 &&
           (new.ended > all[at - 1].ended || (new.ended == all[at - 1].ended && new.score > all[at - 1].score)))
        at--;
    if (at >= beam) return;
    for (int i = (slot->finished < beam ? slot->finished : beam - 1); i > at; i--)
        write_result(slot, i, list_of(slot, FINISHED, i - 1), all[i - 1]);
    write_result(slot, at, tokens, new);
    slot->finished += slot->finished < beam;
}

/* Finish the candidates that end (best first), move the others to the front of the list, and return how many of them
 * are extended; 0 if the sentence is done. */
static int take_candidates(const gf_worker *w, Slot *slot, Candidate *candidates, int size) {
    const int beam = slot->options.beam, length = slot->length + 1;
    const double normalizer = length_normalizer(length, slot->options.length_penalty);
    int going = 0;
    for (int c = 0; c < size; c++) {
        const Candidate one = candidates[c];
        if (one.token != slot->options.eos)
            candidates[going++] = one;
        else if (c < beam)
            add_finished(slot, list_of(slot, OUTPUT, one.beam),
                         (Finished){one.total, one.total / normalizer, length - 1, 1});
    }
    const int kept = going < beam ? going : beam, full = slot->finished == beam;
    int done = going == 0 || length >= slot->limit;
    /* The best of the others could still win by its length where alpha > 0, but rarely does. */
    if (!done && full) done = candidates[0].total / normalizer <= slot->results[beam - 1].score;
    if (done && !full)
        for (int c = 0; c < kept; c++) {
            int32_t *whole = w->scratch.data; /* the hypothesis with its last token */
            memcpy(whole, list_of(slot, OUTPUT, candidates[c].beam), sizeof *whole * (size_t)(length - 1));
            whole[length - 1] = candidates[c].token;
            add_finished(slot, whole, (Finished){candidates[c].total, candidates[c].total / normalizer, length, 0});
        }
    return done ? 0 : kept;
}

/* Give each kept candidate the first `length` entries of a list of the hypothesis that it extends, and one more. */
static void rearrange(Slot *slot, SlotList list, const Candidate *kept, int count, int length, int32_t *scratch) {
    const size_t bytes = sizeof *scratch * (size_t)length;
    for (int h = 0; h < slot->live; h++) memcpy(scratch + (size_t)h * (size_t)length, list_of(slot, list, h), bytes);
    for (int k = 0; k < count; k++) {
        int32_t *row = list_of(slot, list, k);
        memcpy(row, scratch + (size_t)kept[k].beam * (size_t)length, bytes);
        row[length] = list == OUTPUT ? kept[k].token : kept[k].beam;
    }
}

static void search_beam(gf_worker *w, Slot *slot, float *logits) {
    Candidate candidates[2 * GF_MAX_BEAM];
    int size = 0;
    int32_t *scratch = reserve(&w->scratch, sizeof *scratch * (uint64_t)slot->options.beam * (uint64_t)slot->capacity);
    if (!scratch) {
        slot->state = GF_NO_MEMORY;
        return;
    }
    if (slot->terms_size) {
        size = extend_with_terms(w, slot, logits, candidates);
    } else
        for (int h = 0; h < slot->live; h++, logits += w->output.outputs) {
            apply_options(w, slot, h, logits);
            size = extend(w, slot, logits, h, candidates, size);
        }
    if (size < 0) {
        slot->state = GF_NO_MEMORY;
        return;
    }
    const int kept = take_candidates(w, slot, candidates, size);
    if (kept == 0) {
        slot->state = SLOT_DONE;
        return;
    }
    rearrange(slot, OUTPUT, candidates, kept, slot->length, scratch);
    rearrange(slot, ANCESTORS, candidates, kept, slot->positions - 1, scratch);
    for (int k = 0; k < kept; k++) slot->totals[k] = candidates[k].total;
    slot->live = kept, slot->length++;
}

void choose_tokens(gf_worker *worker, Slot *slot, float *logits) {
    if (slot->options.beam == 1)
        follow(worker, slot, logits);
    else
        search_beam(worker, slot, logits);
}
