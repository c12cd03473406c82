/* fields.c - the table of request fields, its parser, and the table printed for the documentation. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "serve/serve.h"

enum kind {
    FLAG,     /* bool */
    INTEGER,  /* int64_t */
    NUMBER,   /* double */
    STRING,   /* const char * */
    JSON,     /* json_t *; the code that uses it checks the type */
    REUSE,    /* int64_t: a value of enum serve_reuse */
    ANYTHING, /* any value is accepted and has no effect */
    NOTHING   /* unsupported: accepted only if the value requests nothing (fallback_text lists such words) */
};

#define C SERVE_COMPLETIONS
#define H SERVE_CHAT
#define T SERVE_TOKENIZE
#define D SERVE_DETOKENIZE
#define F SERVE_FORECAST
#define AT(member) offsetof(struct serve_values, member)
/* Initializes `kind` and `target` of a field that fills `member`. Several rows may fill one member, because defaults
 * and ranges differ by path. This is why the members are in struct serve_values and not in this table. */
#define VALUE(member)                                                                                                  \
    _Generic(((struct serve_values *)0)->member, bool: FLAG, int64_t: INTEGER, double: NUMBER, const char *: STRING,   \
             json_t *: JSON),                                                                                          \
        AT(member)
#define WIDE 9007199254740992.0 /* 2^53: JSON numbers are exact up to this value */

struct field {
    const char *name;
    enum kind kind;
    size_t target;
    unsigned where;
    double minimum, maximum;
    double fallback; /* default value */
    const char *fallback_text, *help;
};

static const struct field fields[] = {
    {"model", VALUE(model), C | H | T | D | F, 0, 0, 0, "the one served", "the model's name, as in /v1/models"},
    {"prompt", VALUE(prompt), C, 0, 0, 0, "must be given",
     "a text, an array of token ids, or an array of such prompts"},
    {"messages", VALUE(messages), H, 0, 0, 0, "must be given",
     "the conversation: objects with role and content, and with name, tool_calls or tool_call_id if the template reads "
     "these; content is a text or an array of {\"type\": \"text\", \"text\": ...}"},
    {"prompt", VALUE(prompt), F, 0, 0, 0, "none", "one prompt, as in completions"},
    {"messages", VALUE(messages), F, 0, 0, 0, "none", "the conversation, as in chat"},
    {"prompt_tokens", VALUE(prompt_tokens), F, 1, 2147483647, -1, "none",
     "the prompt's tokens; give one of prompt_tokens, messages and prompt"},
    {"max_tokens", VALUE(max_tokens), C | H | F, SERVE_NO_LIMIT, WIDE, SERVE_LENGTH_UNSAID, "--max-tokens",
     "maximum tokens of an answer, within the limits of the context, --mem and --tokens; -1: no other limit"},
    {"max_completion_tokens", VALUE(max_tokens), C | H | F, SERVE_NO_LIMIT, WIDE, SERVE_LENGTH_UNSAID, "--max-tokens",
     "another name for max_tokens"},
    {"n", VALUE(n), C | H, 1, SERVE_CHOICES_MOST, 1, "1", "number of answers to each prompt; answer i uses seed + i"},
    {"temperature", VALUE(temperature), C | H, 0, 100, 1, "1", "sampling temperature; 0: always the most likely token"},
    {"top_p", VALUE(top_p), C | H, 0, 1, 1, "1",
     "samples from the most likely tokens whose probabilities add up to this value, which must be above 0; 1: off"},
    {"top_k", VALUE(top_k), C | H, -1, 2147483647, 0, "0",
     "samples from this many of the most likely tokens; 0, -1: off"},
    {"min_p", VALUE(min_p), C | H, 0, 1, 0, "0", "minimum probability relative to the most likely token; 0: off"},
    {"repeat_penalty", VALUE(repeat_penalty), C | H, 0.01, 100, 1, "1", "makes the last 64 tokens less likely; 1: off"},
    {"frequency_penalty", VALUE(frequency_penalty), C | H, -2, 2, 0, "0",
     "subtracted from a token's logit for each of its occurrences in the answer"},
    {"presence_penalty", VALUE(presence_penalty), C | H, -2, 2, 0, "0",
     "subtracted from the logit of a token that occurs in the answer"},
    {"seed", VALUE(seed), C | H, -1, WIDE, 0, "0",
     "seed of the random numbers: the same seed gives the same answer; -1: the default"},
    {"stop", VALUE(stop), C | H, 0, 0, 0, "none",
     "a text before which an answer ends, or an array of up to 16 such texts; empty texts are ignored"},
    {"stream", VALUE(stream), C | H, 0, 0, 0, "false", "streams the answer as server-sent events"},
    {"stream_options", VALUE(stream_options), C | H, 0, 0, 0, "none",
     "{\"include_usage\": true}: adds a last event with the usage"},
    {"logit_bias", VALUE(logit_bias), C | H, 0, 0, 0, "none",
     "an object that maps up to 1024 token ids to numbers from -100 to 100, which are added to their logits"},
    {"logprobs", VALUE(logprobs), C, 0, SERVE_TOP_MOST, -1, "none",
     "returns log probabilities of the answer's tokens and of this many alternatives"},
    {"logprobs", VALUE(chat_logprobs), H, 0, 0, 0, "false", "returns log probabilities of the answer's tokens"},
    {"top_logprobs", VALUE(top_logprobs), H, 0, SERVE_TOP_MOST, 0, "0",
     "with logprobs: returns this many of the most likely alternatives"},
    {"echo", VALUE(echo), C, 0, 0, 0, "false", "puts the prompt in front of the answer, with the prompt's logprobs"},
    {"kvs", VALUE(kvs), F, 0, 0, 0, "none", "an array of up to 64 policies, instead of kv"},
    {"kv", VALUE(kv), C | H | F, 0, 0, 0, "--kv",
     "the cache's policy, as in --kv of kvcull run; options with file names are refused"},
    {"cache_prompt", REUSE, AT(cache_prompt), C | H, 0, 0, SERVE_UNSAID,
     "true with policies that neither evict nor select",
     "continues the cached session of an earlier request if this one begins with its tokens; \"fork\": continues a "
     "copy and leaves the cached session unchanged"},
    {"tools", VALUE(tools), H | F, 0, 0, 0, "none",
     "an array of functions that the model may call: {\"type\": \"function\", \"function\": {\"name\", "
     "\"description\", "
     "\"parameters\": a JSON schema}}"},
    {"tool_choice", VALUE(tool_choice), H | F, 0, 0, 0, "auto",
     "none: no calls; auto: the model decides; required: the answer is one call or more; {\"type\": \"function\", "
     "\"function\": {\"name\"}}: a call of this function"},
    {"parallel_tool_calls", VALUE(parallel_tool_calls), H, 0, 0, 1, "true",
     "false: an answer has at most one call; if the model writes several, only the first counts"},
    {"response_format", VALUE(response_format), C | H, 0, 0, 0, "any text",
     "the answer's form: {\"type\": \"json_object\"}: a JSON object; {\"type\": \"json_schema\", \"json_schema\": "
     "{\"schema\": ...}}: JSON that is valid under the schema; {\"type\": \"text\"}: any text"},
    {"json_schema", VALUE(json_schema), C | H, 0, 0, 0, "none",
     "a JSON schema; the answer is JSON that is valid under it"},
    {"regex", VALUE(regex), C | H, 0, 0, 0, "none",
     "a PCRE2 regular expression that the whole answer matches; empty: none"},
    {"grammar", VALUE(grammar), C | H, 0, 0, 0, "none",
     "a grammar in llama.cpp's format, GBNF, that the answer follows; empty: none"},
    {"guided_json", VALUE(guided_json), C | H, 0, 0, 0, "none", "another name for json_schema"},
    {"guided_regex", VALUE(guided_regex), C | H, 0, 0, 0, "none", "another name for regex"},
    {"guided_grammar", VALUE(guided_grammar), C | H, 0, 0, 0, "none", "another name for grammar"},
    {"guided_choice", VALUE(guided_choice), C | H, 0, 0, 0, "none", "an array of texts; the answer is one of them"},
    {"structured_outputs", VALUE(structured_outputs), C | H, 0, 0, 0, "none",
     "an object with one of json (as json_schema), regex, grammar, choice (as guided_choice) or \"json_object\": true"},
    {"ignore_eos", VALUE(ignore_eos), C | H, 0, 0, 0, "false",
     "continues past the model's end token; has no effect with a grammar or a required call"},
    {"return_token_ids", VALUE(return_token_ids), C | H, 0, 0, 0, "false",
     "adds `token_ids`, the answer's token ids, to each choice"},
    {"return_held", VALUE(return_held), C | H, 0, 0, 0, "false",
     "adds `held` to each choice: for each token of prompt and answer, the percentage of the cache's lists that hold "
     "it; `prompt_pieces` and `pieces` are the tokens' texts"},
    {"return_lost", VALUE(return_lost), C | H, 0, 0, 0, "false",
     "adds `lost` and `layers` to each choice when it ends. `lost` is, for each token, 0 if the cache still holds it; "
     "otherwise it is the number of tokens that the session had computed when no list held the token any more. "
     "`layers` says what part of each layer's lists holds the token"},
    {"return_progress", VALUE(return_progress), C | H, 0, 0, 0, "false",
     "in a stream, adds chunks with `prompt_progress` while the prompt is computed. `total`, `cache` (taken from a "
     "cached session) and `processed` are numbers of tokens; `time_ms` is the time so far"},
    {"logits_hash", VALUE(logits_hash), C | H, 0, 0, 0, "false",
     "adds `logits_hash` to each choice: the XXH64 of all logits from which its tokens were chosen"},
    {"chat_template_kwargs", VALUE(template_values), H | F, 0, 0, 0, "none",
     "further variables for the template, as an object: {\"enable_thinking\": false}"},
    {"special_content", VALUE(special_content), H | F, 0, 0, 0, "false",
     "parses control tokens in messages and variables. Use it only with trusted texts: a control token can end a turn "
     "and begin another"},
    {"special", VALUE(special), C | T | F, 0, 0, 1, "true",
     "parses control tokens in the text, such as <|im_end|>; false: they are plain text"},
    {"reasoning_effort", VALUE(reasoning_effort), H | F, 0, 0, 0, "none", "a variable for the template"},
    {"reasoning_format", VALUE(reasoning_format), H, 0, 0, 0, "auto",
     "auto or deepseek: the model's thoughts are in `reasoning_content`; none: they stay in `content`"},
    {"content", VALUE(content), T, 0, 0, 0, "must be given", "the text"},
    {"add_special", VALUE(add_special), T, 0, 0, 0, "false", "puts the model's prefix, such as BOS, in front"},
    {"with_pieces", VALUE(pieces), T, 0, 0, 0, "false", "returns each token as an object with id and piece"},
    {"tokens", VALUE(tokens), D, 0, 0, 0, "must be given", "an array of token ids"},
    {"metadata", ANYTHING, 0, C | H, 0, 0, 0, "", ""},
    {"prompt_cache_key", ANYTHING, 0, C | H, 0, 0, 0, "", ""},
    {"safety_identifier", ANYTHING, 0, C | H, 0, 0, 0, "", ""},
    {"service_tier", ANYTHING, 0, C | H, 0, 0, 0, "", ""},
    {"store", ANYTHING, 0, C | H, 0, 0, 0, "", ""},
    {"user", ANYTHING, 0, C | H | T | D | F, 0, 0, 0, "", ""},
    {"best_of", NOTHING, 0, C, 1, 1, 0, "1", ""},
    {"suffix", NOTHING, 0, C, 0, 0, 0, "", ""},
    {"functions", NOTHING, 0, H, 0, 0, 0, "", ""},
    {"function_call", NOTHING, 0, H, 0, 0, 0, "none|auto", ""},
    {"modalities", NOTHING, 0, H, 0, 0, 0, "text", ""},
    {"audio", NOTHING, 0, H, 0, 0, 0, "", ""},
    {"prediction", NOTHING, 0, H, 0, 0, 0, "", ""},
    {"web_search_options", NOTHING, 0, H, 0, 0, 0, "", ""},
    /* fields of other servers that would change the answer */
    {"min_tokens", NOTHING, 0, C | H, 0, 0, 0, "0", ""},
    {"top_a", NOTHING, 0, C | H, 0, 0, 0, "0", ""}};
enum { FIELDS = sizeof fields / sizeof *fields };

static const struct field *fields_find(const char *name, enum serve_where where) {
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
    case ANYTHING:
    case NOTHING:
        break;
    }
}

static bool fields_refuse(struct serve_error *error, const struct field *field, const char *what) {
    return serve_refuse(error, 400, SERVE_INVALID, field->name, NULL, "%s: must be %s", field->name, what);
}

static bool refuse_range(struct serve_error *error, const struct field *field, const char *kind) {
    return serve_refuse(error, 400, SERVE_INVALID, field->name, NULL, "%s: must be %s from %.16g to %.16g", field->name,
                        kind, field->minimum, field->maximum);
}

/* Returns true if a value is an empty text or one of `words`, which are separated by '|'. */
static bool is_word(const json_t *value, const char *words) {
    const size_t length = json_string_length(value);
    for (const char *at = json_is_string(value) ? words : NULL; at && length > 0; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == length && memcmp(at, json_string_value(value), length) == 0)
            return true;
    }
    return json_is_string(value) && length == 0;
}

/* Returns true if the value of an unsupported field requests nothing: one of the field's words, an array of such words,
 * or an object whose type is such a word. */
static bool asks_nothing(const struct field *field, const json_t *value) {
    const char *words = field->fallback_text;
    bool nothing = json_is_array(value);
    for (size_t i = 0; i < json_array_size(value); i++)
        nothing = nothing && is_word(json_array_get(value, i), words);
    if (json_is_number(value))
        return json_number_value(value) == field->minimum;
    return nothing || json_is_false(value) || is_word(value, words) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_object_size(value) == 1 && is_word(json_object_get(value, "type"), words));
}

static bool read_integer(const struct field *field, json_t *value, int64_t *target, struct serve_error *error) {
    /* accepts 1.0, which some clients send */
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
            return fields_refuse(error, field, "true or false");
        *(bool *)target = json_is_true(value);
        return true;
    case REUSE:
        if (!json_is_boolean(value) && !(json_is_string(value) && strcmp(json_string_value(value), "fork") == 0))
            return fields_refuse(error, field, "true, false or \"fork\"");
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
            return fields_refuse(error, field, "a text");
        *(const char **)target = json_string_value(value);
        return true;
    case JSON:
        *(json_t **)target = value;
        return true;
    case NOTHING:
        return asks_nothing(field, value) ||
               serve_refuse(error, 400, SERVE_INVALID, field->name, "unsupported_parameter",
                            "%s: not supported here; leave it out", field->name);
    case ANYTHING:
        break;
    }
    return true;
}

/* ---- names ---- */

/* Removes '-' and '_' and converts to lower case, so that maxTokens and max-tokens match max_tokens. */
static void squeeze(const char *name, char squeezed[40]) {
    size_t n = 0;
    for (; *name && n < 39; name++)
        if (*name != '_' && *name != '-')
            squeezed[n++] = (char)(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
    squeezed[n] = '\0';
}

const char *serve_meant(const char *name, const char *const *names) {
    char word[40], other[40];
    const char *meant = NULL;
    squeeze(name, word);
    const size_t length = strlen(word);
    struct kvc_nearest nearest = kvc_nearest(word, length);
    nearest.edits = length < 6 ? 2 : 3;
    for (; strlen(name) < sizeof word && *names; names++) {
        squeeze(*names, other);
        const size_t bytes = strlen(other), edits = nearest.edits;
        if (bytes > length + 2 || length > bytes + 2 ||
            bytes < 2) /* a much shorter or much longer word is not a misspelling */
            continue;
        kvc_nearest_try(&nearest, other, bytes);
        if (nearest.edits < edits)
            meant = *names;
    }
    return meant;
}

/* Adds an unknown name to the list of ignored fields. Refuses it with --strict, or if it looks like a misspelling. */
static bool ignore(const char *name, enum serve_where where, const struct serve_options *options, char ignored[200],
                   struct serve_error *error) {
    const char *names[FIELDS + 1];
    char clean[60];
    size_t count = 0;
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].where & where)
            names[count++] = fields[i].name;
    names[count] = NULL;
    kvc_printable(name, strlen(name), clean, sizeof clean);
    const char *meant = serve_meant(name, names);
    if (meant || options->strict)
        return serve_refuse(error, 400, SERVE_INVALID, clean, "unsupported_parameter", "%s: not supported here%s%s",
                            clean, meant ? "; did you mean " : "", meant ? meant : "");
    const size_t used = strlen(ignored);
    if (used + strlen(clean) + 3 < 200)
        snprintf(ignored + used, 200 - used, "%s%s", used ? ", " : "", clean);
    return true;
}

/* Returns true if null has a meaning in a member of this name: templates can test for it, and schemas can require
 * it. */
static bool has_nulls(const char *name) {
    static const char *const names[] = {"arguments",   "chat_template_kwargs", "response_format",   "tools",
                                        "json_schema", "guided_json",          "structured_outputs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Removes null members. Keeps a message's null content, and nulls within the members that has_nulls names. */
static void drop_nulls(json_t *value) {
    const char *name;
    json_t *member;
    void *next;
    size_t i;
    json_object_foreach_safe(value, next, name, member) {
        if (json_is_null(member) && strcmp(name, "content") != 0)
            (void)json_object_del(value, name);
        else if (!has_nulls(name))
            drop_nulls(member);
    }
    json_array_foreach(value, i, member) drop_nulls(member);
}

static bool check_given(enum serve_where where, const struct serve_values *values, struct serve_error *error) {
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

bool serve_fields_read(json_t *body, enum serve_where where, const struct serve_options *options,
                       struct serve_values *values, struct serve_error *error) {
    char ignored[200] = "";
    const char *name;
    json_t *value;
    drop_nulls(body);
    memset(values, 0, sizeof *values);
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].where & where)
            set_default(&fields[i], values);
    json_object_foreach(body, name, value) {
        const struct field *field = fields_find(name, where);
        if (!(field ? read_value(field, value, values, error) : ignore(name, where, options, ignored, error)))
            return false;
    }
    if (!check_given(where, values, error))
        return false;
    if (ignored[0] && !options->common.quiet)
        fprintf(stderr, "kvcull serve: ignored unknown fields of a request: %s\n", ignored);
    return true;
}

/* ---- the table for the documentation ---- */

static const char *kind_name(enum kind kind) {
    static const char *const names[] = {"true or false", "whole number", "number",
                                        "text",          "JSON",         "true, false or \"fork\""};
    return names[kind];
}

static void print_field(FILE *stream, const struct field *field) {
    static const char *const places[] = {"completions", "chat", "tokenize", "detokenize", "forecast"};
    const char *comma = "";
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

/* Prints the names of one kind, each with its accepted words. */
static void print_names(FILE *stream, enum kind kind, const char *title) {
    const char *before = "";
    fprintf(stream, "\n%s:", title);
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].kind != kind)
            continue;
        fprintf(stream, "%s `%s`", before, fields[i].name);
        before = ",";
        if (fields[i].fallback_text[0] == '\0')
            continue;
        const char *bar = strchr(fields[i].fallback_text, '|');
        fprintf(stream, " (%.*s", (int)strcspn(fields[i].fallback_text, "|"), fields[i].fallback_text);
        fprintf(stream, "%s%s)", bar ? ", " : "", bar ? bar + 1 : "");
    }
    fprintf(stream, ".\n");
}

void serve_fields_print(FILE *stream) {
    fprintf(stream, "| field | paths | type | default | purpose |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].kind != ANYTHING && fields[i].kind != NOTHING)
            print_field(stream, &fields[i]);
    print_names(stream, ANYTHING, "Accepted without effect");
    print_names(stream, NOTHING, "Refused unless null, false, empty or a value in parentheses");
}
