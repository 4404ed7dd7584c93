/* Inference of Transformer models on a CPU, without Python or PyTorch.
 *
 * A model is built tensor by tensor (gf_model_new, gf_model_set, gf_model_finish) or opened from a packed file that
 * gf_model_save wrote. It is read-only afterwards and may be shared by threads. A worker holds the memory of one
 * thread.
 *
 * Functions that return int return GF_OK or a negative error code; gf_error_text explains it. */
#ifndef GLASSFORMER_ENGINE_H
#define GLASSFORMER_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define GF_API __declspec(dllexport)
#elif defined(__GNUC__)
#define GF_API __attribute__((visibility("default")))
#else
#define GF_API
#endif

#define GF_VERSION 1 /* of this interface and of the packed file */

enum {
    GF_OK = 0,
    GF_NO_MEMORY = -1,
    GF_BAD_ARGUMENT = -2,
    GF_BAD_FILE = -3,
    GF_IO = -4,
    GF_CANCELLED = -5,
    GF_NOT_FINITE = -6
};

/* Larger sizes are refused (GF_BAD_ARGUMENT), so that none that is computed from them overflows. */
enum {
    GF_MAX_VOCAB = 1 << 24,
    GF_MAX_TOKENS = 1 << 24,       /* of a sentence or an output; rows of a table of positions */
    GF_MAX_BATCH_TOKENS = 1 << 26, /* of all sources, before the last one */
    GF_MAX_SENTENCES = 1 << 20,
    GF_MAX_BEAM = 64,
    GF_MAX_TERM_TOKENS = 1 << 12 /* of a list of terms */
};

enum { GF_FP32 = 0, GF_INT8 = 1 };
enum { GF_RELU = 0, GF_GELU = 1, GF_GELU_TANH = 2, GF_SWISH = 3 };
enum { GF_NO_POSITIONS = 0, GF_SINUSOIDAL = 1, GF_LEARNED = 2, GF_ROTARY = 3 };

/* The shape of a model. A Transformer has encoder and decoder layers; GPT has decoder layers only, BERT encoder layers
 * only. */
typedef struct {
    int32_t vocab, d_model, heads, d_ff;
    int32_t encoder_layers, decoder_layers;
    int32_t pre_norm;         /* 1: LayerNorm before each sub-layer, and one at the end of each stack */
    int32_t activation;       /* GF_RELU … */
    int32_t positions;        /* GF_NO_POSITIONS … */
    int32_t max_positions;    /* maximum length; 0: no limit. Checked only with GF_LEARNED */
    int32_t scaled_embedding; /* 1: embeddings are multiplied by the square root of d_model */
    int32_t tied;             /* 1: one matrix for source embedding, target embedding and output */
    int32_t output_bias;      /* 1: a bias per logit */
    int32_t segments;         /* rows of the segment embedding (BERT); 0 without one */
    int32_t input_norm;       /* 1: LayerNorm after the embeddings (BERT) */
    int32_t precision;        /* GF_FP32 or GF_INT8 */
    float norm_epsilon;
} gf_settings;

typedef struct gf_model gf_model;
typedef struct gf_worker gf_worker;

GF_API const char *gf_error_text(int code);
GF_API const char *gf_instruction_set(void); /* the kernels in use: "avx512_vnni", "avx2", "neon", "scalar" … */
GF_API int
gf_use_instruction_set(const char *name);     /* for tests and benchmarks; GF_BAD_ARGUMENT where it is unavailable */
GF_API const char *gf_instruction_sets(void); /* all that this CPU can run, separated by spaces, fastest first */

/* Tensors are numbered in the order of gf_tensor_name, which returns NULL after the last. */
GF_API int gf_model_new(const gf_settings *settings, gf_model **model);
GF_API const char *gf_tensor_name(const gf_model *model, int index);
GF_API int64_t gf_tensor_size(const gf_model *model, int index); /* number of floats */
GF_API int gf_tensor_rows(const gf_model *model, int index);     /* 1 for a vector */
GF_API int gf_model_set(gf_model *model, int index, const float *values);
GF_API int gf_model_finish(gf_model *model); /* after the last gf_model_set */
GF_API int gf_model_save(const gf_model *model, const char *path);
GF_API int gf_model_open(const char *path, gf_model **model);
GF_API int gf_model_from_memory(void *data, size_t size,
                                gf_model **model); /* a packed file; `data` must outlive the model */
GF_API void gf_model_settings(const gf_model *model, gf_settings *settings);
GF_API size_t gf_model_bytes(const gf_model *model);
GF_API void gf_model_free(gf_model *model);

GF_API int gf_worker_new(const gf_model *model, gf_worker **worker);
GF_API void gf_worker_free(gf_worker *worker);
GF_API void gf_worker_cancel(gf_worker *worker); /* from another thread: the running search returns GF_CANCELLED */

/* How to search. beam = 1 is greedy decoding; with `rolls`, tokens are sampled (beam must be 1). */
typedef struct {
    int32_t beam;
    int32_t sos, eos;
    int32_t min_length;      /* minimum number of output tokens */
    int32_t no_repeat_ngram; /* no n-gram of this size twice; 0: allowed */
    float length_penalty;    /* alpha of Wu et al. (2016) */
    float temperature;       /* for sampling */
    int32_t top_k;           /* for sampling; 0: all */
    float top_p;             /* for sampling; 1: all */
} gf_search;

/* Translate `count` sentences. Their token ids follow one another in `source`.
 *   limits      the maximum number of tokens of each output
 *   rolls       NULL, or for sampling `capacity` numbers in [0, 1) per sentence
 *   shortlist   NULL, or `shortlist_size` sorted token ids that may be written
 *   capacity    tokens that fit into each output; at least the highest limit
 * Results of hypothesis h of sentence s are at index s·beam + h, best first:
 *   tokens (capacity each, without <eos>), lengths (−1: no such hypothesis), log_probabilities, scores, finished. */
GF_API int gf_translate(gf_worker *worker, const gf_search *search, int count, const int32_t *source,
                        const int32_t *lengths, const int32_t *limits, const double *rolls, const int32_t *shortlist,
                        int shortlist_size, int capacity, int32_t *tokens, int32_t *output_lengths,
                        double *log_probabilities, double *scores, int32_t *finished);

/* One sentence to decode. */
typedef struct {
    const int32_t *source;    /* token ids with <eos>; none for a language model */
    const int32_t *prompt;    /* tokens that the decoder reads first; <sos> if there are none */
    const int32_t *prefix;    /* the output starts with these tokens */
    const int32_t *forbidden; /* tokens that are never written */
    const int32_t *terms; /* must occur in the output (beam > 1); per term: the number of alternatives, per alternative:
                             its length and its tokens */
    const double *rolls;  /* NULL, or for sampling `limit` numbers in [0, 1) */
    int32_t source_length, prompt_length, prefix_length, forbidden_count, terms_size;
    int32_t limit; /* the maximum number of tokens of the output, with its prefix */
} gf_sentence;

/* Continuous batching: sentences join and leave between the steps of the decoder. The output does not depend on
 * the other sentences. gf_translate ends all sentences that were added before.
 *
 * gf_add encodes `count` sentences, each with its own search options, and returns a number for each; all or none join.
 * gf_step decodes the next token of every sentence. `ended` has room for the numbers of all sentences that were added
 * and receives those of the ones that ended. gf_collect copies the hypotheses of an ended one as gf_translate does, or
 * returns the error that ended it. gf_remove removes a sentence, finished or not; its number may be reused.
 * gf_progress returns how many tokens of the best hypothesis of a sentence that has not ended it copied, from token
 * `first` on. */
GF_API int gf_add(gf_worker *worker, int count, const gf_search *options, const gf_sentence *sentences,
                  int32_t *numbers);
GF_API int gf_step(gf_worker *worker, int room, int32_t *ended, int32_t *count);
GF_API int gf_collect(const gf_worker *worker, int number, int capacity, int32_t *tokens, int32_t *lengths,
                      double *log_probabilities, double *scores, int32_t *finished);
GF_API int gf_remove(gf_worker *worker, int number);
GF_API int gf_progress(const gf_worker *worker, int number, int first, int room, int32_t *tokens);

/* Encoder–decoder attention in one decoder layer while the decoder reads `count` tokens: the mean attention weights of
 * all heads, `source_length` floats per token. */
GF_API int gf_cross_attention(gf_worker *worker, int source_length, const int32_t *source, int count,
                              const int32_t *tokens, int layer, float *weights);

/* The attention weights of every head and the logits of one pass, in which the encoder reads `source_length` tokens and
 * the decoder `count` tokens (0 without a decoder or encoder). For inspection only; translation does not use it.
 *   weights   per encoder layer, source token and head: source_length floats. Then per decoder layer: per token (the
 *             i-th, from 0) and head, i + 1 floats of masked self-attention; per token and head, source_length floats
 *             of encoder–decoder attention
 *   logits    of the next token after each of the `count` tokens; unused without a decoder */
GF_API int gf_attention(gf_worker *worker, int source_length, const int32_t *source, int count, const int32_t *tokens,
                        float *weights, float *logits);

/* Run the encoder; hidden receives d_model floats per token. segments may be NULL. */
GF_API int gf_encode(gf_worker *worker, int count, const int32_t *tokens, const int32_t *lengths,
                     const int32_t *segments, float *hidden);

/* Decoding step by step, for language models (without an encoder). gf_read appends `count` tokens to what was read
 * since gf_start and returns the logits of the next token. */
GF_API int gf_start(gf_worker *worker, int max_tokens);
GF_API int gf_read(gf_worker *worker, int count, const int32_t *tokens, float *logits);

/* Draw a token from softmax(logits / temperature), restricted to top_k and top_p, by a number in [0, 1). */
GF_API int gf_sample(const float *logits, int vocab, float temperature, int top_k, float top_p, double roll,
                     int32_t *token);

/* Single operations, for tests against the NumPy reference. */
GF_API int gf_test_matmul(const float *x, int rows, int inputs, const float *weight, const float *bias, int outputs,
                          int precision, float *out);
GF_API int gf_test_layer_norm(const float *x, int rows, int width, const float *weight, const float *bias,
                              float epsilon, float *out);
GF_API int gf_test_attention(const float *query, const float *keys, const float *values, const int32_t *rows,
                             int length, int size, float *out);
GF_API int gf_test_activation(int activation, float *x, int count);
GF_API int gf_test_log_sum_exp(const float *x, int count, float *out);

#endif
