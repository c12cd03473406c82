/* saved.c - saves and loads sessions of `run` and `chat`. In addition to the session, the file contains a note in JSON:
 * the last token of the answer, which the session has not processed yet, and the messages of a chat. If a longrope
 * model may have to compute all tokens again, the file contains these tokens, too. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kvcull/saved.h"

/* ---- writing ---- */

int cli_generation_save(struct cli_generation *generation, const char *path, const struct cli_chat *chat) {
    const struct cli_command *command = generation->command;
    const bool drawn = generation->pending >= 0 || generation->ended;
    struct kvc_saved saved = {.tokens = generation->history,
                              .token_count = generation->history ? generation->given : 0,
                              .logits = drawn ? NULL : generation->logits,
                              .logit_count = drawn ? 0 : kvc_model_info(generation->model)->vocab,
                              .sampler = generation->sampler};
    struct kvc_error error;
    json_t *note = json_object();
    int status = KVC_OK;

    cli_json_set(note, "pending", json_integer(generation->pending));
    cli_json_set(note, "given", json_integer((json_int_t)generation->given));
    cli_json_set(note, "outgrown", json_boolean(generation->outgrown));
    cli_json_set(note, "ended", json_boolean(generation->ended));
    if (chat)
        cli_json_set(note, "messages", cli_chat_messages(chat));
    saved.note = note ? json_dumps(note, JSON_COMPACT) : NULL;
    if (!saved.note || cli_json_lost())
        status = cli_no_memory(command);
    else
        saved.note_bytes = strlen(saved.note);
    if (status == KVC_OK && kvc_session_save(generation->session, path, &saved, &error) != KVC_OK)
        status = cli_report(command, &error);
    cli_json_free(saved.note);
    json_decref(note);
    return status;
}

/* ---- reading ---- */

/* Returns true if `given` is the session's number of tokens. If the policy is `full`, the file must also contain these
 * tokens, so that they can be computed again. */
static bool has_history(const struct kvc_session *session, const struct kvc_saved *saved, size_t given) {
    struct kvc_session_stats stats;

    kvc_session_stats(session, &stats);
    return stats.tokens == given && (saved->token_count == given || strcmp(kvc_session_policy(session), "full") != 0);
}

/* Reads members of the generation from the note. Returns false if another program wrote the note. */
static bool read_note(struct cli_generation *generation, const struct kvc_session *session, const json_t *note,
                      const struct kvc_saved *saved) {
    const json_t *pending = json_object_get(note, "pending"), *given = json_object_get(note, "given");
    const json_t *outgrown = json_object_get(note, "outgrown"), *ended = json_object_get(note, "ended");
    const json_int_t vocab = (json_int_t)kvc_model_info(generation->model)->vocab;

    if (!json_is_integer(pending) || !json_is_integer(given) || !json_is_boolean(outgrown) || !json_is_boolean(ended) ||
        json_integer_value(pending) < -1 || json_integer_value(pending) >= vocab || json_integer_value(given) < 0)
        return false;
    generation->pending = (int32_t)json_integer_value(pending);
    generation->given = (size_t)json_integer_value(given);
    generation->outgrown = json_is_true(outgrown) || !has_history(session, saved, generation->given);
    generation->ended = json_is_true(ended);
    return true;
}

/* Replaces the generation's session and members by those that were loaded. */
static int saved_take(struct cli_generation *generation, struct kvc_session *session, struct kvc_saved *saved) {
    kvc_session_close(generation->session);
    generation->session = session;
    free(generation->policy);
    generation->policy = strdup(kvc_session_policy(session));
    if (!generation->policy)
        return cli_no_memory(generation->command);
    generation->options.policy = generation->policy;
    generation->options.cache_type = kvc_session_cache_type(session);
    if (!generation->outgrown) /* the session began with the short factors, whatever value --ctx has now */
        generation->options.context = 0;
    if (saved->logits)
        memcpy(generation->logits, saved->logits, saved->logit_count * sizeof *saved->logits);
    generation->goes_on = generation->pending >= 0 || saved->logits;
    free(generation->history);
    generation->history = saved->tokens;
    saved->tokens = NULL;
    return KVC_OK;
}

int cli_generation_load(struct cli_generation *generation, const char *path, bool kv, bool type, json_t **messages) {
    const struct cli_command *command = generation->command;
    struct kvc_session_options options = generation->options;
    struct kvc_saved saved = {.sampler = generation->sampler};
    struct kvc_session *session;
    struct kvc_error error;
    json_error_t at;
    int status = KVC_OK;

    *messages = NULL;
    if (!kv)
        options.policy = NULL;
    if (!type)
        options.cache_type.key = KVC_ANY_TYPE;
    if (kvc_session_load(generation->model, &options, path, &saved, &session, &error) != KVC_OK)
        return cli_report(command, &error);
    json_t *note = saved.note ? json_loadb(saved.note, saved.note_bytes, JSON_REJECT_DUPLICATES, &at) : NULL;
    if (!note && cli_json_lost())
        status = cli_no_memory(command);
    else if (!read_note(generation, session, note, &saved))
        status = cli_error(command, KVC_INPUT, "%s: was saved by another program and has no note of run or chat", path);
    if (status == KVC_OK)
        *messages = json_incref(json_object_get(note, "messages"));
    if (status == KVC_OK)
        status = saved_take(generation, session, &saved);
    else
        kvc_session_close(session);
    json_decref(note);
    kvc_saved_free(&saved);
    return status;
}

int cli_chat_resume(struct cli_generation *generation, const struct cli_template *from, const char *path, bool kv,
                    bool type, struct cli_chat *chat) {
    json_t *messages;
    int status;

    if (from->system || from->messages)
        return cli_error(generation->command, KVC_USAGE, "%s %s: cannot be added to the conversation in %s",
                         from->system ? "--system" : "--messages", from->system ? from->system : from->messages, path);
    status = cli_generation_load(generation, path, kv, type, &messages);
    if (status == KVC_OK)
        status = cli_chat_restore(chat, messages, path);
    json_decref(messages);
    return status;
}
