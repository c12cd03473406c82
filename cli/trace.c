/* trace.c - kvcull trace: finds the first operation whose output differs between two traces (--trace FILE).
 *
 * Outputs correspond if they have the same session, position, part of the model, operation, name and head. If a file
 * has several such lines, the n-th line of one file corresponds to the n-th line of the other. So the two runs may
 * differ in backend, threads, chunks or number of processes. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/assert.h"

enum { FIELDS = 6, RANKS_MOST = 4096, NAME_MOST = 4096 };
static const char heading[] = "kvcull trace 1";
static const char *const header_names[] = {"version", "arithmetic", "math", "backend"};
enum { HEADER_VERSION, HEADER_ARITHMETIC, HEADER_MATH, HEADER_BACKEND, HEADERS };

/* A line of a trace. The text is in the file's memory. */
struct line {
    const char *key;    /* the first six fields: session, position, part, operation, output, head */
    const char *kind;   /* f32, u32, f16 or u8 */
    const char *values; /* hexadecimal, separated by commas; NULL: the line has only the hash */
    size_t count, number;
    uint64_t hash;
    uint32_t rank, nth; /* nth: number of earlier lines of this file with the same key */
};

/* The traces of all processes of a run. */
struct run {
    const char *path;
    char *text[RANKS_MOST];
    uint32_t ranks;
    const char *header[HEADERS]; /* header lines of rank 0's trace */
    struct line *lines;          /* the lines in the order of the files */
    struct line **sorted;        /* the lines sorted by key, nth and rank */
    size_t count, capacity;
};

static void run_free(struct run *run) {
    for (uint32_t r = 0; r < run->ranks; r++)
        free(run->text[r]);
    free(run->lines);
    free(run->sorted);
}

/* ---- reading ---- */

/* Ends the text at its next space and returns the text after that space. Returns NULL if there is no space. */
static char *next_field(char *text) {
    char *space = strchr(text, ' ');
    if (space)
        *space++ = '\0';
    return space;
}

static bool read_line(char *text, struct line *line) {
    char *end = text, *count, *hash, *values, *rest;
    line->key = text;
    for (int i = 0; i < FIELDS && end; i++)
        end = strchr(end + (i > 0), ' ');
    if (!end)
        return false;
    *end = '\0';
    line->kind = end + 1;
    count = next_field(end + 1);
    hash = count ? next_field(count) : NULL;
    if (!hash)
        return false;
    values = next_field(hash);
    line->values = values;
    errno = 0;
    line->count = strtoull(count, &rest, 10);
    if (rest == count || *rest || errno)
        return false;
    line->hash = strtoull(hash, &rest, 16);
    return strlen(hash) == 16 && !*rest;
}

static void read_header(struct run *run, char *text) {
    for (size_t i = 0; i < HEADERS; i++) {
        const size_t length = strlen(header_names[i]);
        if (strncmp(text, "# ", 2) == 0 && strncmp(text + 2, header_names[i], length) == 0 &&
            strncmp(text + 2 + length, ": ", 2) == 0)
            run->header[i] = text + length + 4;
    }
}

static bool add_line(struct run *run, const struct line *line) {
    if (run->count == run->capacity) {
        const size_t capacity = 2 * run->capacity + 1024;
        struct line *grown = realloc(run->lines, capacity * sizeof *grown);
        if (!grown)
            return false;
        run->lines = grown;
        run->capacity = capacity;
    }
    run->lines[run->count++] = *line;
    return true;
}

static int read_lines(const struct cli_command *command, struct run *run, const char *path, char *text) {
    size_t number = 0;
    for (char *next; text[0]; text = next) {
        struct line line = {.number = ++number, .rank = run->ranks - 1};
        char *end = strchr(text, '\n');
        if (!end) /* the run was interrupted within a line */
            return KVC_OK;
        *end = '\0';
        next = end + 1;
        if (number == 1) {
            if (strcmp(text, heading) != 0)
                return cli_error(command, KVC_INPUT, "%s: is not a trace; its first line must be '%s'", path, heading);
        } else if (text[0] == '#') {
            if (line.rank == 0)
                read_header(run, text);
        } else if (!read_line(text, &line)) {
            return cli_error(command, KVC_INPUT, "%s: line %zu is not a line of a trace", path, number);
        } else if (!add_line(run, &line)) {
            return cli_no_memory(command);
        }
    }
    return number ? KVC_OK : cli_error(command, KVC_INPUT, "%s: is empty; give a file that --trace wrote", path);
}

static int read_file(const struct cli_command *command, struct run *run, const char *path) {
    size_t bytes;
    const int status = cli_read_file(command, path, &run->text[run->ranks], &bytes);
    if (status != KVC_OK)
        return status;
    run->ranks++;
    return read_lines(command, run, path, run->text[run->ranks - 1]);
}

/* Compares keys, then the numbers of earlier lines. */
static int compare_keys(const struct line *a, const struct line *b) {
    const int keys = strcmp(a->key, b->key);
    return keys ? keys : (a->nth > b->nth) - (a->nth < b->nth);
}

static int by_file(const void *a, const void *b) {
    const struct line *x = *(struct line *const *)a, *y = *(struct line *const *)b;
    const int keys = strcmp(x->key, y->key);
    return keys ? keys : (x > y) - (x < y);
}

static int by_key(const void *a, const void *b) {
    const struct line *x = *(struct line *const *)a, *y = *(struct line *const *)b;
    const int keys = compare_keys(x, y);
    return keys ? keys : (x > y) - (x < y);
}

/* Numbers the lines with equal keys in each file, and sorts all lines by key. */
static bool sort_lines(struct run *run) {
    run->sorted = malloc((run->count + 1) * sizeof *run->sorted);
    if (!run->sorted)
        return false;
    for (size_t i = 0; i < run->count; i++)
        run->sorted[i] = &run->lines[i];
    qsort(run->sorted, run->count, sizeof *run->sorted, by_file);
    for (size_t i = 1; i < run->count; i++) {
        const struct line *before = run->sorted[i - 1];
        struct line *line = run->sorted[i];
        line->nth = line->rank == before->rank && strcmp(line->key, before->key) == 0 ? before->nth + 1 : 0;
    }
    qsort(run->sorted, run->count, sizeof *run->sorted, by_key);
    return true;
}

/* Reads FILE, FILE.rank1, FILE.rank2 and so on. */
static int read_run(const struct cli_command *command, struct run *run) {
    char path[NAME_MOST];
    int status = read_file(command, run, run->path);
    while (status == KVC_OK && run->ranks < RANKS_MOST) {
        FILE *file;
        if (snprintf(path, sizeof path, "%s.rank%" PRIu32, run->path, run->ranks) >= (int)sizeof path ||
            !(file = fopen(path, "re")))
            break;
        fclose(file);
        status = read_file(command, run, path);
    }
    if (status == KVC_OK && !sort_lines(run))
        status = cli_no_memory(command);
    return status;
}

/* ---- comparing ---- */

struct difference {
    const struct line *a, *b;
};

struct comparison {
    const struct run *a, *b;
    uint64_t common, differing, only_a, only_b;
    struct difference *first; /* [a->ranks]: first difference of each rank; member a is NULL if there is none */
};

/* Finds the line of `run` that corresponds to a line of the other run. If both runs have the same number of ranks, that
 * line belongs to the same rank. Otherwise a rank may have computed another part of the output, which cannot be
 * compared. */
static const struct line *find_line(const struct run *run, const struct line *line, bool same_ranks) {
    size_t low = 0, high = run->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_keys(run->sorted[middle], line) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < run->count && compare_keys(run->sorted[low], line) == 0; low++) {
        const struct line *found = run->sorted[low];
        if (same_ranks ? found->rank == line->rank : found->count == line->count)
            return found;
    }
    return NULL;
}

static void compare(struct comparison *c) {
    const bool same_ranks = c->a->ranks == c->b->ranks;
    for (size_t i = 0; i < c->a->count; i++) {
        const struct line *a = &c->a->lines[i], *b = find_line(c->b, a, same_ranks);
        KVC_ASSERT(a->rank < c->a->ranks);
        if (!b) {
            c->only_a++;
            continue;
        }
        c->common++;
        if (a->hash == b->hash && a->count == b->count)
            continue;
        c->differing++;
        if (!c->first[a->rank].a)
            c->first[a->rank] = (struct difference){a, b};
    }
    for (size_t i = 0; i < c->b->count; i++)
        c->only_b += !find_line(c->a, &c->b->lines[i], same_ranks);
}

/* ---- printing ---- */

/* The fields of a key. */
struct place {
    char session[16], position[16], part[24], operation[40], output[40], head[16];
};

static struct place place_of(const struct line *line) {
    struct place place = {.session = ""};
    char *const fields[FIELDS] = {place.session, place.position, place.part, place.operation, place.output, place.head};
    const size_t sizes[FIELDS] = {sizeof place.session,   sizeof place.position, sizeof place.part,
                                  sizeof place.operation, sizeof place.output,   sizeof place.head};
    const char *text = line->key;
    for (size_t i = 0; i < FIELDS; i++) {
        const size_t length = strcspn(text, " ");
        snprintf(fields[i], sizes[i], "%.*s", (int)length, text);
        text += length + (text[length] == ' ');
    }
    return place;
}

/* The first value that differs, as bits, and how many values differ. */
struct differing {
    size_t index, count;
    uint32_t a, b;
};

/* Compares the values of two lines. Returns false if a line has no values, if the lines have different numbers of
 * values, or if no value differs. */
static bool compare_values(const struct difference *difference, struct differing *found) {
    const char *a = difference->a->values, *b = difference->b->values;
    *found = (struct differing){.count = 0};
    if (!a || !b || difference->a->count != difference->b->count)
        return false;
    for (size_t i = 0; i < difference->a->count; i++) {
        char *end_a, *end_b;
        const uint32_t x = (uint32_t)strtoul(a, &end_a, 16), y = (uint32_t)strtoul(b, &end_b, 16);
        if (end_a == a || end_b == b)
            return false;
        if (x != y && found->count++ == 0)
            found->index = i, found->a = x, found->b = y;
        a = end_a + (*end_a == ',');
        b = end_b + (*end_b == ',');
    }
    return found->count > 0;
}

static const char *value_text(const struct line *line, uint32_t bits, char text[48]) {
    float value;
    memcpy(&value, &bits, sizeof value);
    if (strcmp(line->kind, "f32") == 0)
        snprintf(text, 48, "%08" PRIx32 " (%.9g)", bits, (double)value);
    else if (strcmp(line->kind, "u32") == 0)
        snprintf(text, 48, "%" PRIu32, bits);
    else
        snprintf(text, 48, "%" PRIx32, bits);
    return text;
}

/* Prints the file and the number of a line. */
static void print_place(const struct run *run, const struct line *line) {
    printf("  %s", run->path);
    if (line->rank)
        printf(".rank%" PRIu32, line->rank);
    printf(" line %zu: %zu values, hash %016" PRIx64 "\n", line->number, line->count, line->hash);
}

static void print_difference(const struct comparison *c, const struct difference *difference) {
    const struct line *a = difference->a, *b = difference->b;
    const struct place place = place_of(a);
    struct differing found;
    char text_a[48], text_b[48];
    const char *layer = strncmp(place.part, "layer", 5) == 0 ? place.part + 5 : "*";
    if (c->a->ranks > 1)
        printf("rank %" PRIu32 ": ", a->rank);
    printf("first difference: position %s, %s, operation %s, output %s", place.position, place.part, place.operation,
           place.output);
    if (strcmp(place.head, "-") != 0)
        printf(", head %s", place.head);
    printf(" (session %s)\n", place.session);
    print_place(c->a, a);
    print_place(c->b, b);
    if (compare_values(difference, &found))
        printf("  %zu of %zu values differ; the first is number %zu: %s in the first trace, %s in the second\n",
               found.count, a->count, found.index, value_text(a, found.a, text_a), value_text(b, found.b, text_b));
    else
        printf("  to see the values, repeat both runs with --trace-values %s:%s:%s\n", place.position, layer,
               place.operation);
}

static void print_headers(const struct comparison *c) {
    for (size_t i = 0; i < HEADERS; i++)
        if (i != HEADER_BACKEND && c->a->header[i] && c->b->header[i] && strcmp(c->a->header[i], c->b->header[i]) != 0)
            printf("note: %s is %s in the first trace and %s in the second\n", header_names[i], c->a->header[i],
                   c->b->header[i]);
}

static int print_text(const struct cli_command *command, const struct comparison *c) {
    print_headers(c);
    for (uint32_t r = 0; r < c->a->ranks; r++)
        if (c->first[r].a)
            print_difference(c, &c->first[r]);
    if (c->differing)
        printf("%" PRIu64 " of %" PRIu64 " outputs differ", c->differing, c->common);
    else
        printf("no difference in %" PRIu64 " outputs", c->common);
    if (c->only_a + c->only_b)
        printf("; %" PRIu64 " outputs are only in the first trace, %" PRIu64 " only in the second", c->only_a,
               c->only_b);
    putchar('\n');
    return cli_flush(command);
}

static int print_json(const struct cli_command *command, const struct comparison *c) {
    json_t *root = json_object(), *list = json_array();
    for (uint32_t r = 0; list && r < c->a->ranks; r++) {
        if (!c->first[r].a)
            continue;
        const struct place place = place_of(c->first[r].a);
        const char *const names[FIELDS] = {"session", "position", "part", "operation", "output", "head"};
        const char *const fields[FIELDS] = {place.session,   place.position, place.part,
                                            place.operation, place.output,   place.head};
        struct differing found;
        json_t *one = json_object();
        cli_json_set(one, "rank", json_integer(r));
        for (size_t i = 0; i < FIELDS; i++)
            cli_json_set(one, names[i], cli_json_text(fields[i], strlen(fields[i])));
        if (compare_values(&c->first[r], &found)) {
            cli_json_set(one, "index", json_integer((json_int_t)found.index));
            cli_json_set(one, "first_bits", json_integer(found.a));
            cli_json_set(one, "second_bits", json_integer(found.b));
        }
        cli_json_add(list, one);
    }
    cli_json_set(root, "common", json_integer((json_int_t)c->common));
    cli_json_set(root, "differing", json_integer((json_int_t)c->differing));
    cli_json_set(root, "only_first", json_integer((json_int_t)c->only_a));
    cli_json_set(root, "only_second", json_integer((json_int_t)c->only_b));
    cli_json_set(root, "first_differences", list);
    return cli_json_print(command, root, stdout);
}

static int compare_runs(const struct cli_command *command, struct run *a, struct run *b, bool json) {
    struct comparison c = {.a = a, .b = b};
    int status = read_run(command, a);
    if (status == KVC_OK)
        status = read_run(command, b);
    if (status != KVC_OK)
        return status;
    c.first = calloc(a->ranks, sizeof *c.first);
    if (!c.first)
        return cli_no_memory(command);
    compare(&c);
    if (c.common == 0)
        status = cli_error(command, KVC_INPUT,
                           "%s and %s: have no output in common; trace the same tokens with the same policy", a->path,
                           b->path);
    if (status == KVC_OK)
        status = json ? print_json(command, &c) : print_text(command, &c);
    free(c.first);
    return status == KVC_OK && c.differing ? KVC_DIFFERS : status;
}

int kvc_cli_trace(const struct cli_command *command, int argc, char **argv) {
    bool json = false;
    const struct cli_option options[] = {{CLI_GROUP, 0, "Output", NULL, NULL, NULL, 0, 0, NULL},
                                         {CLI_FLAG, 0, "json", NULL, "print JSON", &json, 0, 0, NULL},
                                         {.kind = CLI_END}};
    struct cli_words words = {NULL, 0};
    int status = cli_parse(command, options, argc, argv, &words);
    if (status == CLI_GO && (words.count != 3 || strcmp(words.items[0], "compare") != 0))
        status = cli_error(command, KVC_USAGE, "give compare and two files that --trace wrote");
    if (status == CLI_GO) {
        struct run *runs = calloc(2, sizeof *runs);
        if (!runs) {
            status = cli_no_memory(command);
        } else {
            runs[0].path = words.items[1];
            runs[1].path = words.items[2];
            status = compare_runs(command, &runs[0], &runs[1], json);
            run_free(&runs[0]);
            run_free(&runs[1]);
        }
        free(runs);
    }
    cli_words_free(&words);
    return status;
}
