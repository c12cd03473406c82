/* results.c - reads and checks results, which are JSON lines, and appends them one by one. */
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

/* The fields of a result. The KEY fields identify a record. A trace has only the KEY and the PROMPT fields. */
static const struct field {
    const char *name;
    json_type type; /* JSON_REAL: any number from 0 to 1; an integer must not be negative */
    enum { KEY, PROMPT, ANSWER } part;
    bool optional;
} fields[] = {{"model", JSON_STRING, KEY, false},
              {"weights", JSON_STRING, KEY, false},
              {"arithmetic", JSON_STRING, KEY, false},
              {"cache_type", JSON_STRING, KEY, false},
              {"prompt", JSON_STRING, KEY, false},
              {"data", JSON_STRING, KEY, false},
              {"task", JSON_STRING, KEY, false},
              {"length", JSON_INTEGER, KEY, false},
              {"seed", JSON_INTEGER, KEY, false},
              {"sample", JSON_INTEGER, KEY, false},
              {"kv", JSON_STRING, KEY, false},
              {"question", JSON_STRING, KEY, false},
              {"depth", JSON_REAL, KEY, true},
              {"turn", JSON_INTEGER, KEY, true},
              {"turns", JSON_INTEGER, ANSWER, true},
              {"prompt_hash", JSON_STRING, PROMPT, false},
              {"prompt_tokens", JSON_INTEGER, PROMPT, false},
              {"answer", JSON_STRING, ANSWER, false},
              {"answer_tokens", JSON_INTEGER, ANSWER, false},
              {"unit", JSON_STRING, ANSWER, true},
              {"entries", JSON_INTEGER, ANSWER, false},
              {"held_bytes", JSON_INTEGER, ANSWER, false},
              {"peak_bytes", JSON_INTEGER, ANSWER, false},
              {"read_bytes", JSON_INTEGER, ANSWER, false},
              {"steps", JSON_INTEGER, ANSWER, false},
              {"prompt_us", JSON_INTEGER, ANSWER, false},
              {"answer_us", JSON_INTEGER, ANSWER, false},
              {"answer_peak_bytes", JSON_INTEGER, ANSWER, true},
              {"values", JSON_OBJECT, ANSWER, true},
              {"memory", JSON_ARRAY, ANSWER, true}};
#define FIELDS (sizeof fields / sizeof *fields)

static bool is_field(const struct field *field, const json_t *value) {
    if (!value)
        return field->optional;
    if (field->type == JSON_REAL)
        return json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) <= 1;
    return json_typeof(value) == field->type && (field->type != JSON_INTEGER || json_integer_value(value) >= 0);
}

static bool is_one_of(const json_t *value, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(json_string_value(value), words[i]) == 0)
            return true;
    }
    return false;
}

/* Returns true if "values" has only numbers, and "memory" only pairs of a number of tokens and a number of bytes. */
static bool are_numbers(json_t *record) {
    const char *name;
    json_t *value;
    size_t i;
    json_object_foreach(json_object_get(record, "values"), name, value) {
        /* a name must not contain |, which separates the cells of tables */
        if (!json_is_number(value) || strchr(name, '|'))
            return false;
    }
    json_array_foreach(json_object_get(record, "memory"), i, value) {
        if (json_array_size(value) != 2 || !json_is_integer(json_array_get(value, 0)) ||
            !json_is_integer(json_array_get(value, 1)) || json_integer_value(json_array_get(value, 0)) < 0 ||
            json_integer_value(json_array_get(value, 1)) < 0)
            return false;
    }
    return true;
}

/* Returns the name of the first field that is missing or wrong; NULL: there is none. */
static const char *wrong_field(json_t *record) {
    static const char *const questions[] = {"seen", "unseen", "none"};
    const json_t *unit = json_object_get(record, "unit"), *score = json_object_get(record, "score");
    const json_t *turn = json_object_get(record, "turn"), *trace = json_object_get(record, "trace");
    for (size_t i = 0; i < FIELDS; i++) {
        if (!(trace && fields[i].part == ANSWER) && !is_field(&fields[i], json_object_get(record, fields[i].name)))
            return fields[i].name;
    }
    if (!is_one_of(json_object_get(record, "question"), questions, 3))
        return "question";
    if (trace)
        return eval_trace_wrong(trace, json_integer_value(json_object_get(record, "prompt_tokens")));
    if (!json_is_number(score) || (!unit && (json_number_value(score) < 0 || json_number_value(score) > 1)))
        return "score";
    if (unit && !is_one_of(unit, eval_units, EVAL_UNITS))
        return "unit";
    if (turn && json_integer_value(json_object_get(record, "turns")) < json_integer_value(turn))
        return "turns";
    if (!are_numbers(record))
        return json_object_get(record, "memory") ? "values or memory" : "values";
    return NULL;
}

/* Returns the key fields as one text, with a prefix if it is a trace. The length of each field precedes it, so that
 * different keys have different texts. The caller frees the text. Returns NULL if memory runs out. */
static char *key_of(const json_t *record, bool trace) {
    struct eval_text key = {0};
    eval_add(&key, "%s", trace ? "trace " : "");
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(record, fields[i].name);
        if (fields[i].part != KEY || !value)
            continue;
        if (json_is_string(value))
            eval_add(&key, "%zu:%s ", json_string_length(value), json_string_value(value));
        else if (fields[i].optional)
            eval_add(&key, "%s %.9g ", fields[i].name, json_number_value(value));
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

/* Adds a record unless an equal one exists. */
static int results_keep(struct eval_results *results, json_t *record, const char *path, size_t line) {
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
            status = cli_error(command, KVC_INPUT,
                               "%s: line %zu: another record has a different answer to the same sample", path, line);
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
    const bool lost = cli_json_lost(); /* jansson may have lost characters of a text without reporting an error */
    const char *wrong = lost ? NULL : json_is_object(record) ? wrong_field(record) : "a JSON object";
    int status;
    if (!lost && json_is_object(json_object_get(record, "run"))) { /* the Python package's description of a run */
        json_decref(record);
        return KVC_OK;
    }
    if (lost)
        status = cli_no_memory(results->command);
    else if (wrong)
        status =
            cli_error(results->command, KVC_INPUT,
                      "%s: line %zu: not a result of `kvcull eval --out`: %s is missing or wrong", path, line, wrong);
    else
        status = results_keep(results, record, path, line);
    json_decref(record);
    return status;
}

int eval_results_parse(struct eval_results *results, const char *path, const char *text, size_t bytes) {
    size_t line = 1, start = 0;
    int status = KVC_OK;
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
    return status;
}

int eval_results_read(struct eval_results *results, const char *path) {
    char *text;
    size_t bytes;
    int status = cli_read_file(results->command, path, &text, &bytes);
    if (status == KVC_OK)
        status = eval_results_parse(results, path, text, bytes);
    free(text);
    return status;
}

/* Returns true if the file's last bytes can be the beginning of a line that eval_results_add was writing. */
static bool is_begun(const char *text, size_t bytes) {
    static const char begin[] = "{\"model\":\"";
    return memcmp(text, begin, cli_min(bytes, sizeof begin - 1)) == 0;
}

/* Reads an existing file. Removes an incomplete last line if eval_results_add wrote it. */
static int take_up(struct eval_results *results, off_t size) {
    const struct cli_command *command = results->command;
    char *text;
    size_t bytes;
    int status = cli_read_file(command, results->path, &text, &bytes);
    if (status != KVC_OK)
        return status;
    status = eval_results_parse(results, results->path, text, bytes);
    if (status == KVC_OK && !is_begun(text + bytes - results->dropped, results->dropped))
        status = cli_error(command, KVC_INPUT,
                           "--out %s: the file does not end with a result of `kvcull eval --out`, so it was not "
                           "changed; give another name",
                           results->path);
    else if (status == KVC_OK && results->dropped > 0 && ftruncate(results->file, size - (off_t)results->dropped) != 0)
        status = cli_error(command, KVC_RESOURCE, "--out %s: cannot be written: %s", results->path, strerror(errno));
    free(text);
    return status;
}

int eval_results_append_to(struct eval_results *results, const char *path, bool resume) {
    const struct cli_command *command = results->command;
    struct stat about;
    if (path[0] == '\0' || strcmp(path, "-") == 0)
        return cli_check_name(command, "out", path);
    /* O_NONBLOCK: opening a named pipe must not wait for a reader */
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file < 0 || fstat(file, &about) != 0) {
        const int failure = errno;
        if (file >= 0)
            close(file);
        return cli_error(command, KVC_RESOURCE, "--out %s: cannot be written: %s", path, strerror(failure));
    }
    results->file = file;
    results->path = path;
    if (!S_ISREG(about.st_mode))
        return cli_error(command, KVC_RESOURCE, "--out %s: not a regular file", path);
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return cli_error(command, KVC_RESOURCE,
                         "--out %s: another process is writing the file; give each process its own", path);
    if (about.st_size > 0 && !resume)
        return cli_error(command, KVC_USAGE, "--out %s: the file exists; --resume continues it", path);
    return about.st_size > 0 ? take_up(results, about.st_size) : KVC_OK;
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

/* A score below zero means that memory has run out. */
static bool is_scored(const json_t *record) { return json_number_value(json_object_get(record, "score")) >= 0; }

int eval_results_add(struct eval_results *results, json_t *record) {
    int status = cli_json_lost() || !record || !is_scored(record) ? cli_no_memory(results->command) : KVC_OK;
    char *line = NULL, *text = NULL;
    if (status == KVC_OK && results->file >= 0) {
        struct eval_text whole = {0};
        text = json_dumps(record, JSON_COMPACT);
        if (text)
            eval_add(&whole, "%s\n", text);
        line = text ? eval_text_take(&whole) : NULL;
        if (!line || cli_json_lost())
            status = cli_no_memory(results->command);
        else if (!write_all(results->file, line, strlen(line)))
            status = cli_error(results->command, KVC_RESOURCE,
                               "--out %s: cannot be written: %s; --resume continues from there", results->path,
                               strerror(errno));
    }
    if (status == KVC_OK)
        status = results_keep(results, record, results->path, json_array_size(results->records) + 1);
    free(line);
    cli_json_free(text);
    json_decref(record);
    return status;
}
