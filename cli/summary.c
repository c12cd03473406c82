/* summary.c - what an answer cost: tokens, time, memory. */
#include <string.h>

#include "cli/cli.h"

/* The first answer token comes with the prompt's logits; the others each cost one step. */
static double rate(uint64_t tokens, double seconds) { return seconds > 0 ? (double)tokens / seconds : 0; }

void cli_summary_print(const struct cli_generation *generation, const char *spec) {
    struct kvc_session_stats stats;
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
    if (stats.saturated)
        fprintf(stderr, "note    %llu values were clipped to the range of f16; --kv-type f32 keeps them\n",
                (unsigned long long)stats.saturated);
}

json_t *cli_summary_json(const struct cli_generation *generation) {
    struct kvc_session_stats stats;
    json_t *object = json_object();

    kvc_session_stats(generation->session, &stats);
    cli_json_set(object, "prompt_tokens", json_integer((json_int_t)generation->seen_prompt));
    cli_json_set(object, "answer_tokens", json_integer((json_int_t)generation->seen_answer));
    cli_json_set(object, "first_token_seconds", json_real(generation->first_seconds));
    cli_json_set(object, "prompt_seconds", json_real(generation->prompt_seconds));
    cli_json_set(object, "answer_seconds", json_real(generation->answer_seconds));
    cli_json_set(object, "prompt_tokens_per_second",
                 json_real(rate(generation->seen_prompt, generation->prompt_seconds)));
    cli_json_set(object, "answer_tokens_per_second", json_real(rate(stats.decode_steps, generation->answer_seconds)));
    cli_json_set(object, "memory", cli_stats_json(&stats));
    return object;
}
