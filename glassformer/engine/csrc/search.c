/* Greedy decoding, sampling and beam search. Finished sentences leave the batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* An extension of a hypothesis by one token. */
typedef struct {
    double total, score;
    int beam;      /* the hypothesis that it extends */
    int32_t token; /* by this token */
} Candidate;

/* Everything that one search needs to know. Outputs are those of gf_translate. */
typedef struct {
    gf_worker *worker;
    const gf_search *options;
    const int32_t *limits, *shortlist;
    const double *rolls;
    int vocab; /* tokens that may be written: the size of the shortlist, if there is one */
    int capacity;
    int32_t *tokens, *lengths, *finished;
    double *log_probabilities, *scores;
} Search;

static int32_t token_at(const Search *s, int index) { return s->shortlist ? s->shortlist[index] : index; }

/* The index of a token among the logits; −1 if it may not be written. */
static int index_of(const Search *s, int32_t token) {
    if (!s->shortlist) return token >= 0 && token < s->vocab ? token : -1;
    int low = 0, high = s->vocab;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (s->shortlist[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->vocab && s->shortlist[low] == token ? low : -1;
}

static void forbid(const Search *s, float *logits, int32_t token) {
    const int index = index_of(s, token);
    if (index >= 0) logits[index] = -INFINITY;
}

/* Forbid an end before min_length, and n-grams that the output already has. */
static void constrain(const Search *s, float *logits, const int32_t *output, int length) {
    const int n = s->options->no_repeat_ngram;
    if (length < s->options->min_length) forbid(s, logits, s->options->eos);
    for (int i = 0; n > 0 && i + n <= length; i++)
        if (memcmp(output + i, output + length - n + 1, sizeof *output * (size_t)(n - 1)) == 0)
            forbid(s, logits, output[i + n - 1]);
}

/* log Σ exp of the logits; NaN where they are not finite. */
static float log_sum_exp(const float *logits, int vocab, float largest) {
    return largest + logf(kernels()->sum_exp(logits, vocab, largest));
}

static void write_result(const Search *s, int index, const int32_t *tokens, int length, double total, double score,
                         int finished) {
    memcpy(s->tokens + (size_t)index * (size_t)s->capacity, tokens, sizeof *tokens * (size_t)length);
    s->lengths[index] = length;
    s->log_probabilities[index] = total;
    s->scores[index] = score;
    s->finished[index] = finished;
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

/* Greedy decoding or sampling: one path per sentence. */
static int follow(Search *s, int count) {
    gf_worker *worker = s->worker;
    const gf_search *o = s->options;
    Row *rows = reserve(&worker->decoder_rows, sizeof *rows * (size_t)count);
    double *totals = reserve(&worker->totals, sizeof *totals * (size_t)count);
    if (!rows || !totals) return GF_NO_MEMORY;
    for (int i = 0; i < count; i++) rows[i] = (Row){i, 0, 0, o->sos}, totals[i] = 0;
    for (int length = 0; count > 0; length++) {
        int code = run_decoder(worker, rows, count);
        if (code == GF_OK) code = run_output(worker, 0, count);
        if (code != GF_OK) return code;
        int alive = 0;
        for (int r = 0; r < count; r++) {
            float *logits = (float *)worker->logits.data + (size_t)r * (size_t)s->vocab;
            const int sentence = rows[r].sentence;
            int32_t *output = s->tokens + (size_t)sentence * (size_t)s->capacity;
            constrain(s, logits, output, length);
            int index = argmax(logits, s->vocab);
            const float largest = index >= 0 ? logits[index] : NAN;
            if (s->rolls) {
                if (index < 0) return GF_NOT_FINITE;
                const double roll = s->rolls[(size_t)sentence * (size_t)s->capacity + (size_t)length];
                code = gf_sample(logits, s->vocab, o->temperature, o->top_k, o->top_p, roll, &index);
                if (code != GF_OK) return code;
            }
            /* Without any finite logit the output ends here: the weights are damaged, or all was forbidden. */
            const int32_t token = index >= 0 ? token_at(s, index) : o->eos;
            double total = totals[sentence];
            total += index >= 0 ? logits[index] - log_sum_exp(logits, s->vocab, largest) : -INFINITY;
            totals[sentence] = total;
            const int ended = token == o->eos;
            if (!ended) output[length] = token;
            if (ended || length + 1 >= s->limits[sentence])
                write_result(s, sentence, output, length + !ended, total, total / (length + 1), ended && index >= 0);
            else
                rows[alive++] = (Row){sentence, 0, length + 1, token};
        }
        count = alive;
    }
    return GF_OK;
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
static int extend(const Search *s, const float *logits, double total, int beam, Candidate *candidates, int size) {
    const int most = 2 * s->options->beam;
    const float largest = kernels()->maximum(logits, s->vocab);
    if (!(largest > -INFINITY)) return size;
    const float normalizer = log_sum_exp(logits, s->vocab, largest);
    Candidate best[2 * GF_MAX_BEAM];
    int found = 0, index = -1;
    float threshold = -INFINITY;
    while (kernels()->above(logits, index + 1, s->vocab, threshold, &index, 1)) {
        found = insert(best, found, most, (Candidate){logits[index], 0, beam, token_at(s, index)});
        if (found == most) threshold = (float)best[most - 1].total;
    }
    for (int i = 0; i < found; i++) {
        best[i].total = total + ((float)best[i].total - normalizer);
        if (best[i].total > -INFINITY) size = insert(candidates, size, most, best[i]); /* not NaN either */
    }
    return size;
}

/* ((5 + length) / 6)^alpha of Wu et al. (2016). */
static double length_normalizer(int length, float alpha) { return pow((5 + length) / 6.0, alpha); }

/* The finished hypotheses of one sentence, best first; they are written to the results as they come. */
static int add_finished(const Search *s, int sentence, int size, const int32_t *tokens, int length, double total,
                        double score, int ended) {
    const int beam = s->options->beam, first = sentence * beam;
    /* A hypothesis that the limit cut off ranks behind all that ended. */
    int at = size;
    while (at > 0 && (ended > s->finished[first + at - 1] ||
                      (ended == s->finished[first + at - 1] && score > s->scores[first + at - 1])))
        at--;
    if (at >= beam) return size;
    for (int i = (size < beam ? size : beam - 1); i > at; i--) {
        const int from = first + i - 1;
        write_result(s, first + i, s->tokens + (size_t)from * (size_t)s->capacity, s->lengths[from],
                     s->log_probabilities[from], s->scores[from], s->finished[from]);
    }
    write_result(s, first + at, tokens, length, total, score, ended);
    return size < beam ? size + 1 : size;
}

/* The hypotheses of one sentence that are still extended. */
typedef struct {
    int sentence, live, finished;
    double totals[GF_MAX_BEAM];
} Beam;

/* Take the candidates of a step (best first); return whether the sentence is done. `outputs` are the tokens of its
 * hypotheses, `capacity` apart. Kept candidates move to the front of the list. */
static int take_candidates(const Search *s, Beam *b, Candidate *candidates, int size, const int32_t *outputs,
                           int length, int *kept) {
    const int beam = s->options->beam;
    const double normalizer = length_normalizer(length, s->options->length_penalty);
    int going = 0;
    for (int c = 0; c < size; c++) {
        const Candidate one = candidates[c];
        if (one.token != s->options->eos)
            candidates[going++] = one;
        else if (c < beam)
            b->finished = add_finished(s, b->sentence, b->finished, outputs + (size_t)one.beam * (size_t)s->capacity,
                                       length - 1, one.total, one.total / normalizer, 1);
    }
    *kept = going < beam ? going : beam;
    const int full = b->finished == beam;
    int done = going == 0 || length >= s->limits[b->sentence];
    /* The best of the others could still win by its length where alpha > 0, but rarely does. */
    if (!done && full) done = candidates[0].total / normalizer <= s->scores[(b->sentence + 1) * beam - 1];
    if (done && !full)
        for (int c = 0; c < *kept; c++) {
            int32_t *whole = s->worker->scratch.data; /* the hypothesis with its last token */
            memcpy(whole, outputs + (size_t)candidates[c].beam * (size_t)s->capacity,
                   sizeof *whole * (size_t)(length - 1));
            whole[length - 1] = candidates[c].token;
            b->finished = add_finished(s, b->sentence, b->finished, whole, length, candidates[c].total,
                                       candidates[c].total / normalizer, 0);
        }
    return done;
}

/* Give each kept candidate the first `length` entries of the hypothesis that it extends; rows are `stride` apart. */
static void rearrange(int32_t *rows, size_t stride, int live, const Candidate *kept, int count, size_t length,
                      int32_t *scratch) {
    for (int h = 0; h < live; h++)
        memcpy(scratch + (size_t)h * length, rows + (size_t)h * stride, sizeof *rows * length);
    for (int k = 0; k < count; k++)
        memcpy(rows + (size_t)k * stride, scratch + (size_t)kept[k].beam * length, sizeof *rows * length);
}

/* Make the kept candidates the hypotheses of a sentence: their outputs and their ancestors. */
static void advance(const Search *s, Beam *b, const Candidate *kept, int count, int32_t *outputs, int length) {
    int *ancestors = ancestors_of(s->worker, b->sentence, 0);
    const size_t capacity = (size_t)s->capacity, of_cache = (size_t)s->worker->capacity, last = (size_t)length - 1;
    rearrange(outputs, capacity, b->live, kept, count, last, s->worker->scratch.data);
    rearrange(ancestors, of_cache, b->live, kept, count, last, s->worker->scratch.data);
    for (int k = 0; k < count; k++) {
        outputs[(size_t)k * capacity + last] = kept[k].token;
        ancestors[(size_t)k * of_cache + last] = kept[k].beam;
        b->totals[k] = kept[k].total;
    }
    b->live = count;
}

static int beam_search(Search *s, int count) {
    gf_worker *worker = s->worker;
    const int beam = s->options->beam;
    const uint64_t slots = (uint64_t)count * (uint64_t)beam;
    const size_t capacity = (size_t)s->capacity;
    Row *rows = reserve(&worker->decoder_rows, sizeof *rows * slots);
    Beam *beams = reserve(&worker->beams, sizeof *beams * (uint64_t)count);
    int32_t *outputs = reserve(&worker->outputs, sizeof *outputs * slots * capacity);
    if (!rows || !beams || !outputs || !reserve(&worker->scratch, sizeof *outputs * (uint64_t)beam * capacity))
        return GF_NO_MEMORY;
    for (int i = 0; i < count; i++) beams[i] = (Beam){i, 1, 0, {0}};
    for (int length = 1; count > 0; length++) {
        int used = 0;
        for (int i = 0; i < count; i++) {
            const int32_t *output = outputs + (size_t)beams[i].sentence * (size_t)beam * capacity;
            for (int h = 0; h < beams[i].live; h++) {
                const int32_t last = length > 1 ? output[(size_t)h * capacity + (size_t)length - 2] : s->options->sos;
                rows[used++] = (Row){beams[i].sentence, h, length - 1, last};
            }
        }
        int code = run_decoder(worker, rows, used);
        if (code == GF_OK) code = run_output(worker, 0, used);
        if (code != GF_OK) return code;
        int alive = 0;
        float *logits = worker->logits.data;
        for (int i = 0; i < count; i++) {
            Beam *b = &beams[i];
            int32_t *output = outputs + (size_t)b->sentence * (size_t)beam * capacity;
            Candidate candidates[2 * GF_MAX_BEAM];
            int size = 0, kept = 0;
            for (int h = 0; h < b->live; h++, logits += s->vocab) {
                constrain(s, logits, output + (size_t)h * capacity, length - 1);
                size = extend(s, logits, b->totals[h], h, candidates, size);
            }
            if (take_candidates(s, b, candidates, size, output, length, &kept)) continue;
            advance(s, b, candidates, kept, output, length);
            beams[alive++] = *b;
        }
        count = alive;
    }
    return GF_OK;
}

int gf_translate(gf_worker *worker, const gf_search *options, int count, const int32_t *source, const int32_t *lengths,
                 const int32_t *limits, const double *rolls, const int32_t *shortlist, int shortlist_size, int capacity,
                 int32_t *tokens, int32_t *output_lengths, double *log_probabilities, double *scores,
                 int32_t *finished) {
    const gf_settings *model = &worker->model->settings;
    worker->cancelled = 0;
    if (!model->decoder_layers || !model->encoder_layers || count < 1 || count > GF_MAX_SENTENCES ||
        options->beam < 1 || options->beam > GF_MAX_BEAM || (rolls && options->beam > 1) ||
        options->no_repeat_ngram < 0 || shortlist_size < 0)
        return GF_BAD_ARGUMENT;
    for (int i = 0; i < count; i++)
        if (limits[i] < 1 || limits[i] > capacity || limits[i] > GF_MAX_TOKENS) return GF_BAD_ARGUMENT;
    for (int i = 0; i < shortlist_size; i++)
        if (shortlist[i] < 0 || shortlist[i] >= model->vocab || (i > 0 && shortlist[i] <= shortlist[i - 1]))
            return GF_BAD_ARGUMENT;
    const int code = start_decoder(worker, count, source, lengths, limits, options->beam);
    if (code != GF_OK) return code;
    for (int i = 0; i < count * options->beam; i++) output_lengths[i] = -1, finished[i] = 0;
    Search search = {worker,
                     options,
                     limits,
                     shortlist_size ? shortlist : NULL,
                     rolls,
                     model->vocab,
                     capacity,
                     tokens,
                     output_lengths,
                     finished,
                     log_probabilities,
                     scores};
    if (shortlist_size) {
        void *memory = reserve(&worker->shortlist, shortlist_bytes(&worker->output, shortlist_size));
        if (!memory) return GF_NO_MEMORY;
        worker->output = shortlist_matrix(&worker->output, shortlist, shortlist_size, memory);
        search.vocab = shortlist_size;
    }
    return options->beam == 1 ? follow(&search, count) : beam_search(&search, count);
}

int gf_start(gf_worker *worker, int max_tokens) {
    const gf_settings *model = &worker->model->settings;
    if (model->encoder_layers || max_tokens < 1 || max_tokens > GF_MAX_TOKENS) return GF_BAD_ARGUMENT;
    const int32_t limit = max_tokens;
    const int code = start_decoder(worker, 1, NULL, NULL, &limit, 1);
    if (code != GF_OK) worker->limit = 0; /* nothing can be read */
    return code;
}

int gf_read(gf_worker *worker, int count, const int32_t *tokens, float *logits) {
    worker->cancelled = 0;
    if (count < 1 || worker->model->settings.encoder_layers || count > worker->limit - worker->read)
        return GF_BAD_ARGUMENT;
    Row *rows = reserve(&worker->decoder_rows, sizeof *rows * (size_t)count);
    if (!rows) return GF_NO_MEMORY;
    for (int i = 0; i < count; i++) rows[i] = (Row){0, 0, worker->read + i, tokens[i]};
    int code = run_decoder(worker, rows, count);
    if (code == GF_OK) code = run_output(worker, count - 1, 1);
    if (code != GF_OK) return code;
    worker->read += count;
    memcpy(logits, worker->logits.data, sizeof(float) * (size_t)worker->model->settings.vocab);
    return GF_OK;
}
