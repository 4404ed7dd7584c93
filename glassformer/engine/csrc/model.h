/* The weights of a model, packed into one block of memory that is also the content of a packed file. */
#ifndef GLASSFORMER_MODEL_H
#define GLASSFORMER_MODEL_H

#include "engine.h"
#include "kernels.h"

typedef struct {
    const float *weight, *bias;
} Norm;

typedef struct {
    Matrix query_key_value, self_output; /* W_Q, W_K, W_V of all heads in one matrix; W_O */
    Norm self_norm;
    Matrix query, key_value, cross_output; /* encoder–decoder attention; decoder layers of a Transformer only */
    Norm cross_norm;
    Matrix expand, contract; /* the feed-forward network */
    Norm feed_forward_norm;
} Layer;

/* How the memory of a model was obtained: from the caller, by allocate_aligned, or by map_file. */
typedef enum { BORROWED, ALLOCATED, MAPPED } Owner;

struct gf_model {
    gf_settings settings;
    unsigned char *data; /* header and weights */
    size_t size;
    Owner owner; /* of `data` */
    int tensors; /* how many gf_model_set takes */
    struct Tensor *list;

    Matrix source_embedding, target_embedding, output; /* the same matrix where tied */
    const float *source_positions, *target_positions;  /* learned tables, max_positions × d_model, or NULL */
    const float *segments;                             /* segments × d_model, or NULL */
    Norm input_norm, encoder_norm, decoder_norm;
    Layer *encoder, *decoder;
};

/* Pack one matrix into `memory`, which has room for packed_matrix_bytes. */
size_t packed_matrix_bytes(int outputs, int inputs, int precision);
Matrix pack_matrix(const float *values, int outputs, int inputs, int precision, void *memory);

/* Row `token` of an embedding matrix, in packed form. */
void embedding_row(const Matrix *matrix, int token, float *out);

/* Fill a matrix of `shortlist_size` of the outputs of another; `memory` has room for shortlist_bytes. */
size_t shortlist_bytes(const Matrix *matrix, int shortlist_size);
Matrix shortlist_matrix(const Matrix *matrix, const int32_t *shortlist, int shortlist_size, void *memory);

#endif
