/* results.c - results of samples as lines of JSON: checked when they are read, appended one by one. */
#include "eval/results.h"
#include "eval/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The fields of a result, and of a trace those that are no answer's. What is a key tells it from all others. */
static const struct field {
    const char *name;
    json_type type; /* JSON_REAL: any number from 0 to 1; integers are not negative */
    enum { KEY, PROMPT, ANSWER } part;
} fields[] = {{"model", JSON_STRING, KEY},
              {"weights", JSON_STRING, KEY},
              {"arithmetic", JSON_STRING, KEY},
              {"cache_type", JSON_STRING, KEY},
              {"prompt", JSON_STRING, KEY},
              {"data", JSON_STRING, KEY},
              {"task", JSON_STRING, KEY},
              {"length", JSON_INTEGER, KEY},
              {"seed", JSON_INTEGER, KEY},
              {"sample", JSON_INTEGER, KEY},
              {"kv", JSON_STRING, KEY},
              {"question", JSON_STRING, KEY},
              {"prompt_hash", JSON_STRING, PROMPT},
              {"prompt_tokens", JSON_INTEGER, PROMPT},
              {"answer", JSON_STRING, ANSWER},
              {"answer_tokens", JSON_INTEGER, ANSWER},
              {"score", JSON_REAL, ANSWER},
              {"entries", JSON_INTEGER, ANSWER},
              {"held_bytes", JSON_INTEGER, ANSWER},
              {"peak_bytes", JSON_INTEGER, ANSWER},
              {"read_bytes", JSON_INTEGER, ANSWER},
              {"steps", JSON_INTEGER, ANSWER},
              {"prompt_us", JSON_INTEGER, ANSWER},
              {"answer_us", JSON_INTEGER, ANSWER}};
#define FIELDS (sizeof fields / sizeof *fields)

/* The name of the first field that is missing or wrong; NULL: none. */
static const char *wrong_field(const json_t *record) {
    const json_t *trace = json_object_get(record, "trace");
    for (size_t i = 0; i < FIELDS && !(trace && fields[i].part == ANSWER); i++) {
        const json_t *value = json_object_get(record, fields[i].name);
        const double number = json_number_value(value);
        bool right = value && json_typeof(value) == fields[i].type;
        if (fields[i].type == JSON_REAL)
            right = json_is_number(value) && number >= 0 && number <= 1;
        else if (fields[i].type == JSON_INTEGER)
            right = right && json_integer_value(value) >= 0;
        if (!right)
            return fields[i].name;
    }
    const char *question = json_string_value(json_object_get(record, "question"));
    if (strcmp(question, "seen") && strcmp(question, "unseen"))
        return "question";
    return trace ? eval_trace_wrong(trace, json_integer_value(json_object_get(record, "prompt_tokens"))) : NULL;
}

/* The key fields in one text, and whether they are a trace's, malloc'ed; NULL: no memory. Control characters are in
 * none of the values' JSON. */
static char *key_of(const json_t *record, bool trace) {
    struct eval_text key = {0};
    eval_add(&key, "%s", trace ? "trace " : "");
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(record, fields[i].name);
        if (fields[i].part != KEY)
            continue;
        if (json_is_string(value))
            eval_add(&key, "%zu:%s ", json_string_length(value), json_string_value(value));
        else
            eval_add(&key, "%lld ", (long long)json_integer_value(value));
    }
    return eval_text_take(&key);
}

int eval_results_start(const struct cli_command *command, struct eval_results *results) {
    *results = (struct eval_results){.command = command,
                                     .records = json_array(),
                                     .traces = json_array(),
                                     .index = json_object(),
                                     .path = "",
                                     .file = -1};
    return results->records && results->traces && results->index ? KVC_OK : cli_no_memory(command);
}

void eval_results_close(struct eval_results *results) {
    if (results->file >= 0 && results->path)
        close(results->file);
    json_decref(results->records);
    json_decref(results->traces);
    json_decref(results->index);
    *results = (struct eval_results){.file = -1};
}

/* Keeps a record unless it is there already. */
static int keep(struct eval_results *results, json_t *record, const char *path, size_t line) {
    const struct cli_command *command = results->command;
    const bool trace = json_object_get(record, "trace") != NULL;
    json_t *list = trace ? results->traces : results->records;
    char *key = key_of(record, trace);
    int status = KVC_OK;
    if (!key)
        return cli_no_memory(command);
    const json_t *place = json_object_get(results->index, key);
    if (place && !trace) {
        const json_t *other = json_array_get(results->records, (size_t)json_integer_value(place));
        results->twice++;
        if (!json_equal(json_object_get(other, "answer"), json_object_get(record, "answer")) ||
            json_number_value(json_object_get(other, "score")) != json_number_value(json_object_get(record, "score")))
            status =
                cli_error(command, KVC_INPUT, "%s: line %zu: the same sample is there with another answer", path, line);
    } else if (!place && (json_object_set_new(results->index, key, json_integer((json_int_t)json_array_size(list))) ||
                          json_array_append(list, record))) {
        status = cli_no_memory(command);
    }
    free(key);
    return status;
}

static int read_line(struct eval_results *results, const char *path, size_t line, const char *text, size_t bytes) {
    json_error_t where;
    json_t *record = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    const char *wrong = json_is_object(record) ? wrong_field(record) : "a JSON object";
    int status;
    if (cli_json_lost()) /* a text may have lost a character, which jansson does not tell */
        status = cli_no_memory(results->command);
    else if (wrong)
        status =
            cli_error(results->command, KVC_INPUT,
                      "%s: line %zu: is no result of `kvcull eval --out`: no %s, or a wrong one", path, line, wrong);
    else
        status = keep(results, record, path, line);
    json_decref(record);
    return status;
}

int eval_results_read(struct eval_results *results, const char *path) {
    char *text;
    size_t bytes, line = 1, start = 0;
    int status = cli_read_file(results->command, path, &text, &bytes);
    results->dropped = 0;
    for (size_t i = 0; i < bytes && status == KVC_OK; i++) {
        if (text[i] != '\n')
            continue;
        if (i > start)
            status = read_line(results, path, line, text + start, i - start);
        start = i + 1;
        line++;
    }
    if (status == KVC_OK)
        results->dropped = bytes - start;
    free(text);
    return status;
}

int eval_results_append_to(struct eval_results *results, const char *path, bool resume) {
    const struct cli_command *command = results->command;
    struct stat about;
    if (path[0] == '\0' || strcmp(path, "-") == 0)
        return cli_check_name(command, "out", path);
    const int file =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK /* a pipe without a reader */, 0666);
    if (file < 0 || fstat(file, &about) != 0) {
        const int failure = errno;
        if (file >= 0)
            close(file);
        return cli_error(command, KVC_RESOURCE, "--out %s: cannot be written: %s", path, strerror(failure));
    }
    results->file = file;
    results->path = path;
    if (!S_ISREG(about.st_mode))
        return cli_error(command, KVC_RESOURCE, "--out %s: is no file", path);
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return cli_error(command, KVC_RESOURCE, "--out %s: another process is writing it; give each its own file",
                         path);
    if (about.st_size > 0 && !resume)
        return cli_error(command, KVC_USAGE, "--out %s: is there already; --resume goes on with it", path);
    int status = about.st_size > 0 ? eval_results_read(results, path) : KVC_OK;
    if (status == KVC_OK && results->dropped > 0 && ftruncate(file, about.st_size - (off_t)results->dropped) != 0)
        status = cli_error(command, KVC_RESOURCE, "--out %s: cannot be written: %s", path, strerror(errno));
    return status;
}

static bool has(const struct eval_results *results, const json_t *record, bool trace) {
    char *key = key_of(record, trace);
    const bool there = key && json_object_get(results->index, key);
    free(key);
    return there;
}

bool eval_results_has(const struct eval_results *results, const json_t *record) { return has(results, record, false); }

bool eval_results_has_trace(const struct eval_results *results, const json_t *record) {
    return has(results, record, true);
}

const json_t *eval_results_text(const struct eval_results *results, const json_t *hash) {
    for (size_t i = 0; i < json_array_size(results->traces); i++) {
        const json_t *record = json_array_get(results->traces, i);
        const json_t *text = json_object_get(json_object_get(record, "trace"), "text");
        if (text && json_equal(json_object_get(record, "prompt_hash"), hash))
            return text;
    }
    return NULL;
}

static bool write_all(int file, const char *bytes, size_t count) {
    while (count > 0) {
        const ssize_t n = write(file, bytes, count);
        if (n < 0 && errno != EINTR)
            return false;
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

int eval_results_add(struct eval_results *results, json_t *record) {
    int status = cli_json_lost() || !record ? cli_no_memory(results->command) : KVC_OK;
    char *line = NULL, *text = NULL;
    if (status == KVC_OK && results->file >= 0) {
        struct eval_text whole = {0};
        text = json_dumps(record, JSON_COMPACT);
        if (text)
            eval_add(&whole, "%s\n", text);
        line = text ? eval_text_take(&whole) : NULL;
        if (!line)
            status = cli_no_memory(results->command);
        else if (!write_all(results->file, line, strlen(line)))
            status = cli_error(results->command, KVC_RESOURCE,
                               "--out %s: cannot be written: %s; --resume goes on from there", results->path,
                               strerror(errno));
    }
    if (status == KVC_OK)
        status = keep(results, record, results->path, json_array_size(results->records) + 1);
    free(line);
    free(text);
    json_decref(record);
    return status;
}
