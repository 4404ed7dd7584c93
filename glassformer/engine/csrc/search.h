/* Candidates of beam search (search.c), also with terms that must occur in the output (constraints.c). */
#ifndef GLASSFORMER_SEARCH_H
#define GLASSFORMER_SEARCH_H

#include "worker.h"

/* An extension of a hypothesis by one token. */
typedef struct {
    double total;
    int beam;      /* the hypothesis that it extends */
    int32_t token; /* by this token */
} Candidate;

/* The log-probability of a token; −∞ if it may not be written. */
double log_probability(const gf_worker *worker, const float *logits, int32_t token);

/* Forbid what the options of a sentence forbid after one of its hypotheses. */
void apply_options(const gf_worker *worker, const Slot *slot, int beam, float *logits);

/* Merge the best extensions of one hypothesis into a list of `size` candidates, which has room for 2·beam, best first;
 * return the new size. */
int extend(const gf_worker *worker, const Slot *slot, const float *logits, int beam, Candidate *candidates, int size);

/* Find up to 2·beam candidates of a sentence with terms; return how many, or −1 without memory. */
int extend_with_terms(gf_worker *worker, const Slot *slot, float *logits, Candidate *candidates);

/* Whether a list of terms is well-formed. */
int check_terms(const gf_worker *worker, const int32_t *terms, int size);

#endif
