/* fields.c - the table of the fields of requests, what reads it, and what prints it for the documentation. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "serve/serve.h"

enum kind {
    FLAG,    /* bool */
    INTEGER, /* int64_t */
    NUMBER,  /* double */
    STRING,  /* const char * */
    JSON,    /* json_t *, whatever it is: its reader looks further */
    REUSE,   /* int64_t: an enum serve_reuse */
    EMPTY    /* known, but not supported: taken only where it asks for nothing */
};

#define C SERVE_COMPLETIONS
#define H SERVE_CHAT
#define T SERVE_TOKENIZE
#define D SERVE_DETOKENIZE
#define AT(member) offsetof(struct serve_values, member)
#define WIDE 9007199254740992.0 /* 2^53: whole numbers that JSON carries */

struct field {
    const char *name;
    enum kind kind;
    unsigned where;
    size_t target;
    double minimum, maximum;
    double fallback; /* where it is not given */
    const char *fallback_text, *help;
};

static const struct field fields[] = {
    {"model", STRING, C | H | T | D, AT(model), 0, 0, 0, "the one served", "its name, as /v1/models says it"},
    {"prompt", JSON, C, AT(prompt), 0, 0, 0, "must be given",
     "a text, an array of token ids, or an array of such prompts"},
    {"messages", JSON, H, AT(messages), 0, 0, 0, "must be given",
     "the conversation: objects with role and content, and name, tool_calls or tool_call_id where the template reads "
     "them; content is a text or an array of {\"type\": \"text\", \"text\": ...}"},
    {"max_tokens", INTEGER, C | H, AT(max_tokens), 0, 2147483647, -1, "256", "tokens of an answer at most"},
    {"max_completion_tokens", INTEGER, H, AT(max_tokens), 0, 2147483647, -1, "256", "another name for max_tokens"},
    {"n", INTEGER, C | H, AT(n), 1, SERVE_CHOICES_MOST, 1, "1",
     "answers to each prompt; answer i is drawn with the seed plus i"},
    {"temperature", NUMBER, C | H, AT(temperature), 0, 100, 1, "1", "0: always the likeliest token"},
    {"top_p", NUMBER, C | H, AT(top_p), 0, 1, 1, "1", "only the likeliest tokens that sum up to it, above 0; 1: off"},
    {"top_k", INTEGER, C | H, AT(top_k), 0, 2147483647, 0, "0", "only so many likeliest tokens; 0: off"},
    {"min_p", NUMBER, C | H, AT(min_p), 0, 1, 0, "0",
     "only tokens at least so many times as likely as the likeliest; 0: off"},
    {"repeat_penalty", NUMBER, C | H, AT(repeat_penalty), 0.01, 100, 1, "1",
     "makes the last 64 tokens less likely; 1: off"},
    {"seed", INTEGER, C | H, AT(seed), 0, WIDE, 0, "0", "of the random numbers: the same seed, the same answer"},
    {"stop", JSON, C | H, AT(stop), 0, 0, 0, "none", "a text that ends an answer before it, or an array of up to 16"},
    {"stream", FLAG, C | H, AT(stream), 0, 0, 0, "false", "send the answer as it comes, as server-sent events"},
    {"stream_options", JSON, C | H, AT(stream_options), 0, 0, 0, "none",
     "{\"include_usage\": true}: a last event with the usage"},
    {"logit_bias", JSON, C | H, AT(logit_bias), 0, 0, 0, "none",
     "an object of token ids with what is added to their logits, -100 to 100; of up to 1024 tokens"},
    {"logprobs", INTEGER, C, AT(logprobs), 0, SERVE_TOP_MOST, -1, "none",
     "log probabilities of the tokens, and of so many of the likeliest"},
    {"logprobs", FLAG, H, AT(chat_logprobs), 0, 0, 0, "false", "log probabilities of the tokens"},
    {"top_logprobs", INTEGER, H, AT(top_logprobs), 0, SERVE_TOP_MOST, 0, "0",
     "with logprobs: those of so many of the likeliest tokens"},
    {"echo", FLAG, C, AT(echo), 0, 0, 0, "false", "put the prompt in front of the answer, with its logprobs"},
    {"user", STRING, C | H, AT(user), 0, 0, 0, "none", "taken, of no effect: who asks"},
    {"kv", STRING, C | H, AT(kv), 0, 0, 0, "--kv", "the cache's policy, as in --kv of kvcull run, but without files"},
    {"cache_prompt", REUSE, C | H, AT(cache_prompt), 0, 0, SERVE_UNSAID, "true with policies that evict nothing",
     "go on from the session of an earlier request whose tokens this one begins with; \"fork\": from a copy of it, "
     "which "
     "leaves it as it was"},
    {"ignore_eos", FLAG, C | H, AT(ignore_eos), 0, 0, 0, "false", "do not end an answer at the model's end token"},
    {"return_token_ids", FLAG, C | H, AT(return_token_ids), 0, 0, 0, "false",
     "add token_ids, those of the answer, to each choice"},
    {"return_held", FLAG, C | H, AT(return_held), 0, 0, 0, "false",
     "add held to each choice: for each token so far, the prompt's first, the percentage of the cache's lists that "
     "hold "
     "it; prompt_pieces and pieces are the tokens' texts"},
    {"logits_hash", FLAG, C | H, AT(logits_hash), 0, 0, 0, "false",
     "add logits_hash to each choice: XXH64 of all logits that its tokens were chosen from"},
    {"chat_template_kwargs", JSON, H, AT(template_values), 0, 0, 0, "none",
     "an object of more variables for the template, as {\"enable_thinking\": false}"},
    {"special_content", FLAG, H, AT(special_content), 0, 0, 0, "false",
     "control tokens written in messages and variables are control tokens, too: whoever wrote them can end a turn and "
     "begin another"},
    {"special", FLAG, C | T, AT(special), 0, 0, 1, "true",
     "control tokens written in the text, as <|im_end|>, are tokens; false: plain text"},
    {"content", STRING, T, AT(content), 0, 0, 0, "must be given", "the text"},
    {"add_special", FLAG, T, AT(add_special), 0, 0, 0, "false", "put in front what the model wants there, as its BOS"},
    {"with_pieces", FLAG, T, AT(pieces), 0, 0, 0, "false", "each token as an object with id and piece"},
    {"tokens", JSON, D, AT(tokens), 0, 0, 0, "must be given", "an array of token ids"},
    {"best_of", EMPTY, C, 0, 1, 1, 0, "1", ""},
    {"frequency_penalty", EMPTY, C | H, 0, 0, 0, 0, "0", ""},
    {"presence_penalty", EMPTY, C | H, 0, 0, 0, 0, "0", ""},
    {"suffix", EMPTY, C, 0, 0, 0, 0, "null", ""},
    {"tools", EMPTY, H, 0, 0, 0, 0, "[]", ""},
    {"store", EMPTY, H, 0, 0, 0, 0, "false", ""},
    {"metadata", EMPTY, H, 0, 0, 0, 0, "{}", ""}};
enum { FIELDS = sizeof fields / sizeof *fields };

static const struct field *find(const char *name, enum serve_where where) {
    for (size_t i = 0; i < FIELDS; i++)
        if ((fields[i].where & where) && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static void set_default(const struct field *field, struct serve_values *values) {
    void *target = (char *)values + field->target;
    switch (field->kind) {
    case FLAG:
        *(bool *)target = field->fallback != 0;
        break;
    case INTEGER:
    case REUSE:
        *(int64_t *)target = (int64_t)field->fallback;
        break;
    case NUMBER:
        *(double *)target = field->fallback;
        break;
    case STRING:
        *(const char **)target = NULL;
        break;
    case JSON:
        *(json_t **)target = NULL;
        break;
    case EMPTY:
        break;
    }
}

static bool refuse(struct serve_error *error, const struct field *field, const char *what) {
    return serve_refuse(error, 400, SERVE_INVALID, field->name, NULL, "%s: must be %s", field->name, what);
}

static bool refuse_range(struct serve_error *error, const struct field *field, const char *kind) {
    return serve_refuse(error, 400, SERVE_INVALID, field->name, NULL, "%s: must be %s from %.16g to %.16g", field->name,
                        kind, field->minimum, field->maximum);
}

/* Whether a value that is not supported asks for nothing. */
static bool asks_nothing(const struct field *field, const json_t *value) {
    if (json_is_number(value))
        return json_number_value(value) == field->minimum && field->minimum == field->maximum;
    return json_is_null(value) || json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static bool read_integer(const struct field *field, json_t *value, int64_t *target, struct serve_error *error) {
    /* a number with a point is taken where it is whole: some clients send 1.0 */
    const double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= field->minimum && number <= field->maximum) || number != floor(number))
        return refuse_range(error, field, "a whole number");
    *target = json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)number;
    return true;
}

static bool read_value(const struct field *field, json_t *value, struct serve_values *values,
                       struct serve_error *error) {
    void *target = (char *)values + field->target;
    switch (field->kind) {
    case FLAG:
        if (!json_is_boolean(value))
            return refuse(error, field, "true or false");
        *(bool *)target = json_is_true(value);
        return true;
    case REUSE:
        if (!json_is_boolean(value) && !(json_is_string(value) && strcmp(json_string_value(value), "fork") == 0))
            return refuse(error, field, "true, false or \"fork\"");
        *(int64_t *)target = json_is_string(value) ? SERVE_FORK : json_is_true(value) ? SERVE_GO_ON : SERVE_ANEW;
        return true;
    case INTEGER:
        return read_integer(field, value, target, error);
    case NUMBER:
        if (!json_is_number(value) || !(json_number_value(value) >= field->minimum) ||
            !(json_number_value(value) <= field->maximum))
            return refuse_range(error, field, "a number");
        *(double *)target = json_number_value(value);
        return true;
    case STRING:
        if (!json_is_string(value))
            return refuse(error, field, "a text");
        *(const char **)target = json_string_value(value);
        return true;
    case JSON:
        *(json_t **)target = value;
        return true;
    case EMPTY:
        break;
    }
    return true;
}

/* What a mistyped name may have meant, for the error. */
static bool refuse_name(const char *name, enum serve_where where, struct serve_error *error) {
    const char *names[FIELDS + 1];
    char clean[60];
    size_t count = 0;
    for (size_t i = 0; i < FIELDS; i++)
        if ((fields[i].where & where) && fields[i].kind != EMPTY)
            names[count++] = fields[i].name;
    names[count] = NULL;
    kvc_printable(name, strlen(name), clean, sizeof clean);
    const char *near = cli_nearest(clean, names);
    return serve_refuse(error, 400, SERVE_INVALID, clean, "unsupported_parameter", "%s: not supported here%s%s", clean,
                        near ? "; did you mean " : "", near ? near : "");
}

bool serve_fields_read(json_t *body, enum serve_where where, struct serve_values *values, struct serve_error *error) {
    const char *name;
    json_t *value;
    memset(values, 0, sizeof *values);
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].where & where)
            set_default(&fields[i], values);
    json_object_foreach(body, name, value) {
        const struct field *field = find(name, where);
        if (!field)
            return refuse_name(name, where, error);
        if (field->kind == EMPTY && !asks_nothing(field, value))
            return serve_refuse(error, 400, SERVE_INVALID, name, "unsupported_parameter",
                                "%s: not supported here; leave it out", name);
        if (field->kind != EMPTY && !json_is_null(value) && !read_value(field, value, values, error))
            return false;
    }
    for (size_t i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        const void *target = (const char *)values + field->target;
        const bool must = (field->where & where) && strcmp(field->fallback_text, "must be given") == 0;
        if (must && !(field->kind == STRING ? *(const char *const *)target != NULL : *(json_t *const *)target != NULL))
            return serve_refuse(error, 400, SERVE_INVALID, field->name, "missing_required_parameter",
                                "%s: must be given", field->name);
    }
    return true;
}

/* ---- the table for the documentation ---- */

static const char *kind_name(enum kind kind) {
    static const char *const names[] = {
        "true or false", "whole number", "number", "text", "JSON", "true, false or \"fork\"", ""};
    return names[kind];
}

void serve_fields_print(FILE *stream) {
    static const char *const places[] = {"completions", "chat", "tokenize", "detokenize"};
    fprintf(stream, "| field | where | is | default | what it does |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        const char *comma = "";
        if (field->kind == EMPTY)
            continue;
        fprintf(stream, "| `%s` | ", field->name);
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            if (field->where & (1u << p)) {
                fprintf(stream, "%s%s", comma, places[p]);
                comma = ", ";
            }
        fprintf(stream, " | %s", kind_name(field->kind));
        if (field->kind == INTEGER || field->kind == NUMBER)
            fprintf(stream, ", %.16g to %.16g", field->minimum, field->maximum);
        fprintf(stream, " | %s | %s |\n", field->fallback_text, field->help);
    }
    fprintf(stream, "\nTaken only where they ask for nothing:");
    for (size_t i = 0, n = 0; i < FIELDS; i++)
        if (fields[i].kind == EMPTY)
            fprintf(stream, "%s `%s` (%s)", n++ ? "," : "", fields[i].name, fields[i].fallback_text);
    fprintf(stream, ".\n");
}
