/* steps.c - reads the normalizer, pre-tokenizer, decoder and post-processor of tokenizer.json. */
#include "models/tokenizer/json.h"

#include <stdlib.h>
#include <string.h>

/* The characters of \w, as in kvc_is_word, for use inside a class. */
#define WORD                                                                                                           \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
    "\\x{1f170}-\\x{1f189}"
#define MOST_DEPTH 8 /* limit of nested sequences */

static const char *type_of(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "";
}

static bool flag_or(const json_t *object, const char *key, bool defaults) {
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : defaults;
}

static char *copy_text(const char *text, size_t bytes) {
    char *copy = malloc(bytes + 1);
    if (copy) {
        if (bytes)
            memcpy(copy, text, bytes);
        copy[bytes] = 0;
    }
    return copy;
}

static enum kvc_status unsupported(const char *path, const char *part, const char *type, struct kvc_error *error) {
    return kvc_fail(error, KVC_INPUT, "%s: %s \"%.60s\" is not supported", path, part, type);
}

/* Reads {"String": "..."} or {"Regex": "..."}. */
static enum kvc_status read_pattern(const json_t *value, const char *path, struct kvc_pattern *pattern,
                                    struct kvc_error *error) {
    const json_t *text = json_object_get(value, "String"), *expression = json_object_get(value, "Regex");
    if (json_is_string(expression))
        return kvc_pattern_compile(json_string_value(expression), json_string_length(expression), path, pattern, error);
    if (json_is_string(text))
        return kvc_pattern_literal(json_string_value(text), json_string_length(text), pattern, error);
    return kvc_fail(error, KVC_INPUT, "%s: a pattern must be {\"String\": ...} or {\"Regex\": ...}", path);
}

/* ---- normalizer ---- */

static enum kvc_status read_normalizer(struct kvc_tokenizer *tokenizer, const json_t *value, const char *path,
                                       int depth, struct kvc_error *error) {
    if (!value || json_is_null(value))
        return KVC_OK;
    const char *type = type_of(value);
    if (!strcmp(type, "Sequence") && depth < MOST_DEPTH) {
        const json_t *list = json_object_get(value, "normalizers");
        enum kvc_status status = KVC_OK;
        for (size_t i = 0; i < json_array_size(list) && status == KVC_OK; i++)
            status = read_normalizer(tokenizer, json_array_get(list, i), path, depth + 1, error);
        return status;
    }
    struct kvc_normalize_step step = {0};
    static const struct {
        const char *type;
        enum kvc_normalize_kind kind;
    } kinds[] = {{"NFC", KVC_NORMALIZE_NFC},         {"NFD", KVC_NORMALIZE_NFD},
                 {"NFKC", KVC_NORMALIZE_NFKC},       {"NFKD", KVC_NORMALIZE_NFKD},
                 {"Prepend", KVC_NORMALIZE_PREPEND}, {"Lowercase", KVC_NORMALIZE_LOWERCASE},
                 {"Strip", KVC_NORMALIZE_STRIP},     {"Replace", KVC_NORMALIZE_REPLACE}};
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && strcmp(type, kinds[k].type) != 0)
        k++;
    if (k == sizeof kinds / sizeof *kinds)
        return unsupported(path, "normalizer", type, error);
    void *steps = tokenizer->normalizer; /* grow first, so that nothing leaks below */
    size_t capacity = tokenizer->normalizer_count;
    if (!kvc_grow(&steps, &capacity, tokenizer->normalizer_count, sizeof step))
        return kvc_no_memory(error);
    tokenizer->normalizer = steps;
    step.kind = kinds[k].kind;
    step.left = flag_or(value, "strip_left", true);
    step.right = flag_or(value, "strip_right", true);
    enum kvc_status status = KVC_OK;
    if (step.kind == KVC_NORMALIZE_PREPEND || step.kind == KVC_NORMALIZE_REPLACE) {
        const json_t *text = json_object_get(value, step.kind == KVC_NORMALIZE_PREPEND ? "prepend" : "content");
        if (!json_is_string(text))
            return kvc_fail(error, KVC_INPUT, "%s: normalizer \"%s\" has no text", path, type);
        step.text_bytes = json_string_length(text);
        step.text = copy_text(json_string_value(text), step.text_bytes);
        if (!step.text)
            return kvc_no_memory(error);
    }
    if (step.kind == KVC_NORMALIZE_REPLACE)
        status = read_pattern(json_object_get(value, "pattern"), path, &step.pattern, error);
    tokenizer->normalizer[tokenizer->normalizer_count++] = step; /* now owned by the tokenizer */
    return status;
}

/* ---- pre-tokenizer ---- */

static enum kvc_status add_split(struct kvc_tokenizer *tokenizer, const struct kvc_split_step *step,
                                 struct kvc_error *error) {
    void *steps = tokenizer->splitter;
    size_t capacity = tokenizer->splitter_count;
    if (!kvc_grow(&steps, &capacity, tokenizer->splitter_count, sizeof *step)) {
        struct kvc_pattern pattern = step->pattern;
        kvc_pattern_free(&pattern);
        return kvc_no_memory(error);
    }
    tokenizer->splitter = steps;
    tokenizer->splitter[tokenizer->splitter_count++] = *step;
    return KVC_OK;
}

static enum kvc_status add_pattern(struct kvc_tokenizer *tokenizer, const char *expression, enum kvc_behavior behavior,
                                   bool invert, const char *path, struct kvc_error *error) {
    struct kvc_split_step step = {.kind = KVC_STEP_SPLIT, .behavior = behavior, .invert = invert};
    enum kvc_status status = kvc_pattern_compile(expression, strlen(expression), path, &step.pattern, error);
    return status == KVC_OK ? add_split(tokenizer, &step, error) : status;
}

static bool behavior_of(const json_t *value, enum kvc_behavior *behavior) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = json_string_value(json_object_get(value, "behavior"));
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (!strcmp(name, names[i])) {
            *behavior = (enum kvc_behavior)i;
            return true;
        }
    }
    return false;
}

static enum kvc_status read_split(struct kvc_tokenizer *tokenizer, const json_t *value, const char *path,
                                  struct kvc_error *error) {
    struct kvc_split_step step = {.kind = KVC_STEP_SPLIT, .invert = flag_or(value, "invert", false)};
    if (!behavior_of(value, &step.behavior))
        return kvc_fail(error, KVC_INPUT, "%s: pre_tokenizer \"Split\" has no known behavior", path);
    enum kvc_status status = read_pattern(json_object_get(value, "pattern"), path, &step.pattern, error);
    return status == KVC_OK ? add_split(tokenizer, &step, error) : status;
}

/* Reads the character that represents a space. */
static bool mark_of(const json_t *value, const char **mark, size_t *bytes) {
    const json_t *text = json_object_get(value, "replacement");
    *mark = text ? json_string_value(text) : "\xe2\x96\x81";
    *bytes = text ? json_string_length(text) : 3;
    uint32_t code;
    return *mark && *bytes && kvc_utf8_next(*mark, *bytes, &code) == *bytes && code && code != KVC_NOT_UTF8;
}

static enum kvc_prefix prefix_of(const json_t *value) {
    const char *scheme = json_string_value(json_object_get(value, "prepend_scheme"));
    if (scheme)
        return !strcmp(scheme, "never")   ? KVC_PREFIX_NEVER
               : !strcmp(scheme, "first") ? KVC_PREFIX_FIRST
                                          : KVC_PREFIX_ALWAYS;
    return flag_or(value, "add_prefix_space", true) ? KVC_PREFIX_ALWAYS : KVC_PREFIX_NEVER;
}

static enum kvc_status read_metaspace(struct kvc_tokenizer *tokenizer, const json_t *value, const char *path,
                                      struct kvc_error *error) {
    struct kvc_split_step step = {.kind = KVC_STEP_METASPACE, .prefix = prefix_of(value)};
    const char *mark;
    if (!mark_of(value, &mark, &step.mark_bytes))
        return kvc_fail(error, KVC_INPUT, "%s: the replacement of \"Metaspace\" is not one character", path);
    memcpy(step.mark, mark, step.mark_bytes);
    enum kvc_status status = add_split(tokenizer, &step, error);
    if (status != KVC_OK || !flag_or(value, "split", true))
        return status;
    struct kvc_split_step cut = {.kind = KVC_STEP_SPLIT, .behavior = KVC_SPLIT_MERGED_NEXT};
    status = kvc_pattern_literal(mark, step.mark_bytes, &cut.pattern, error);
    return status == KVC_OK ? add_split(tokenizer, &cut, error) : status;
}

static enum kvc_status read_pre_tokenizer(struct kvc_tokenizer *tokenizer, const json_t *value, const char *path,
                                          int depth, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (!value || json_is_null(value))
        return status;
    const char *type = type_of(value);
    if (!strcmp(type, "Sequence") && depth < MOST_DEPTH) {
        const json_t *list = json_object_get(value, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list) && status == KVC_OK; i++)
            status = read_pre_tokenizer(tokenizer, json_array_get(list, i), path, depth + 1, error);
        return status;
    }
    if (!strcmp(type, "ByteLevel")) {
        struct kvc_split_step step = {.kind = KVC_STEP_PREFIX_SPACE};
        if (flag_or(value, "add_prefix_space", true))
            status = add_split(tokenizer, &step, error);
        if (status == KVC_OK && flag_or(value, "use_regex", true))
            status = add_pattern(tokenizer, kvc_gpt2_pattern, KVC_SPLIT_ISOLATED, false, path, error);
        step.kind = KVC_STEP_BYTES;
        return status == KVC_OK ? add_split(tokenizer, &step, error) : status;
    }
    if (!strcmp(type, "Split"))
        return read_split(tokenizer, value, path, error);
    if (!strcmp(type, "Digits"))
        return add_pattern(tokenizer, "\\p{N}",
                           flag_or(value, "individual_digits", false) ? KVC_SPLIT_ISOLATED : KVC_SPLIT_CONTIGUOUS,
                           false, path, error);
    if (!strcmp(type, "Metaspace"))
        return read_metaspace(tokenizer, value, path, error);
    if (!strcmp(type, "WhitespaceSplit"))
        return add_pattern(tokenizer, "\\s", KVC_SPLIT_REMOVED, false, path, error);
    if (!strcmp(type, "Whitespace"))
        return add_pattern(tokenizer, "[" WORD "]+|[^" WORD "\\s]+", KVC_SPLIT_REMOVED, true, path, error);
    return unsupported(path, "pre_tokenizer", type, error);
}

/* ---- decoder ---- */

static enum kvc_status set_replace(struct kvc_tokenizer *tokenizer, const char *from, size_t from_bytes, const char *to,
                                   size_t to_bytes, const char *path, struct kvc_error *error) {
    struct kvc_decoder *decoder = &tokenizer->decoder;
    if (decoder->replace[0] || !from_bytes)
        return kvc_fail(error, KVC_INPUT, "%s: a decoder with two replacements, or one of nothing, is not supported",
                        path);
    decoder->replace[0] = copy_text(from, from_bytes);
    decoder->replace[1] = copy_text(to, to_bytes);
    return decoder->replace[0] && decoder->replace[1] ? KVC_OK : kvc_no_memory(error);
}

static enum kvc_status read_decoder(struct kvc_tokenizer *tokenizer, const json_t *value, const char *path, int depth,
                                    bool *fused, struct kvc_error *error) {
    struct kvc_decoder *decoder = &tokenizer->decoder;
    const char *type = type_of(value);
    enum kvc_status status = KVC_OK;
    if (!strcmp(type, "Sequence") && depth < MOST_DEPTH) {
        const json_t *list = json_object_get(value, "decoders");
        for (size_t i = 0; i < json_array_size(list) && status == KVC_OK; i++)
            status = read_decoder(tokenizer, json_array_get(list, i), path, depth + 1, fused, error);
        return status;
    }
    if (!strcmp(type, "ByteLevel")) {
        decoder->byte_level = true;
    } else if (!strcmp(type, "ByteFallback")) {
        decoder->byte_fallback = true;
    } else if (!strcmp(type, "Fuse")) {
        *fused = true;
    } else if (!strcmp(type, "Metaspace")) {
        const char *mark;
        size_t bytes;
        if (!mark_of(value, &mark, &bytes))
            return kvc_fail(error, KVC_INPUT, "%s: the replacement of \"Metaspace\" is not one character", path);
        decoder->first_plain = prefix_of(value) != KVC_PREFIX_NEVER;
        status = set_replace(tokenizer, mark, bytes, " ", 1, path, error);
    } else if (!strcmp(type, "Replace")) {
        const json_t *from = json_object_get(json_object_get(value, "pattern"), "String");
        const json_t *to = json_object_get(value, "content");
        if (!json_is_string(from) || !json_is_string(to) ||
            strlen(json_string_value(from)) != json_string_length(from) ||
            strlen(json_string_value(to)) != json_string_length(to))
            return unsupported(path, "decoder", "Replace without plain text", error);
        status = set_replace(tokenizer, json_string_value(from), json_string_length(from), json_string_value(to),
                             json_string_length(to), path, error);
    } else if (!strcmp(type, "Strip")) {
        const char *content = json_string_value(json_object_get(value, "content"));
        json_int_t start = json_integer_value(json_object_get(value, "start"));
        if (!content || strcmp(content, " ") != 0 || start < 0 || start > 1000 ||
            json_integer_value(json_object_get(value, "stop")) != 0 || !*fused)
            return unsupported(path, "decoder", "Strip other than of leading spaces after Fuse", error);
        decoder->strip = (size_t)start;
    } else {
        return unsupported(path, "decoder", type, error);
    }
    return status;
}

enum kvc_status kvc_json_steps(struct kvc_tokenizer *tokenizer, const json_t *root, const char *path,
                               struct kvc_error *error) {
    const json_t *decoder = json_object_get(root, "decoder");
    bool fused = false;
    enum kvc_status status = read_normalizer(tokenizer, json_object_get(root, "normalizer"), path, 0, error);
    if (status == KVC_OK)
        status = read_pre_tokenizer(tokenizer, json_object_get(root, "pre_tokenizer"), path, 0, error);
    if (status != KVC_OK)
        return status;
    if (decoder && !json_is_null(decoder))
        return read_decoder(tokenizer, decoder, path, 0, &fused, error);
    tokenizer->decoder.join = copy_text(" ", 1);
    return tokenizer->decoder.join ? KVC_OK : kvc_no_memory(error);
}

/* ---- post-processor ---- */

enum kvc_status kvc_json_prefix(struct kvc_tokenizer *tokenizer, const json_t *processor, const char *path,
                                struct kvc_error *error) {
    const char *type = type_of(processor);
    if (!strcmp(type, "Sequence")) {
        const json_t *list = json_object_get(processor, "processors");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *inner = json_array_get(list, i);
            if (!strcmp(type_of(inner), "TemplateProcessing"))
                return kvc_json_prefix(tokenizer, inner, path, error);
        }
        return KVC_OK;
    }
    if (!strcmp(type, "ByteLevel") || !*type)
        return KVC_OK;
    if (strcmp(type, "TemplateProcessing") != 0)
        return unsupported(path, "post_processor", type, error);
    const json_t *single = json_object_get(processor, "single"),
                 *specials = json_object_get(processor, "special_tokens");
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *part = json_object_get(json_array_get(single, i), "SpecialToken");
        const char *name = json_string_value(json_object_get(part, "id"));
        if (!name) /* this part is the text itself; the tokens after it apply to complete texts only */
            break;
        const json_t *ids = json_object_get(json_object_get(specials, name), "ids");
        if (!json_array_size(ids))
            return kvc_fail(error, KVC_INPUT, "%s: post_processor has no ids for \"%.40s\"", path, name);
        for (size_t k = 0; k < json_array_size(ids); k++) {
            const json_t *id = json_array_get(ids, k);
            if (!json_is_integer(id) || json_integer_value(id) < 0 ||
                (uint64_t)json_integer_value(id) >= tokenizer->count)
                return kvc_fail(error, KVC_INPUT,
                                "%s: post_processor gives \"%.40s\" an id outside the vocabulary of %zu", path, name,
                                tokenizer->count);
            if (!kvc_id_list_add(&tokenizer->prefix, (int32_t)json_integer_value(id)))
                return kvc_no_memory(error);
        }
    }
    return KVC_OK;
}
