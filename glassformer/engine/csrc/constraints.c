/* Beam search with terms that must occur in the output, by dynamic beam allocation (Post & Vilar, 2018): hypotheses
 * that contain equally many tokens of the terms form a bank, and all banks get the same share of the beam. */
#include <math.h>
#include <string.h>

#include "search.h"

/* The list of terms is: number of alternatives, then per alternative its length and its tokens; and so on. */
typedef struct {
    const int32_t *at;  /* the next entry of the list */
    int alternatives;   /* of the current term that remain */
    const int32_t *ids; /* the current alternative */
    int length;
} Reader;

/* Advance to the next alternative of the current term; 0 after the last. */
static int next_alternative(Reader *reader) {
    if (reader->alternatives-- == 0) return 0;
    reader->length = *reader->at++;
    reader->ids = reader->at;
    reader->at += reader->length;
    return 1;
}

/* Advance to the next term; 0 after the last. */
static int next_term(Reader *reader, const Slot *slot) {
    if (reader->at == (int32_t *)slot->terms.data + slot->terms_size) return 0;
    reader->alternatives = *reader->at++;
    return 1;
}

int check_terms(const gf_worker *worker, const int32_t *terms, int size) {
    const int vocab = worker->model->settings.vocab;
    for (int at = 0; at < size;) {
        const int alternatives = terms[at++];
        if (alternatives < 1) return 0;
        for (int i = 0; i < alternatives; i++) {
            if (at >= size) return 0;
            const int length = terms[at++];
            if (length < 1 || length > size - at) return 0;
            for (int j = 0; j < length; j++, at++)
                if (terms[at] < 0 || terms[at] >= vocab) return 0;
        }
    }
    return 1;
}

static int same(const int32_t *a, const int32_t *b, int length) {
    return memcmp(a, b, sizeof *a * (size_t)length) == 0;
}

static int occurs(const Reader *term, const int32_t *tokens, int length) {
    for (int i = 0; i + term->length <= length; i++)
        if (same(tokens + i, term->ids, term->length)) return 1;
    return 0;
}

/* How many tokens of an alternative the output ends with, but not all of them. */
static int begun(const Reader *term, const int32_t *tokens, int length) {
    int most = term->length - 1 < length ? term->length - 1 : length;
    while (most > 0 && !same(tokens + length - most, term->ids, most)) most--;
    return most;
}

/* Count the tokens of terms in an output: of every term that occurs, and of a term whose beginning ends the output.
 * Each term counts as much as its longest alternative. */
static int count_met(const Slot *slot, const int32_t *tokens, int length, int *all_met) {
    Reader reader = {.at = slot->terms.data};
    int met = 0, last = 0;
    *all_met = 1;
    while (next_term(&reader, slot)) {
        int longest = 0, found = 0, part = 0;
        while (next_alternative(&reader)) {
            longest = reader.length > longest ? reader.length : longest;
            found = found || occurs(&reader, tokens, length);
            const int now = begun(&reader, tokens, length);
            part = now > part ? now : part;
        }
        met += found ? longest : 0;
        last = !found && part > last ? part : last;
        *all_met &= found;
    }
    return met + last;
}

/* Add the tokens that begin or continue a term which the output does not contain yet. */
static int add_term_tokens(const gf_worker *w, const Slot *slot, int beam, const float *logits, Candidate *pool) {
    const int32_t *output = list_of(slot, OUTPUT, beam);
    Reader reader = {.at = slot->terms.data};
    int size = 0;
    while (next_term(&reader, slot)) {
        Reader again = reader;
        int found = 0;
        while (next_alternative(&reader)) found = found || occurs(&reader, output, slot->length);
        while (!found && next_alternative(&again)) {
            const int part = begun(&again, output, slot->length);
            for (int i = 0; i <= part; i += part ? part : 1) {
                const double more = log_probability(w, logits, again.ids[i]);
                if (more > -INFINITY) pool[size++] = (Candidate){slot->totals[beam] + more, beam, again.ids[i]};
            }
        }
    }
    return size;
}

/* Take the best candidate of each bank in turn, starting with the bank that has the most tokens of the terms. */
static int choose_from_banks(const Candidate *pool, int *banks, int size, Candidate *candidates, int room) {
    int top = 0, chosen = 0, before = -1;
    for (int i = 0; i < size; i++) top = banks[i] > top ? banks[i] : top;
    while (chosen < room && chosen > before) {
        before = chosen;
        for (int bank = top; bank >= 0 && chosen < room; bank--) {
            int best = -1;
            for (int i = 0; i < size; i++)
                if (banks[i] == bank && (best < 0 || pool[i].total > pool[best].total)) best = i;
            if (best < 0) continue;
            candidates[chosen++] = pool[best];
            for (int i = 0; i < size; i++)
                if (pool[i].beam == pool[best].beam && pool[i].token == pool[best].token) banks[i] = -1;
        }
    }
    return chosen;
}

int extend_with_terms(gf_worker *w, const Slot *slot, float *logits, Candidate *candidates) {
    const int beam = slot->options.beam, most = slot->live * (2 * beam + 2 * slot->terms_size), length = slot->length;
    Candidate *pool = reserve(&w->pool, (sizeof *pool + sizeof(int)) * (uint64_t)most);
    if (!pool) return -1;
    int *banks = (int *)(pool + most), size = 0, ends = 0, all_met;
    for (int h = 0; h < slot->live; h++, logits += w->output.outputs) {
        apply_options(w, slot, h, logits);
        count_met(slot, list_of(slot, OUTPUT, h), length, &all_met);
        /* An output with all terms may end at any time: its score decides. */
        const double end = all_met ? log_probability(w, logits, slot->options.eos) : -INFINITY;
        if (end > -INFINITY) candidates[ends++] = (Candidate){slot->totals[h] + end, h, slot->options.eos};
        size += add_term_tokens(w, slot, h, logits, pool + size);
        const int before = size;
        size += extend(w, slot, logits, h, pool + size, 0);
        for (int i = before; i < size; i++)
            if (pool[i].token == slot->options.eos) pool[i] = pool[--size];
    }
    int32_t *whole = w->scratch.data; /* a hypothesis with its next token */
    for (int i = 0; i < size; i++) {
        memcpy(whole, list_of(slot, OUTPUT, pool[i].beam), sizeof *whole * (size_t)length);
        whole[length] = pool[i].token;
        banks[i] = count_met(slot, whole, length + 1, &all_met);
    }
    return ends + choose_from_banks(pool, banks, size, candidates + ends, beam);
}
