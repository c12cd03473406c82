/* generate.c - one turn: the prompt, then token after token until the answer ends. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/base/assert.h"
#include "kvcull/grammar.h"

const char *cli_stop_name(enum cli_stop stop) {
    static const char *const names[] = {"length", "end of turn", "stop text", "context", "interrupted", "grammar"};

    return names[stop];
}

void cli_answer_free(struct cli_answer *answer) {
    free(answer->text);
    free(answer->tokens);
    *answer = (struct cli_answer){0};
}

void cli_sampling_defaults(struct cli_sampling *sampling) {
    struct kvc_sampler_options options;

    kvc_sampler_defaults(&options);
    *sampling = (struct cli_sampling){.temperature = (double)options.temperature,
                                      .top_p = (double)options.top_p,
                                      .min_p = (double)options.min_p,
                                      .repeat_penalty = (double)options.repeat_penalty,
                                      .top_k = options.top_k,
                                      .repeat_last = options.repeat_last,
                                      .seed = (int64_t)options.seed,
                                      .limit = 256};
}

/* Returns a new seed each time, within the range of --seed. */
static uint64_t drawn_seed(void) {
    struct timespec now = {0};
    uint64_t seed = 0;

    if (getentropy(&seed, sizeof seed) != 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ((uint64_t)getpid() << 40);
        seed = cli_random(&seed);
    }
    return seed >> 11; /* below 2^53 */
}

int cli_generation_open(const struct cli_command *command, const struct cli_common *common,
                        const struct cli_sampling *sampling, struct kvc_model *model, const char *spec,
                        struct cli_generation *generation) {
    const struct kvc_model_info *info = kvc_model_info(model);
    const uint64_t seed = sampling->seed < 0 ? drawn_seed() : (uint64_t)sampling->seed;
    struct kvc_sampler_options sampler;
    struct kvc_error error;

    *generation = (struct cli_generation){.command = command,
                                          .model = model,
                                          .stops = &sampling->stops,
                                          .grammar = sampling->opened,
                                          .limit = sampling->limit < 0 ? UINT64_MAX : (uint64_t)sampling->limit,
                                          .context = (uint64_t)common->context,
                                          .ignore_end = sampling->ignore_end && !sampling->opened,
                                          .quiet = common->quiet,
                                          .frequency_penalty = (float)sampling->frequency_penalty,
                                          .presence_penalty = (float)sampling->presence_penalty,
                                          .pending = -1};
    kvc_sampler_defaults(&sampler);
    sampler.temperature = (float)sampling->temperature;
    sampler.top_k = (int32_t)sampling->top_k;
    sampler.top_p = (float)sampling->top_p;
    sampler.min_p = (float)sampling->min_p;
    sampler.repeat_penalty = (float)sampling->repeat_penalty;
    sampler.repeat_last = (uint32_t)sampling->repeat_last;
    sampler.seed = seed;
    cli_session_options(common, spec, &generation->options);
    generation->options.seed = seed;
    generation->options.expected = sampling->limit < 0 ? 0 : (uint64_t)sampling->limit;
    if (sampling->seed < 0 && !common->quiet)
        fprintf(stderr, "(drew --seed %llu)\n", (unsigned long long)seed);
    generation->logits = malloc((size_t)info->vocab * sizeof(float));
    if (!generation->logits)
        return cli_no_memory(command);
    generation->sampling = sampler;
    if (kvc_sampler_open(&sampler, info->vocab, &generation->sampler, &error) != KVC_OK ||
        kvc_session_open(model, &generation->options, &generation->session, &error) != KVC_OK) {
        cli_generation_close(generation);
        return cli_report(command, &error);
    }
    return KVC_OK;
}

int cli_generation_anew(struct cli_generation *generation, const char *spec) {
    struct kvc_session_options options = generation->options;
    char *policy = strdup(spec);
    struct kvc_session *session;
    struct kvc_error error;

    if (!policy)
        return cli_no_memory(generation->command);
    options.policy = policy;
    options.context = generation->context;
    if (kvc_session_open(generation->model, &options, &session, &error) != KVC_OK) {
        free(policy);
        return cli_report(generation->command, &error);
    }
    kvc_session_close(generation->session);
    free(generation->policy);
    free(generation->history);
    generation->session = session;
    generation->options = options;
    generation->policy = policy;
    generation->history = NULL;
    generation->given = 0;
    generation->pending = -1;
    generation->outgrown = generation->ended = generation->goes_on = false;
    generation->seen_prompt = generation->seen_answer = 0;
    generation->first_seconds = generation->prompt_seconds = generation->answer_seconds = 0;
    (void)cli_longrope_first(generation); /* if this fails, the short factors stay in use */
    return KVC_OK;
}

int cli_generation_forget(struct cli_generation *generation) {
    struct kvc_sampler *sampler;
    struct kvc_error error;

    if (kvc_sampler_open(&generation->sampling, kvc_model_info(generation->model)->vocab, &sampler, &error) != KVC_OK)
        return cli_report(generation->command, &error);
    kvc_sampler_close(generation->sampler);
    generation->sampler = sampler;
    return KVC_OK;
}

void cli_generation_close(struct cli_generation *generation) {
    kvc_session_close(generation->session);
    kvc_sampler_close(generation->sampler);
    free(generation->logits);
    free(generation->history);
    free(generation->policy);
    generation->policy = NULL;
    generation->history = NULL;
    generation->session = NULL;
    generation->sampler = NULL;
    generation->logits = NULL;
}

/* ---- the answer's text ---------------------------------------------------------------------------------------------
 */

static bool generate_grow(struct cli_answer *answer, size_t *capacity, size_t more) {
    size_t wanted = answer->bytes + more + 1;
    char *text;

    if (wanted <= *capacity)
        return true;
    wanted = cli_max(wanted, 2 * *capacity);
    text = realloc(answer->text, wanted);
    if (!text)
        return false;
    answer->text = text;
    *capacity = wanted;
    return true;
}

/* Returns the number of bytes at the end of the answer that may be the beginning of a stop text or of a character.
 * These bytes are not written yet. */
static size_t waiting(const struct cli_answer *answer, const struct cli_texts *stops) {
    size_t most = 0;

    for (size_t i = 0; i < stops->count; i++) {
        size_t length = strlen(stops->items[i].text);

        for (size_t n = length ? length - 1 : 0; n > most; n--)
            if (n <= answer->bytes && memcmp(answer->text + answer->bytes - n, stops->items[i].text, n) == 0) {
                most = n;
                break;
            }
    }
    KVC_ASSERT(most <= answer->bytes);
    return most + cli_begun(answer->text, answer->bytes - most);
}

/* Returns the offset of the first stop text at or after `from`, or SIZE_MAX if there is none. */
static size_t find_stop(const struct cli_answer *answer, const struct cli_texts *stops, size_t from) {
    size_t first = SIZE_MAX;
    KVC_ASSERT(from <= answer->bytes);

    for (size_t i = 0; i < stops->count; i++) {
        size_t length = strlen(stops->items[i].text);
        const char *place;

        if (length == 0 || answer->bytes - from < length)
            continue;
        place = memmem(answer->text + from, answer->bytes - from, stops->items[i].text, length);
        if (place && (size_t)(place - answer->text) < first)
            first = (size_t)(place - answer->text);
    }
    return first;
}

struct writer {
    struct cli_generation *generation;
    struct cli_answer *answer;
    size_t capacity, shown; /* capacity: bytes allocated for the text; shown: bytes written */
    size_t token_capacity;
    bool first;
};

static int generate_show(struct writer *writer, size_t until) {
    struct cli_answer *answer = writer->answer;

    if (!writer->generation->echo || until <= writer->shown)
        return KVC_OK;
    KVC_ASSERT(until <= answer->bytes);
    cli_write_text(stdout, answer->text + writer->shown, until - writer->shown);
    writer->shown = until;
    return cli_flush(writer->generation->command);
}

/* Appends a token's bytes. If a stop text is complete, sets *stopped; the answer then ends before the stop text. */
static int add_token(struct writer *writer, int32_t token, bool *stopped) {
    struct cli_answer *answer = writer->answer;
    const struct kvc_model *model = writer->generation->model;
    const struct cli_texts *stops = writer->generation->stops;
    size_t before = answer->bytes, longest = 1, bytes, from, at;
    struct kvc_error error;

    if (kvc_token_bytes(model, token, writer->first, NULL, 0, &bytes, &error) != KVC_OK)
        return cli_report(writer->generation->command, &error);
    if (!generate_grow(answer, &writer->capacity, bytes))
        return cli_no_memory(writer->generation->command);
    if (kvc_token_bytes(model, token, writer->first, answer->text + before, writer->capacity - before, &bytes,
                        &error) != KVC_OK)
        return cli_report(writer->generation->command, &error);
    KVC_ASSERT(before + bytes < writer->capacity);
    answer->bytes += bytes;
    answer->text[answer->bytes] = '\0';
    if (bytes > 0)
        writer->first = false;
    for (size_t i = 0; i < stops->count; i++)
        if (strlen(stops->items[i].text) > longest)
            longest = strlen(stops->items[i].text);
    from = before >= longest ? before - longest + 1 : 0;
    at = find_stop(answer, stops, from);
    *stopped = at != SIZE_MAX;
    if (*stopped) {
        answer->bytes = at;
        answer->text[at] = '\0';
    }
    return generate_show(writer, *stopped ? answer->bytes : answer->bytes - waiting(answer, stops));
}

/* ---- the turn
 * --------------------------------------------------------------------------------------------------------- */

struct reading { /* a prompt that the model is reading */
    const struct cli_generation *generation;
    struct cli_progress progress;
    bool short_part; /* true if most of the conversation has been read before, so that starting again would take longer
                      * than this prompt */
    bool stopped;
};

/* Stops the prompt after Ctrl-C. If `short_part` is true, only a second Ctrl-C stops it. */
static int stops_reading(void *user) {
    struct reading *reading = user;

    if (*reading->generation->interrupted > (reading->short_part ? 1 : 0))
        reading->stopped = true;
    return reading->stopped;
}

/* Reads a prompt, which the user may stop. */
static int read_prompt(struct cli_generation *generation, const int32_t *tokens, size_t count,
                       struct reading *reading) {
    const struct kvc_prompt_options options = {.progress = cli_progress, .user = &reading->progress};
    struct kvc_error error;
    int status = KVC_OK;

    if (generation->interrupted &&
        kvc_engine_on_interrupt(generation->engine, stops_reading, reading, &error) != KVC_OK)
        return cli_report(generation->command, &error);
    cli_progress_start(&reading->progress, "reading the prompt", generation->quiet);
    if (kvc_session_prompt(generation->session, tokens, count, &options, generation->logits, &error) == KVC_OK)
        generation->pending = -1;
    else if (!reading->stopped)
        status = cli_report(generation->command, &error);
    cli_progress_end(&reading->progress);
    if (generation->interrupted && kvc_engine_on_interrupt(generation->engine, NULL, NULL, &error) != KVC_OK)
        status = cli_report(generation->command, &error);
    return status;
}

/* Sets *stopped to true if the user has stopped the prompt. The session must then be opened anew. */
static int generate_prompt(struct cli_generation *generation, const int32_t *tokens, size_t count, uint64_t held,
                           bool *stopped) {
    bool has_pending = generation->pending >= 0;
    int32_t *all = malloc((count + 1) * sizeof *all);
    struct reading reading = {.generation = generation, .short_part = held > count};
    int status = KVC_OK;

    if (!all)
        return cli_no_memory(generation->command);
    all[0] = generation->pending;
    memcpy(all + has_pending, tokens, count * sizeof *all);
    count += has_pending;
    for (size_t i = has_pending; i < count; i++)
        kvc_sampler_accept(generation->sampler, all[i]);
    status = cli_longrope(generation, all, count);
    if (status == KVC_OK)
        status = read_prompt(generation, all, count, &reading);
    *stopped = reading.stopped;
    free(all);
    return status;
}

static int answer_tokens(struct cli_generation *generation, struct writer *writer) {
    struct cli_answer *answer = writer->answer;
    struct kvc_error error;
    struct kvc_session_stats stats;
    uint64_t seen;

    kvc_session_stats(generation->session, &stats);
    seen = stats.tokens;
    for (;;) {
        bool stopped = false;
        int32_t token;
        int status;

        if (answer->count == generation->limit) {
            answer->stop = CLI_STOP_LENGTH;
            return KVC_OK;
        }
        if (generation->interrupted && *generation->interrupted) {
            answer->stop = CLI_STOP_INTERRUPT;
            return KVC_OK;
        }
        if (generation->context && seen >= generation->context) {
            answer->stop = CLI_STOP_CONTEXT;
            return KVC_OK;
        }
        if (generation->pending >= 0) {
            const int again = cli_longrope(generation, &generation->pending, 1);

            if (again != KVC_OK)
                return again;
            if (kvc_decode(&generation->session, &generation->pending, 1, generation->logits, NULL, &error) != KVC_OK)
                return cli_report(generation->command, &error);
            generation->pending = -1;
            seen++;
            cli_warn_context(generation->command, generation->model, seen, &generation->warned);
        }
        token = kvc_sample(generation->sampler, generation->logits);
        if (token < 0 && !kvc_sampler_whole(generation->sampler)) {
            answer->stop = CLI_STOP_STUCK;
            return KVC_OK;
        }
        if (token < 0 || (!generation->ignore_end && kvc_token_ends_turn(generation->model, token))) {
            answer->stop = CLI_STOP_END;
            return KVC_OK;
        }
        generation->pending = token;
        KVC_ASSERT(answer->count < generation->limit && answer->count <= writer->token_capacity);
        if (answer->count == writer->token_capacity) {
            int32_t *more = realloc(answer->tokens, 2 * writer->token_capacity * sizeof *more);

            if (!more)
                return cli_no_memory(generation->command);
            answer->tokens = more;
            writer->token_capacity *= 2;
        }
        answer->tokens[answer->count++] = token;
        status = add_token(writer, token, &stopped);
        if (status != KVC_OK)
            return status;
        if (stopped) {
            answer->stop = CLI_STOP_TEXT;
            return KVC_OK;
        }
    }
}

int cli_generate(struct cli_generation *generation, const int32_t *tokens, size_t count, bool first,
                 struct cli_answer *answer) {
    struct writer writer = {generation, answer, 256, 0, 64, first};
    struct kvc_session_stats stats;
    bool first_turn = generation->seen_prompt == 0;
    double start = cli_seconds(), ready;
    struct kvc_error error;
    uint64_t total;
    int status;

    *answer = (struct cli_answer){.text = malloc(writer.capacity)};
    answer->tokens = malloc(writer.token_capacity * sizeof(int32_t));
    if (!answer->text || !answer->tokens)
        return cli_no_memory(generation->command);
    answer->text[0] = '\0';
    answer->prompt_tokens = count;
    kvc_session_stats(generation->session, &stats);
    total = stats.tokens + count + (generation->pending >= 0);
    if (generation->context && total > generation->context)
        return cli_error(generation->command, KVC_USAGE,
                         "--ctx %llu: the prompt needs %llu tokens; give a larger "
                         "--ctx or a shorter prompt",
                         (unsigned long long)generation->context, (unsigned long long)total);
    cli_warn_context(generation->command, generation->model, total, &generation->warned);
    if (kvc_sampler_penalties(generation->sampler, generation->frequency_penalty, generation->presence_penalty,
                              &error) != KVC_OK ||
        kvc_sampler_grammar(generation->sampler, generation->model, generation->grammar, first, &error) != KVC_OK)
        return cli_report(generation->command, &error);
    status = generation->show_prompt ? cli_show_prompt(generation, tokens, count) : KVC_OK;
    if (status == KVC_OK && count > 0) /* if the prompt has no tokens, the turn continues an answer */
        status = generate_prompt(generation, tokens, count, stats.tokens, &answer->unread);
    if (status != KVC_OK)
        return status;
    if (answer->unread) {
        answer->stop = CLI_STOP_INTERRUPT;
        return KVC_OK;
    }
    ready = cli_seconds();
    generation->seen_prompt += count;
    generation->prompt_seconds += ready - start;
    if (first_turn)
        generation->first_seconds = ready - start;
    status = answer_tokens(generation, &writer);
    generation->ended = status == KVC_OK && answer->stop == CLI_STOP_END;
    if (status == KVC_OK)
        status = generate_show(&writer, answer->bytes);
    generation->seen_answer += answer->count;
    generation->answer_seconds += cli_seconds() - ready;
    return status;
}
