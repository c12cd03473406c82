/* summary.c - prints messages about an answer: the prompt as the model receives it, the reason why the answer ended,
 * and its cost. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kvcull/grammar.h"
#include "kvcull/ranks.h"

/* Returns tokens per second. */
static double rate(uint64_t tokens, double seconds) { return seconds > 0 ? (double)tokens / seconds : 0; }

int cli_show_prompt(const struct cli_generation *generation, const int32_t *tokens, size_t count) {
    struct kvc_error error;
    char *text;
    size_t bytes;

    if (kvc_detokenize(generation->model, tokens, count, true, &text, &bytes, &error) != KVC_OK)
        return cli_report(generation->command, &error);
    fprintf(stderr, "prompt of %zu tokens:\n", count);
    cli_write_text(stderr, text, bytes);
    free(text);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s%d", i ? "," : "\n", tokens[i]);
    fputc('\n', stderr);
    return KVC_OK;
}

void cli_say_ending(const struct cli_generation *generation, const struct cli_answer *answer) {
    const struct cli_command *command = generation->command;

    /* These warnings appear even with -q, because an empty answer would look like a failure. */
    if (answer->stop == CLI_STOP_END && answer->count == 0 && generation->grammar)
        cli_warn(command, "the answer is empty, as the grammar allows");
    else if (answer->stop == CLI_STOP_END && answer->count == 0)
        cli_warn(command, "the answer is empty: the model ended it with its first token; %s %s",
                 generation->unused ? generation->unused : "--ignore-eos",
                 generation->unused ? "applies its chat template" : "continues");
    else if (answer->stop == CLI_STOP_TEXT && answer->bytes == 0)
        cli_warn(command, "the answer is empty: it began with a --stop text");
    else if (answer->stop == CLI_STOP_STUCK)
        cli_warn(command, "the answer does not match the grammar: after %zu tokens, no token of the model continues it",
                 answer->count);
    else if (answer->stop == CLI_STOP_CONTEXT)
        cli_warn(command,
                 "--ctx %llu: the context is full, so the answer was cut after %zu tokens; give a larger --ctx",
                 (unsigned long long)generation->context, answer->count);
    else if (answer->stop == CLI_STOP_LENGTH && answer->count > 0 && !generation->quiet)
        fprintf(stderr, "(cut after %zu tokens%s; -n sets the maximum)\n", answer->count,
                kvc_sampler_whole(generation->sampler) ? "" : ", before it matched the grammar");
}

/* Returns true if messages on standard error are coloured: it is a terminal, and the user has not turned colours off
 * (no-color.org). */
static bool shows_colours(void) {
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");

    return isatty(2) == 1 && !(none && *none) && kind && strcmp(kind, "dumb") != 0;
}

void cli_say_cost(const struct cli_generation *generation, size_t tokens, double seconds) {
    const bool dim = shows_colours();
    struct kvc_session_stats stats;
    char text[2][32];

    if (generation->quiet || isatty(2) != 1)
        return;
    kvc_session_stats(generation->session, &stats);
    fprintf(stderr, "%s%.1f tokens/s; the cache holds %s, full would hold %s%s\n", dim ? "\x1b[2m" : "",
            rate(tokens, seconds), cli_bytes(stats.cache_bytes + stats.state_bytes, text[0]),
            cli_bytes(stats.full_bytes, text[1]), dim ? "\x1b[0m" : "");
}

void cli_summary_print(const struct cli_generation *generation, const char *spec) {
    struct kvc_session_stats stats;
    struct kvc_ranks_traffic sent;
    const double tokens = (double)(generation->seen_prompt + generation->seen_answer);
    char text[6][32];

    if (generation->quiet)
        return;
    kvc_session_stats(generation->session, &stats);
    fprintf(stderr, "prompt  %llu tokens in %s (%.1f tokens/s), first token after %s\n",
            (unsigned long long)generation->seen_prompt, cli_time(generation->prompt_seconds, text[0]),
            rate(generation->seen_prompt, generation->prompt_seconds), cli_time(generation->first_seconds, text[1]));
    fprintf(stderr, "answer  %llu tokens in %s (%.1f tokens/s)\n", (unsigned long long)generation->seen_answer,
            cli_time(generation->answer_seconds, text[0]), rate(stats.decode_steps, generation->answer_seconds));
    fprintf(stderr, "cache   %s now, %s at peak (%s); full would hold %s\n",
            cli_bytes(stats.cache_bytes + stats.state_bytes, text[0]), cli_bytes(stats.peak_bytes, text[1]),
            spec ? spec : "full", cli_bytes(stats.full_bytes, text[2]));
    if (cli_math_note(kvc_model_info(generation->model)->math))
        fprintf(stderr, "math    %s\n", cli_math_note(kvc_model_info(generation->model)->math));
    if (cli_traffic(&sent) && tokens > 0)
        fprintf(stderr, "ranks   %u sent %s in %s messages: %s and %.1f messages a token\n",
                kvc_ranks_count(cli_ranks()), cli_bytes(sent.bytes, text[0]), cli_number(sent.messages, text[1]),
                cli_bytes((uint64_t)((double)sent.bytes / tokens), text[2]), (double)sent.messages / tokens);
    if (stats.saturated)
        fprintf(stderr, "note    %llu values were clipped to the range of f16; --kv-type f32 keeps them\n",
                (unsigned long long)stats.saturated);
}

json_t *cli_summary_json(const struct cli_generation *generation) {
    struct kvc_session_stats stats;
    struct kvc_ranks_traffic sent;
    json_t *object = json_object();

    kvc_session_stats(generation->session, &stats);
    cli_json_set(object, "math", json_string(cli_math_name(kvc_model_info(generation->model)->math)));
    cli_json_set(object, "seed", json_integer((json_int_t)generation->options.seed));
    cli_json_set(object, "prompt_tokens", json_integer((json_int_t)generation->seen_prompt));
    cli_json_set(object, "answer_tokens", json_integer((json_int_t)generation->seen_answer));
    cli_json_set(object, "first_token_seconds", json_real(generation->first_seconds));
    cli_json_set(object, "prompt_seconds", json_real(generation->prompt_seconds));
    cli_json_set(object, "answer_seconds", json_real(generation->answer_seconds));
    cli_json_set(object, "prompt_tokens_per_second",
                 json_real(rate(generation->seen_prompt, generation->prompt_seconds)));
    cli_json_set(object, "answer_tokens_per_second", json_real(rate(stats.decode_steps, generation->answer_seconds)));
    cli_json_set(object, "memory", cli_stats_json(&stats));
    if (cli_traffic(&sent)) {
        cli_json_set(object, "ranks", json_integer(kvc_ranks_count(cli_ranks())));
        cli_json_set(object, "sent_bytes", json_integer((json_int_t)sent.bytes));
        cli_json_set(object, "sent_messages", json_integer((json_int_t)sent.messages));
    }
    return object;
}
