/* Decoding of many sentences at a time. Sentences join between two steps of the decoder (gf_add) and leave when they
 * have ended (gf_step) or when they are removed (gf_remove). gf_translate decodes one batch to its end. */
#include <stdlib.h>
#include <string.h>

#include "platform.h"
#include "search.h"

#define KEPT_ROWS 1024 /* of the cache of a slot, for the next sentence; a larger cache is freed */

static Slot *slot_of(const gf_worker *worker, int number) {
    if (number < 0 || number >= worker->slot_count) return NULL;
    Slot *slot = ((Slot **)worker->slots.data)[number];
    return slot->state == SLOT_FREE ? NULL : slot;
}

static void drop(Buffer *buffer) {
    free_aligned(buffer->data);
    *buffer = (Buffer){0};
}

static void clear_slot(Slot *slot) {
    Buffer *all[] = {&slot->memory, &slot->cache, &slot->lists, &slot->given, &slot->rolls, &slot->terms};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) drop(all[i]);
}

/* End a sentence; its memory is kept for the next one, unless it is large. */
static void release(Slot *slot) {
    const int large = (int64_t)slot->capacity * slot->options.beam > KEPT_ROWS || slot->source_length > KEPT_ROWS;
    if (large) clear_slot(slot);
    slot->state = SLOT_FREE, slot->capacity = 0;
}

static void release_all(gf_worker *worker) {
    for (int i = 0; i < worker->slot_count; i++) release(((Slot **)worker->slots.data)[i]);
    worker->active_count = 0;
}

/* Make a list of pointers longer, keeping its content. */
static int lengthen(Buffer *list, int used, int more) {
    Buffer old = *list;
    if ((size_t)(used + more) * sizeof(void *) <= old.bytes) return GF_OK;
    *list = (Buffer){0};
    if (!reserve(list, 2 * sizeof(void *) * (uint64_t)(used + more))) {
        *list = old;
        return GF_NO_MEMORY;
    }
    if (used) memcpy(list->data, old.data, (size_t)used * sizeof(void *));
    free_aligned(old.data);
    return GF_OK;
}

/* Find free slots, or make new ones. */
static int take_slots(gf_worker *worker, int count, Slot **taken) {
    int found = 0;
    for (int i = 0; i < worker->slot_count && found < count; i++) {
        Slot *slot = ((Slot **)worker->slots.data)[i];
        if (slot->state == SLOT_FREE) taken[found++] = slot;
    }
    if (lengthen(&worker->slots, worker->slot_count, count - found) != GF_OK) return GF_NO_MEMORY;
    for (; found < count; found++) {
        Slot *slot = calloc(1, sizeof *slot);
        if (!slot) return GF_NO_MEMORY;
        slot->number = worker->slot_count;
        ((Slot **)worker->slots.data)[worker->slot_count++] = taken[found] = slot;
    }
    return GF_OK;
}

static int all_known(const gf_worker *worker, const int32_t *tokens, int count) {
    for (int i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= worker->model->settings.vocab) return 0;
    return 1;
}

static int check_sentence(const gf_worker *worker, const gf_search *o, const gf_sentence *s) {
    const gf_settings *m = &worker->model->settings;
    const int prompt = s->prompt_length ? s->prompt_length : 1;
    if (o->beam < 1 || o->beam > GF_MAX_BEAM || (s->rolls && o->beam > 1) || o->no_repeat_ngram < 0) return 0;
    if (s->prompt_length < 0 || s->prefix_length < 0 || s->forbidden_count < 0 || s->terms_size < 0 ||
        s->terms_size > GF_MAX_TERM_TOKENS)
        return 0;
    if (s->prompt_length > GF_MAX_TOKENS || s->limit < 1 || s->limit > GF_MAX_TOKENS) return 0;
    if (prompt + s->limit > GF_MAX_TOKENS + 1 || s->prefix_length >= s->limit) return 0;
    if (m->positions == GF_LEARNED && prompt + s->limit - 1 > m->max_positions) return 0;
    if (m->encoder_layers ? s->source_length < 1 : s->source_length != 0) return 0;
    if (s->terms_size && (o->beam == 1 || !check_terms(worker, s->terms, s->terms_size))) return 0;
    return all_known(worker, s->prompt_length ? s->prompt : &o->sos, prompt) &&
           all_known(worker, s->prefix, s->prefix_length) && all_known(worker, s->forbidden, s->forbidden_count);
}

/* Copy the inputs of a sentence into a slot. */
static int fill_slot(const gf_worker *worker, Slot *slot, const gf_search *options, const gf_sentence *s) {
    slot->options = *options, slot->limit = s->limit, slot->capacity = 0;
    slot->prompt = s->prompt_length ? s->prompt_length : 1;
    slot->prefix = s->prefix_length, slot->forbidden = s->forbidden_count;
    slot->length = slot->positions = slot->finished = slot->source_length = 0;
    slot->live = 1, slot->totals[0] = 0, slot->sampled = s->rolls != NULL;
    const size_t all = (size_t)slot->prompt + (size_t)slot->prefix + (size_t)slot->forbidden;
    int32_t *given = reserve(&slot->given, sizeof *given * all);
    if (!given) return GF_NO_MEMORY;
    memcpy(given, s->prompt_length ? s->prompt : &options->sos, sizeof *given * (size_t)slot->prompt);
    if (slot->prefix) memcpy(given + slot->prompt, s->prefix, sizeof *given * (size_t)slot->prefix);
    if (slot->forbidden)
        memcpy(given + slot->prompt + slot->prefix, s->forbidden, sizeof *given * (size_t)slot->forbidden);
    if (s->rolls) {
        if (!reserve(&slot->rolls, sizeof(double) * (size_t)s->limit)) return GF_NO_MEMORY;
        memcpy(slot->rolls.data, s->rolls, sizeof(double) * (size_t)s->limit);
    }
    slot->terms_size = s->terms_size;
    if (s->terms_size) {
        if (!reserve(&slot->terms, sizeof *given * (size_t)s->terms_size)) return GF_NO_MEMORY;
        memcpy(slot->terms.data, s->terms, sizeof *given * (size_t)s->terms_size);
    }
    const int code = make_room(worker, slot, slot->prompt + slot->prefix);
    if (code == GF_OK)
        memset(list_of(slot, ANCESTORS, 0), 0, sizeof *given * ((size_t)slot->prompt + (size_t)slot->prefix));
    return code;
}

/* Encode the sources of new sentences in one batch. */
static int encode_sources(gf_worker *worker, Slot *const *slots, int count, const gf_sentence *sentences) {
    uint64_t total = 0;
    for (int i = 0; i < count; i++) total += (uint64_t)sentences[i].source_length;
    if (total > GF_MAX_BATCH_TOKENS + (uint64_t)GF_MAX_TOKENS) return GF_BAD_ARGUMENT;
    int32_t *tokens = reserve(&worker->sources, sizeof *tokens * total);
    int32_t *lengths = reserve(&worker->source_sizes, sizeof *lengths * (uint64_t)count);
    if (!tokens || !lengths) return GF_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        lengths[i] = sentences[i].source_length;
        memcpy(tokens, sentences[i].source, sizeof *tokens * (size_t)lengths[i]);
        tokens += lengths[i];
    }
    return read_sources(worker, slots, count, worker->sources.data, lengths);
}

int gf_add(gf_worker *worker, int count, const gf_search *options, const gf_sentence *sentences, int32_t *numbers) {
    const gf_settings *model = &worker->model->settings;
    if (!model->decoder_layers || count < 1 || count > GF_MAX_SENTENCES) return GF_BAD_ARGUMENT;
    for (int i = 0; i < count; i++)
        if (!check_sentence(worker, &options[i], &sentences[i])) return GF_BAD_ARGUMENT;
    Slot **taken = reserve(&worker->taken, sizeof *taken * (uint64_t)count);
    if (!taken || lengthen(&worker->active, worker->active_count, count) != GF_OK) return GF_NO_MEMORY;
    int code = take_slots(worker, count, taken);
    for (int i = 0; i < count && code == GF_OK; i++) code = fill_slot(worker, taken[i], &options[i], &sentences[i]);
    if (code == GF_OK && model->encoder_layers) code = encode_sources(worker, taken, count, sentences);
    if (code != GF_OK) return code; /* the slots are still free */
    for (int i = 0; i < count; i++) {
        taken[i]->state = SLOT_ACTIVE;
        numbers[i] = taken[i]->number;
        ((Slot **)worker->active.data)[worker->active_count++] = taken[i];
    }
    return GF_OK;
}

/* The rows that a slot reads in this step: all given tokens first, then the last token of each hypothesis. */
static int add_rows(Slot *slot, Row *rows) {
    int used = 0;
    if (slot->positions == 0)
        for (; used < slot->prompt + slot->prefix; used++)
            rows[used] = (Row){slot, 0, used, ((int32_t *)slot->given.data)[used]};
    else
        for (; used < slot->live; used++)
            rows[used] = (Row){slot, used, slot->positions, list_of(slot, OUTPUT, used)[slot->length - 1]};
    return used;
}

/* Move the hidden states whose logits are needed to the front; return how many they are. The tokens of a prompt but the
 * last predict nothing. */
static int gather_scored(gf_worker *worker, const Row *rows, int count) {
    const size_t width = (size_t)worker->model->settings.d_model;
    float *x = worker->x.data;
    int scored = 0;
    for (int r = 0; r < count; r++) {
        if (rows[r].position < rows[r].slot->prompt - 1) continue;
        if (scored < r) memcpy(x + (size_t)scored * width, x + (size_t)r * width, sizeof *x * width);
        scored++;
    }
    return scored;
}

/* Choose the next tokens of a slot by its logits; return the number of its rows of logits. */
static int use_logits(gf_worker *worker, Slot *slot, float *logits) {
    const int live = slot->live, forced = slot->positions == 0 ? slot->prefix : 0;
    const int32_t *prefix = (int32_t *)slot->given.data + slot->prompt;
    for (int i = 0; i < forced; i++, logits += worker->output.outputs) {
        force_token(worker, slot, logits, prefix[i]);
        list_of(slot, OUTPUT, 0)[i] = prefix[i];
    }
    slot->length += forced;
    slot->positions = slot->positions ? slot->positions + 1 : slot->prompt + slot->prefix;
    choose_tokens(worker, slot, logits);
    return forced + live;
}

/* Every active sentence reads its last tokens and writes its next one. Finished ones leave the active sentences and
 * are listed in `ended`, unless it is NULL. */
static int step(gf_worker *worker, int32_t *ended, int32_t *ended_count) {
    Slot **active = worker->active.data;
    uint64_t total = 0;
    for (int i = 0; i < worker->active_count; i++)
        total += (uint64_t)(active[i]->positions ? active[i]->live : active[i]->prompt + active[i]->prefix);
    if (total > GF_MAX_BATCH_TOKENS) return GF_BAD_ARGUMENT;
    Row *rows = reserve(&worker->step_rows, sizeof *rows * total);
    if (!rows) return GF_NO_MEMORY;
    int used = 0;
    for (int i = 0; i < worker->active_count; i++) {
        Slot *slot = active[i];
        const int code = make_room(worker, slot, slot->positions + 1);
        if (code == GF_OK)
            used += add_rows(slot, rows + used);
        else
            slot->state = code;
    }
    int code = used ? run_decoder(worker, rows, used, 0, NULL) : GF_OK;
    if (code == GF_OK && used) code = run_output(worker, 0, gather_scored(worker, rows, used));
    if (code != GF_OK) return code;
    float *logits = worker->logits.data;
    int alive = 0;
    for (int i = 0; i < worker->active_count; i++) {
        Slot *slot = active[i];
        if (slot->state == SLOT_ACTIVE)
            logits += (size_t)use_logits(worker, slot, logits) * (size_t)worker->output.outputs;
        if (slot->state == SLOT_ACTIVE)
            active[alive++] = slot;
        else if (ended)
            ended[(*ended_count)++] = slot->number;
    }
    worker->active_count = alive;
    return GF_OK;
}

int gf_step(gf_worker *worker, int room, int32_t *ended, int32_t *count) {
    *count = 0;
    if (room < worker->active_count) return GF_BAD_ARGUMENT;
    worker->cancelled = 0;
    worker->output = worker->model->output, worker->allowed = NULL;
    return worker->active_count ? step(worker, ended, count) : GF_OK;
}

int gf_remove(gf_worker *worker, int number) {
    Slot *slot = slot_of(worker, number), **active = worker->active.data;
    if (!slot) return GF_BAD_ARGUMENT;
    int kept = 0;
    for (int i = 0; i < worker->active_count; i++)
        if (active[i] != slot) active[kept++] = active[i];
    worker->active_count = kept;
    release(slot);
    return GF_OK;
}

int gf_progress(const gf_worker *worker, int number, int first, int room, int32_t *tokens) {
    const Slot *slot = slot_of(worker, number);
    if (!slot || first < 0 || room < 0) return GF_BAD_ARGUMENT;
    const int count = slot->length - first < room ? slot->length - first : room;
    if (slot->state != SLOT_ACTIVE || count <= 0) return 0;
    memcpy(tokens, list_of(slot, OUTPUT, 0) + first, sizeof *tokens * (size_t)count);
    return count;
}

int gf_collect(const gf_worker *worker, int number, int capacity, int32_t *tokens, int32_t *lengths,
               double *log_probabilities, double *scores, int32_t *finished) {
    const Slot *slot = slot_of(worker, number);
    if (!slot || slot->state == SLOT_ACTIVE || slot->limit > capacity) return GF_BAD_ARGUMENT;
    if (slot->state < 0) return slot->state;
    for (int h = 0; h < slot->options.beam; h++) {
        const Finished *result = &slot->results[h];
        lengths[h] = -1, finished[h] = 0;
        if (h >= slot->finished) continue;
        lengths[h] = result->length, finished[h] = result->ended;
        log_probabilities[h] = result->total, scores[h] = result->score;
        memcpy(tokens + (size_t)h * (size_t)capacity, list_of(slot, FINISHED, h),
               sizeof *tokens * (size_t)result->length);
    }
    return GF_OK;
}

/* Restrict the output layer to a shortlist. */
static int use_shortlist(gf_worker *worker, const int32_t *shortlist, int size) {
    worker->output = worker->model->output, worker->allowed = NULL;
    if (size < 0) return GF_BAD_ARGUMENT;
    for (int i = 0; i < size; i++)
        if (shortlist[i] < 0 || shortlist[i] >= worker->output.outputs || (i > 0 && shortlist[i] <= shortlist[i - 1]))
            return GF_BAD_ARGUMENT;
    if (size == 0) return GF_OK;
    void *memory = reserve(&worker->shortlist, shortlist_bytes(&worker->output, size));
    if (!memory) return GF_NO_MEMORY;
    worker->output = shortlist_matrix(&worker->output, shortlist, size, memory), worker->allowed = shortlist;
    return GF_OK;
}

/* Add the sentences of a batch; `numbers` are 0 … count − 1 afterwards, as all slots were free. */
static int add_batch(gf_worker *worker, const gf_search *options, int count, const int32_t *source,
                     const int32_t *lengths, const int32_t *limits, const double *rolls, int capacity) {
    gf_sentence *sentences = reserve(&worker->sentences, (sizeof *sentences + sizeof *options) * (uint64_t)count);
    int32_t *numbers = reserve(&worker->scratch, sizeof *numbers * (uint64_t)count);
    if (!sentences || !numbers) return GF_NO_MEMORY;
    gf_search *how = (gf_search *)(sentences + count);
    for (int i = 0; i < count; i++) {
        if (lengths[i] < 1 || lengths[i] > GF_MAX_TOKENS || limits[i] > capacity) return GF_BAD_ARGUMENT;
        how[i] = *options;
        sentences[i] = (gf_sentence){.source = source, .source_length = lengths[i], .limit = limits[i]};
        sentences[i].rolls = rolls ? rolls + (size_t)i * (size_t)capacity : NULL;
        source += lengths[i];
    }
    return gf_add(worker, count, how, sentences, numbers);
}

int gf_translate(gf_worker *worker, const gf_search *options, int count, const int32_t *source, const int32_t *lengths,
                 const int32_t *limits, const double *rolls, const int32_t *shortlist, int shortlist_size, int capacity,
                 int32_t *tokens, int32_t *output_lengths, double *log_probabilities, double *scores,
                 int32_t *finished) {
    if (!worker->model->settings.encoder_layers || count < 1 || count > GF_MAX_SENTENCES) return GF_BAD_ARGUMENT;
    worker->cancelled = 0;
    release_all(worker);
    int code = use_shortlist(worker, shortlist, shortlist_size);
    if (code == GF_OK) code = add_batch(worker, options, count, source, lengths, limits, rolls, capacity);
    while (code == GF_OK && worker->active_count) code = step(worker, NULL, NULL);
    for (int i = 0; i < count && code == GF_OK; i++) {
        const size_t first = (size_t)i * (size_t)options->beam;
        code = gf_collect(worker, i, capacity, tokens + first * (size_t)capacity, output_lengths + first,
                          log_probabilities + first, scores + first, finished + first);
    }
    release_all(worker);
    return code;
}

int gf_start(gf_worker *worker, int max_tokens) {
    const gf_settings *model = &worker->model->settings;
    if (model->encoder_layers || max_tokens < 1 || max_tokens > GF_MAX_TOKENS) return GF_BAD_ARGUMENT;
    release(&worker->reader);
    worker->reader.options.beam = 1, worker->reader.positions = 0, worker->reader.limit = max_tokens;
    return GF_OK;
}

/* Read tokens with the slot of gf_read, gf_cross_attention and gf_attention. */
static int read_tokens(gf_worker *worker, const int32_t *tokens, int count, int recorded, float *mean) {
    Slot *reader = &worker->reader;
    Row *rows = reserve(&worker->step_rows, sizeof *rows * (size_t)count);
    if (!rows) return GF_NO_MEMORY;
    for (int i = 0; i < count; i++) rows[i] = (Row){reader, 0, reader->positions + i, tokens[i]};
    const int code = make_room(worker, reader, reader->positions + count);
    return code == GF_OK ? run_decoder(worker, rows, count, recorded, mean) : code;
}

int gf_read(gf_worker *worker, int count, const int32_t *tokens, float *logits) {
    worker->cancelled = 0;
    worker->output = worker->model->output;
    if (count < 1 || worker->model->settings.encoder_layers || count > worker->reader.limit - worker->reader.positions)
        return GF_BAD_ARGUMENT;
    int code = read_tokens(worker, tokens, count, 0, NULL);
    if (code == GF_OK) code = run_output(worker, count - 1, 1);
    if (code != GF_OK) return code;
    worker->reader.positions += count;
    memcpy(logits, worker->logits.data, sizeof(float) * (size_t)worker->model->settings.vocab);
    return GF_OK;
}

/* Start a text of up to `limit` tokens; the encoder, if there is one, reads the source. */
static int read_source(gf_worker *worker, int32_t length, const int32_t *source, int limit) {
    Slot *reader = &worker->reader;
    worker->cancelled = 0;
    release(reader);
    reader->options.beam = 1, reader->positions = 0, reader->limit = limit, reader->source_length = 0;
    return length ? read_sources(worker, &reader, 1, source, &length) : GF_OK;
}

int gf_cross_attention(gf_worker *worker, int source_length, const int32_t *source, int count, const int32_t *tokens,
                       int layer, float *weights) {
    const gf_settings *model = &worker->model->settings;
    if (!model->encoder_layers || layer < 0 || layer >= model->decoder_layers || count < 1 || count > GF_MAX_TOKENS ||
        source_length < 1 || source_length > GF_MAX_TOKENS)
        return GF_BAD_ARGUMENT;
    const int code = read_source(worker, source_length, source, count);
    if (code != GF_OK) return code;
    memset(weights, 0, sizeof *weights * (size_t)count * (size_t)source_length);
    return read_tokens(worker, tokens, count, layer, weights);
}

int gf_attention(gf_worker *worker, int source_length, const int32_t *source, int count, const int32_t *tokens,
                 float *weights, float *logits) {
    const gf_settings *model = &worker->model->settings;
    if (source_length < 0 || source_length > GF_MAX_TOKENS || count < 0 || count > GF_MAX_TOKENS ||
        !source_length != !model->encoder_layers || !count != !model->decoder_layers)
        return GF_BAD_ARGUMENT;
    worker->output = worker->model->output;
    worker->record = weights;
    int code = read_source(worker, source_length, source, count);
    if (code == GF_OK && count) code = read_tokens(worker, tokens, count, 0, NULL);
    worker->record = NULL;
    if (code == GF_OK && count) code = run_output(worker, 0, count);
    if (code == GF_OK && count)
        memcpy(logits, worker->logits.data, sizeof(float) * (size_t)count * (size_t)model->vocab);
    return code;
}

int gf_worker_new(const gf_model *model, gf_worker **worker) {
    *worker = calloc(1, sizeof **worker);
    if (!*worker) return GF_NO_MEMORY;
    (*worker)->model = model;
    return GF_OK;
}

void gf_worker_cancel(gf_worker *worker) { worker->cancelled = 1; }

void gf_worker_free(gf_worker *w) {
    if (!w) return;
    for (int i = 0; i < w->slot_count; i++) {
        clear_slot(((Slot **)w->slots.data)[i]);
        free(((Slot **)w->slots.data)[i]);
    }
    clear_slot(&w->reader);
    Buffer *all[] = {&w->x,         &w->normed,    &w->projected, &w->heads,  &w->inner,        &w->scores,
                     &w->rows,      &w->split,     &w->quantized, &w->scales, &w->logits,       &w->sinusoids,
                     &w->slots,     &w->active,    &w->sources,   &w->taken,  &w->source_sizes, &w->sentences,
                     &w->shortlist, &w->step_rows, &w->scratch,   &w->pool};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free_aligned(all[i]->data);
    free(w);
}
