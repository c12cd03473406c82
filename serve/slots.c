/* slots.c - cached sessions on disk. With --sessions FOLDER the server saves them when it ends and loads them when it
 * starts, so that conversations and shared prompts need not be computed again.
 *
 * A slot is a file of kvc_session_save. It has the session, its tokens, and a note. The note is the policy string, with
 * "shared " before it if requests get copies. Slots are numbered in order of last use. The server never overwrites or
 * removes a file that it did not load: it uses no number twice, and removes loaded files only after their replacements
 * are saved. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvcull/ranks.h"
#include "kvcull/saved.h"
#include "serve/loop.h"

#define SHARED "shared "
enum { DIGITS_MOST = 18 }; /* largest number of digits of a slot's number */

/* ---- the folder ---- */

static char *slot_path(const struct serve *serve, uint64_t number) {
    const char *folder = serve->options->sessions;
    const size_t capacity = strlen(folder) + 40;
    char *path = malloc(capacity);
    if (path)
        snprintf(path, capacity, "%s/slot-%llu.kv", folder, (unsigned long long)number);
    return path;
}

/* Parses a slot's file name, as slot_path writes it. */
static bool slot_number(const char *name, uint64_t *number) {
    if (strncmp(name, "slot-", 5) != 0)
        return false;
    const char *digits = name + 5;
    const size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > DIGITS_MOST || (count > 1 && digits[0] == '0') || strcmp(digits + count, ".kv") != 0)
        return false;
    *number = strtoull(digits, NULL, 10);
    return true;
}

static int later_first(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* Lists the numbers of all slots in the folder, the most recently used first. Returns false, with a warning, if the
 * folder cannot be read. */
static bool list_slots(const struct serve *serve, uint64_t **numbers, size_t *count) {
    const char *folder = serve->options->sessions;
    DIR *list = opendir(folder);
    struct dirent *entry = NULL;
    *numbers = NULL;
    *count = 0;
    while (list && (errno = 0, entry = readdir(list))) {
        uint64_t number;
        if (!slot_number(entry->d_name, &number))
            continue;
        uint64_t *grown = realloc(*numbers, (*count + 1) * sizeof *grown);
        if (!grown) {
            errno = ENOMEM;
            break;
        }
        *numbers = grown;
        grown[(*count)++] = number;
    }
    const int failed = !list || entry || errno ? errno : 0;
    if (list)
        closedir(list);
    if (failed) {
        cli_warn(serve->command, "--sessions %s: cannot be read: %s", folder, strerror(failed));
        free(*numbers);
        *numbers = NULL;
        *count = 0;
    }
    if (*count > 0)
        qsort(*numbers, *count, sizeof **numbers, later_first);
    return !failed;
}

int serve_slots_check(struct serve *serve) {
    const char *folder = serve->options->sessions;
    struct stat what;
    if (!folder)
        return KVC_OK;
    if (cli_ranks() && kvc_ranks_count(cli_ranks()) > 1)
        return cli_error(serve->command, KVC_USAGE,
                         "--sessions %s: sessions that several processes share cannot be saved", folder);
    /* no access for others, because sessions contain the conversation's text */
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return cli_error(serve->command, KVC_RESOURCE, "--sessions %s: cannot be created: %s", folder, strerror(errno));
    if (stat(folder, &what) != 0 || !S_ISDIR(what.st_mode) || access(folder, R_OK | W_OK | X_OK) != 0)
        return cli_error(serve->command, KVC_INPUT, "--sessions %s: must be a folder that can be read and written",
                         folder);
    const size_t capacity = strlen(folder) + sizeof "/" CLI_LOCK;
    char *guard = malloc(capacity);
    if (!guard)
        return cli_no_memory(serve->command);
    snprintf(guard, capacity, "%s/%s", folder, CLI_LOCK);
    const int status = cli_lock_open(serve->command, "sessions", folder, guard, &serve->folder_lock);
    free(guard);
    return status;
}

/* ---- loading ---- */

/* Adds a loaded session to the cached ones. On failure, returns false, and the caller still owns the session. */
static bool slots_take(struct serve_loop *loop, struct serve_cached *kept, struct kvc_saved *saved) {
    struct kvc_session_stats stats;
    const size_t mark = strlen(SHARED);
    kvc_session_stats(kept->session, &stats);
    kept->shared = saved->note_bytes > mark && memcmp(saved->note, SHARED, mark) == 0;
    const size_t from = kept->shared ? mark : 0;
    if (saved->note_bytes == 0 || saved->token_count != stats.tokens ||
        !(kept->spec = strndup(saved->note + from, saved->note_bytes - from)))
        return false;
    kept->tokens = (struct serve_tokens){saved->tokens, saved->token_count};
    saved->tokens = NULL;
    loop->kept_bytes += kept->bytes;
    loop->kept[loop->kept_count++] = *kept;
    return true;
}

/* Loads one slot. Returns false if there is no room for it. */
static bool slots_load(struct serve_loop *loop, uint64_t number, const char *path, uint64_t used) {
    struct serve *serve = loop->serve;
    struct serve_cached kept = {.used = used, .slot = number + 1};
    struct kvc_session_options options;
    struct kvc_session_stats stats;
    struct kvc_saved saved = {0};
    struct kvc_error error;
    cli_session_options(&serve->options->common, NULL, &options);
    options.memory_limit = serve->memory;
    if (kvc_session_load(serve->model, &options, path, &saved, &kept.session, &error) != KVC_OK) {
        cli_warn(serve->command, "%s; skipped, and the file is unchanged", error.text);
        return true;
    }
    kvc_session_stats(kept.session, &stats);
    kept.bytes = stats.cache_bytes + stats.state_bytes;
    const bool room = kept.bytes <= serve->memory - cli_min(loop->kept_bytes, serve->memory);
    if (!room || !slots_take(loop, &kept, &saved)) {
        cli_warn(serve->command, "%s: %s; skipped, and the file is unchanged", path,
                 room ? "not a session of a server" : "there is no room for it in --mem");
        kvc_session_close(kept.session);
    }
    kvc_saved_free(&saved);
    return room;
}

/* Loads the most recently used slots, as many as --keep and --mem allow. */
void serve_slots_load(struct serve_loop *loop) {
    const struct serve *serve = loop->serve;
    off_t least = INT64_MAX; /* size of the smallest file that did not fit */
    uint64_t *numbers;
    size_t count;
    if (!serve->options->sessions || !list_slots(loop->serve, &numbers, &count))
        return;
    for (size_t i = 0; i < count && loop->kept_count < (size_t)serve->options->kept; i++) {
        char *path = slot_path(serve, numbers[i]);
        struct stat about = {0};
        if (path && (stat(path, &about) != 0 || about.st_size < least) &&
            !slots_load(loop, numbers[i], path, count - i))
            least = about.st_size;
        free(path);
    }
    loop->uses = loop->loaded_uses = count;
    loop->loaded_count = loop->kept_count;
    free(numbers);
    if (loop->kept_count > 0 && !(loop->loaded = malloc(loop->kept_count * sizeof *loop->loaded)))
        loop->loaded_count = 0; /* there is no memory for the list, so the files remain */
    for (size_t i = 0; i < loop->loaded_count; i++)
        loop->loaded[i] = loop->kept[i].slot - 1;
}

/* ---- saving ---- */

static bool save(const struct serve_cached *kept, const char *path, struct kvc_error *error) {
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

/* Saves the session under this number: renames its file if it has one, otherwise writes a new one. */
static bool slots_put(const struct serve_loop *loop, const struct serve_cached *kept, uint64_t number) {
    const struct serve *serve = loop->serve;
    char *path = slot_path(serve, number), *old = kept->slot ? slot_path(serve, kept->slot - 1) : NULL;
    struct kvc_error error = {KVC_RESOURCE, "no memory"};
    const bool good = path && ((old && rename(old, path) == 0) || save(kept, path, &error));
    if (!good)
        cli_warn(serve->command, "%s", error.text);
    free(path);
    free(old);
    return good;
}

static void remove_slot(const struct serve *serve, uint64_t number) {
    char *path = slot_path(serve, number);
    if (path)
        unlink(path);
    free(path);
}

/* Moves the loaded slots whose sessions are no longer cached to the front of loop->loaded, the most recently used
 * first. Returns their number. */
static size_t find_dropped(struct serve_loop *loop) {
    size_t dropped = 0;
    for (size_t i = 0; i < loop->loaded_count; i++) {
        bool kept = false;
        for (size_t k = 0; k < loop->kept_count; k++)
            kept = kept || loop->kept[k].slot == loop->loaded[i] + 1;
        if (!kept)
            loop->loaded[dropped++] = loop->loaded[i];
    }
    return dropped;
}

static int by_use(const void *a, const void *b) {
    const struct serve_cached *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

/* Saves the most recently used session first. After each new file it removes the oldest slot whose session was dropped;
 * when all sessions are saved, it removes all such slots. So the folder needs room for only one more session, and a
 * failure loses nothing. */
bool serve_slots_save(struct serve_loop *loop) {
    const struct serve *serve = loop->serve;
    uint64_t *numbers, first;
    size_t count, failed = 0, dropped = find_dropped(loop);
    if (!serve->options->sessions || loop->kept_count + dropped == 0)
        return true;
    bool good = list_slots(serve, &numbers, &count);
    first = count > 0 ? numbers[0] + 1 : 0;
    free(numbers);
    qsort(loop->kept, loop->kept_count, sizeof *loop->kept, by_use);
    for (size_t i = loop->kept_count; i-- > 0 && good;) {
        const struct serve_cached *kept = &loop->kept[i];
        if (kept->slot && kept->used <= loop->loaded_uses)
            continue; /* not used since it was loaded, so its file is current */
        if (!slots_put(loop, kept, first + i))
            failed++;
        else if (!kept->slot && dropped > 0)
            remove_slot(serve, loop->loaded[--dropped]);
    }
    while (good && failed == 0 && dropped > 0)
        remove_slot(serve, loop->loaded[--dropped]);
    if (failed > 0)
        (void)cli_error(serve->command, KVC_RESOURCE, "--sessions %s: %zu of %zu sessions could not be saved",
                        serve->options->sessions, failed, loop->kept_count);
    return good && failed == 0;
}
