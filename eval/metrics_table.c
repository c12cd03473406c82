/* metrics_table.c - F1 of table rows, for LongProc's html_to_tsv (github.com/princeton-pli/LongProc,
 * longproc/html_to_tsv_evaluator.py). Parses fields like Python's csv module and compares complete rows, in any order.
 */
#include "eval/metrics.h"

#include <string.h>

#include "cli/cli.h"

struct table {
    struct eval_words *rows; /* [count]: the first is the header */
    size_t count;
};

struct reader { /* the current field, and the fields of the current row */
    struct eval_pool *pool;
    struct eval_codes field;
    struct eval_words row;
};

static void end_field(struct reader *reader) {
    int32_t *items = eval_pool_take(reader->pool, reader->field.count, sizeof *items);
    for (size_t i = 0; items && i < reader->field.count; i++)
        items[i] = reader->field.items[i];
    reader->row.items[reader->row.count++] = (struct eval_codes){items, items ? reader->field.count : 0};
    reader->field.count = 0;
}

static bool only_returns(struct eval_codes text) {
    size_t n = 0;
    while (n < text.count && text.items[n] == '\r')
        n++;
    return n == text.count;
}

/* Reads a line's fields. *quoted says whether the line's start, and on return its end, is inside quotation marks.
 * Returns false if the line contains a carriage return, which the csv module rejects. */
static bool read_line(struct reader *reader, struct eval_codes line, bool *quoted) {
    bool fresh = !*quoted, closed = false; /* the field is empty so far; its quotation is closed */
    for (size_t i = 0; i < line.count; i++) {
        const int32_t c = line.items[i];
        if (*quoted) {
            if (c == '"') {
                *quoted = false;
                closed = true;
            } else {
                reader->field.items[reader->field.count++] = c;
            }
        } else if (c == '\t') {
            end_field(reader);
            fresh = true;
            closed = false;
        } else if (c == '\r') { /* part of the line end, if only carriage returns follow */
            return only_returns(eval_codes_from(line, i));
        } else if (c == '"' && (fresh || closed)) { /* an opening mark, or the second of two marks inside */
            if (closed)
                reader->field.items[reader->field.count++] = c;
            *quoted = true;
            fresh = closed = false;
        } else {
            reader->field.items[reader->field.count++] = c;
            fresh = closed = false;
        }
    }
    return true;
}

/* Returns the rows. An empty line is a row without fields. count 0: not a table. */
static struct table read_rows(struct eval_pool *pool, struct eval_codes text) {
    const struct eval_words lines = eval_words_cut(pool, text, '\n');
    struct table table = {eval_pool_take(pool, lines.count, sizeof(struct eval_words)), 0};
    struct eval_codes *fields = eval_pool_take(pool, text.count + lines.count, sizeof *fields); /* of all rows */
    struct reader reader = {pool, {eval_pool_take(pool, text.count, sizeof(int32_t)), 0}, {fields, 0}};
    bool quoted = false;
    for (size_t i = 0; i < lines.count && !pool->lost; i++) {
        if (!read_line(&reader, lines.items[i], &quoted))
            return (struct table){NULL, 0};
        if (quoted && i + 1 < lines.count)
            continue;
        if (!only_returns(lines.items[i]) || reader.field.count > 0 || reader.row.count > 0)
            end_field(&reader);
        table.rows[table.count++] = reader.row;
        reader.row = (struct eval_words){reader.row.items + reader.row.count, 0};
    }
    return table;
}

/* Converts to lower case and removes punctuation, articles and blanks. */
static struct eval_codes normal(struct eval_pool *pool, struct eval_codes field) {
    return eval_words_join(pool, eval_words_normal(pool, field, eval_articles, 0), 0);
}

static const char missing[] = "N/A";

/* Reads the rows after the header. A row of another width becomes "N/A" in every column; if it is the last row, it is
 * removed instead. Returns false if the script does not accept the table. */
static bool read_table(struct eval_pool *pool, const char *text, struct table *table) {
    *table = read_rows(pool, eval_codes_strip(eval_codes_read(pool, text)));
    if (pool->lost || table->count < 2)
        return false;
    const struct eval_words header = table->rows[0];
    table->rows++;
    table->count--;
    if (table->rows[table->count - 1].count != header.count)
        table->count--;
    for (size_t i = 0; i < header.count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (eval_codes_equal(header.items[i], header.items[j]))
                return false; /* duplicate column name */
        }
    }
    for (size_t r = 0; r < table->count; r++) {
        struct eval_words *row = &table->rows[r];
        const bool whole = row->count == header.count;
        if (!whole)
            *row = (struct eval_words){eval_pool_take(pool, header.count, sizeof(struct eval_codes)), header.count};
        if (pool->lost)
            return false;
        for (size_t c = 0; c < row->count; c++)
            row->items[c] = normal(pool, whole ? row->items[c] : eval_codes_read(pool, missing));
    }
    return table->count > 0 && header.count > 0;
}

static bool same_row(struct eval_words a, struct eval_words b) {
    for (size_t i = 0; i < a.count; i++) {
        if (!eval_codes_equal(a.items[i], b.items[i]))
            return false;
    }
    return true;
}

/* Returns the share of a's rows that b contains. */
static double metrics_table_share(const struct table *a, const struct table *b) {
    size_t found = 0;
    for (size_t i = 0; i < a->count; i++) {
        bool there = false;
        for (size_t j = 0; j < b->count && !there; j++)
            there = same_row(a->rows[i], b->rows[j]);
        found += there;
    }
    return (double)found / (double)a->count;
}

/* Returns the text between ```tsv and the last ```. Without the closing fence, returns everything after the opening
 * one; without both, the whole answer. The pool owns the result. */
static const char *inside_fence(struct eval_pool *pool, const char *answer) {
    static const char open[] = "```tsv", close[] = "```";
    const char *start = strstr(answer, open), *end = NULL;
    if (!start)
        return answer;
    start += sizeof open - 1;
    for (const char *at = strstr(start, close); at; at = strstr(at + 1, close))
        end = at;
    if (!end) {
        return start;
    }
    char *text = eval_pool_take(pool, (size_t)(end - start) + 1, 1);
    for (const char *at = start; text && at < end; at++)
        text[at - start] = *at;
    return text ? text : "";
}

double eval_table(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    struct table a, t;
    double score = 0;
    if (read_table(&pool, inside_fence(&pool, answer), &a) && read_table(&pool, truth, &t) &&
        a.rows[0].count == t.rows[0].count) {
        const double precision = metrics_table_share(&a, &t), recall = metrics_table_share(&t, &a);
        score = precision + recall > 0 ? 2 * recall * precision / (recall + precision) : 0;
    }
    return eval_pool_score(&pool, score);
}
