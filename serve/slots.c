/* slots.c - kept sessions on disk: with --sessions FOLDER they are saved when the server ends and loaded when it starts
 * again, so that conversations and shared prompts go on without being computed anew.
 *
 * A slot is a file of kvc_session_save: beside the session it has the tokens that it has seen, and as a note the policy
 * as requests write it, after "shared " where copies of it are given out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvcull/saved.h"
#include "serve/loop.h"

#define SHARED "shared "

static char *slot_path(const struct serve *serve, size_t number) {
    const char *folder = serve->options->sessions;
    const size_t capacity = strlen(folder) + 32;
    char *path = malloc(capacity);
    if (path)
        snprintf(path, capacity, "%s/slot-%zu.kv", folder, number);
    return path;
}

int serve_slots_check(const struct serve *serve) {
    const char *folder = serve->options->sessions;
    struct stat what;
    if (!folder)
        return KVC_OK;
    if (stat(folder, &what) != 0 || !S_ISDIR(what.st_mode) || access(folder, R_OK | W_OK | X_OK) != 0)
        return cli_error(serve->command, KVC_INPUT, "--sessions %s: must be a folder that can be read and written",
                         folder);
    return KVC_OK;
}

/* Takes a loaded session among the kept ones. False: it is the caller's still. */
static bool take(struct serve_loop *loop, struct kvc_session *session, struct kvc_saved *saved) {
    struct kvc_session_stats stats;
    struct serve_kept kept = {.session = session};
    const size_t mark = strlen(SHARED);
    kept.shared = saved->note_bytes > mark && memcmp(saved->note, SHARED, mark) == 0;
    const size_t from = kept.shared ? mark : 0;
    kvc_session_stats(session, &stats);
    kept.bytes = stats.cache_bytes + stats.state_bytes;
    if (saved->note_bytes == 0 || saved->token_count != stats.tokens ||
        kept.bytes > loop->serve->memory - cli_min(loop->kept_bytes, loop->serve->memory) ||
        !(kept.spec = strndup(saved->note + from, saved->note_bytes - from)))
        return false;
    kept.tokens = (struct serve_tokens){saved->tokens, saved->token_count};
    saved->tokens = NULL;
    kept.used = ++loop->uses;
    loop->kept_bytes += kept.bytes;
    loop->kept[loop->kept_count++] = kept;
    return true;
}

void serve_slots_load(struct serve_loop *loop) {
    struct serve *serve = loop->serve;
    for (size_t i = 0; serve->options->sessions && loop->kept_count < (size_t)serve->options->kept; i++) {
        struct kvc_session_options options;
        struct kvc_saved saved = {0};
        struct kvc_session *session;
        struct kvc_error error;
        char *path = slot_path(serve, i);
        if (!path || access(path, F_OK) != 0) {
            free(path);
            return;
        }
        cli_session_options(&serve->options->common, NULL, &options);
        options.memory_limit = serve->memory;
        if (kvc_session_load(serve->model, &options, path, &saved, &session, &error) != KVC_OK)
            cli_warn(serve->command, "%s; begun without it", error.text);
        else if (!take(loop, session, &saved)) {
            cli_warn(serve->command, "%s: no session of a server, or no room for it; begun without it", path);
            kvc_session_close(session);
        }
        kvc_saved_free(&saved);
        free(path);
    }
}

static bool save(const struct serve_kept *kept, const char *path, struct kvc_error *error) {
    const size_t capacity = strlen(SHARED) + strlen(kept->spec) + 1;
    char *note = malloc(capacity);
    if (!note)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path) == KVC_OK;
    snprintf(note, capacity, "%s%s", kept->shared ? SHARED : "", kept->spec);
    const struct kvc_saved saved = {
        .tokens = kept->tokens.items, .token_count = kept->tokens.count, .note = note, .note_bytes = strlen(note)};
    const bool good = kvc_session_save(kept->session, path, &saved, error) == KVC_OK;
    free(note);
    return good;
}

static int by_use(const void *a, const void *b) {
    const struct serve_kept *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

/* The one that was used longest ago comes first. */
void serve_slots_save(struct serve_loop *loop) {
    const struct serve *serve = loop->serve;
    bool more = serve->options->sessions != NULL;
    qsort(loop->kept, loop->kept_count, sizeof *loop->kept, by_use);
    for (size_t i = 0; more; i++) {
        struct kvc_error error;
        char *path = slot_path(serve, i);
        if (!path)
            return;
        if (i >= loop->kept_count)
            more = unlink(path) == 0; /* of an earlier end, with more of them */
        else if (!save(&loop->kept[i], path, &error))
            cli_warn(serve->command, "%s", error.text);
        free(path);
    }
}
