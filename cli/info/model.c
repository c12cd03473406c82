/* model.c - kvcull info MODEL: prints the properties of a model, and whether its memory fits with a policy. Does not
 * read its weights. */
#include <stdlib.h>
#include <string.h>

#include "cli/info/info.h"

struct fit { /* tells whether the model fits with one policy */
    struct kvc_estimate estimate;
    uint64_t networks; /* bytes of the networks that the policy's methods load */
    uint64_t total;
    uint64_t longest; /* tokens of the longest prompt that fits, with room for the generated tokens; UINT64_MAX: no
                       * limit was found */
    bool fits;
};

static enum kvc_status estimate(const struct kvc_engine *engine, const struct kvc_model_info *info, const char *spec,
                                const struct info_arguments *a, uint64_t prompt, uint64_t memory, struct fit *fit,
                                struct kvc_error *error) {
    struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    enum kvc_status status =
        kvc_estimate_windows(engine, spec, &geometry, info->windows, info->hidden, a->common.cache_type, prompt,
                             (uint64_t)a->generate, &fit->estimate, error);

    if (status == KVC_OK)
        kvc_estimate_recurrent(&fit->estimate, info->recurrent_bytes);
    fit->total = info->resident_bytes + fit->networks + fit->estimate.peak_bytes + fit->estimate.hidden_bytes;
    fit->fits = fit->total <= memory;
    return status;
}

/* Finds the longest prompt that fits, up to 2^30 tokens, by bisection. */
static enum kvc_status model_longest(const struct kvc_engine *engine, const struct kvc_model_info *info,
                                     const char *spec, const struct info_arguments *a, uint64_t memory, struct fit *fit,
                                     struct kvc_error *error) {
    uint64_t low = 0, high = 1u << 30;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        enum kvc_status status = estimate(engine, info, spec, a, middle, memory, fit, error);

        if (status != KVC_OK)
            return status;
        if (fit->fits)
            low = middle;
        else
            high = middle - 1;
    }
    fit->longest = low == 1u << 30 ? UINT64_MAX : low;
    return KVC_OK;
}

static void property(struct cli_table *table, const char *name, const char *text) {
    cli_cell(table, "%s", name);
    cli_cell(table, "%s", text && text[0] ? text : "-");
}

static void print_text(struct cli_table *table, const struct kvc_model *model) {
    const struct kvc_model_info *info = kvc_model_info(model);
    char text[200], number[32];

    snprintf(text, sizeof text, "%s tokens", cli_number(info->vocab, number));
    if (info->bos >= 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", BOS %d", info->bos);
    if (info->eos >= 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", EOS %d", info->eos);
    property(table, "vocabulary", text);
    if (info->has_chat_template)
        snprintf(text, sizeof text, "yes (%s)", cli_own_template(model));
    property(table, "chat template", info->has_chat_template ? text : "none");
}

static int print_model(const struct cli_command *command, const struct kvc_model *model) {
    const struct kvc_model_info *info = kvc_model_info(model);
    struct cli_table *table = cli_table_open("<|<");
    char text[200], number[2][32];
    int status;

    property(table, "name", info->name);
    property(table, "file", info->path);
    property(table, "format", info->format);
    property(table, "architecture", info->architecture);
    if (info->experts) {
        snprintf(text, sizeof text, "%s, %s of them active for a token", cli_number(info->parameters, number[0]),
                 cli_number(info->active_parameters, number[1]));
        property(table, "parameters", text);
    } else {
        property(table, "parameters", cli_number(info->parameters, number[0]));
    }
    snprintf(text, sizeof text, "%s (%s), %s of them read from the file as needed",
             cli_bytes(info->weight_bytes, number[0]), info->weight_types ? info->weight_types : "?",
             cli_bytes(info->mapped_bytes, number[1]));
    property(table, "weights", text);
    if (info->packed_bytes) {
        snprintf(text, sizeof text, "%s, of which %s are matrices in int16", cli_bytes(info->resident_bytes, number[0]),
                 cli_bytes(info->packed_bytes, number[1]));
        property(table, "in memory", text);
    }
    property(table, "arithmetic", cli_math_note(info->math) ? cli_math_note(info->math) : "float");
    snprintf(text, sizeof text, "%u of width %u, feed-forward %u", info->layers, info->hidden, info->feed_forward);
    if (info->dense_feed)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", %u in layers without experts", info->dense_feed);
    property(table, "layers", text);
    if (info->recurrent_layers) {
        snprintf(text, sizeof text, "%u gated delta nets between these; a session keeps %s for them",
                 info->recurrent_layers, cli_bytes(info->recurrent_bytes, number[0]));
        property(table, "recurrent", text);
    }
    if (info->experts) {
        if (info->dense_feed)
            snprintf(number[1], sizeof number[1], "%u of %u layers", info->expert_layers, info->layers);
        else
            snprintf(number[1], sizeof number[1], "each layer");
        snprintf(text, sizeof text, "%u in %s, %u of them for a token: %s of the weights", info->experts, number[1],
                 info->experts_used, cli_bytes(info->active_bytes, number[0]));
        property(table, "experts", text);
    }
    snprintf(text, sizeof text, "%u query heads over %u key-value heads, head size %u", info->heads, info->kv_heads,
             info->head_size);
    property(table, "attention", text);
    if (info->sliding_window) {
        snprintf(text, sizeof text, "%u tokens", info->sliding_window);
        property(table, "sliding window", text);
    }
    snprintf(text, sizeof text, "%s tokens, rope %s", cli_number(info->trained_context, number[0]),
             info->rope ? info->rope : "?");
    if (info->original_context)
        snprintf(text + strlen(text), sizeof text - strlen(text), ": short factors up to %s tokens",
                 cli_number(info->original_context, number[0]));
    property(table, "trained context", text);
    print_text(table, model);
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status;
}

/* Prints the properties of a vocabulary without weights. */
static int print_vocabulary(const struct cli_command *command, const struct kvc_model *model) {
    const struct kvc_model_info *info = kvc_model_info(model);
    struct cli_table *table = cli_table_open("<|<");
    int status;

    property(table, "name", info->name);
    property(table, "file", info->path);
    property(table, "format", info->format);
    property(table, "architecture", info->architecture);
    property(table, "weights", "none: a vocabulary, which kvcull tokenize takes");
    print_text(table, model);
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status == KVC_OK ? cli_flush(command) : status;
}

static json_t *model_json(const struct kvc_model_info *info) {
    json_t *o = json_object();

    cli_json_set(o, "name", cli_json_text(info->name ? info->name : "", strlen(info->name ? info->name : "")));
    cli_json_set(o, "path", cli_json_text(info->path, strlen(info->path)));
    cli_json_set(o, "format", json_string(info->format));
    cli_json_set(o, "architecture", cli_json_text(info->architecture, strlen(info->architecture)));
    cli_json_set(o, "parameters", json_integer((json_int_t)info->parameters));
    cli_json_set(o, "active_parameters", json_integer((json_int_t)info->active_parameters));
    cli_json_set(o, "active_bytes", json_integer((json_int_t)info->active_bytes));
    cli_json_set(o, "experts", json_integer(info->experts));
    cli_json_set(o, "experts_used", json_integer(info->experts_used));
    cli_json_set(o, "expert_layers", json_integer(info->expert_layers));
    cli_json_set(o, "dense_feed", json_integer(info->dense_feed));
    cli_json_set(o, "weight_bytes", json_integer((json_int_t)info->weight_bytes));
    cli_json_set(o, "mapped_bytes", json_integer((json_int_t)info->mapped_bytes));
    cli_json_set(o, "packed_bytes", json_integer((json_int_t)info->packed_bytes));
    cli_json_set(o, "resident_bytes", json_integer((json_int_t)info->resident_bytes));
    cli_json_set(o, "weight_types", json_string(info->weight_types ? info->weight_types : ""));
    cli_json_set(o, "math", json_string(cli_math_name(info->math)));
    cli_json_set(o, "layers", json_integer(info->layers));
    cli_json_set(o, "recurrent_layers", json_integer(info->recurrent_layers));
    cli_json_set(o, "recurrent_bytes", json_integer((json_int_t)info->recurrent_bytes));
    cli_json_set(o, "hidden", json_integer(info->hidden));
    cli_json_set(o, "heads", json_integer(info->heads));
    cli_json_set(o, "kv_heads", json_integer(info->kv_heads));
    cli_json_set(o, "head_size", json_integer(info->head_size));
    cli_json_set(o, "feed_forward", json_integer(info->feed_forward));
    cli_json_set(o, "vocab", json_integer(info->vocab));
    cli_json_set(o, "trained_context", json_integer(info->trained_context));
    cli_json_set(o, "original_context", json_integer(info->original_context));
    cli_json_set(o, "sliding_window", json_integer(info->sliding_window));
    cli_json_set(o, "rope", json_string(info->rope ? info->rope : ""));
    cli_json_set(o, "bos", json_integer(info->bos));
    cli_json_set(o, "eos", json_integer(info->eos));
    cli_json_set(o, "chat_template", json_boolean(info->has_chat_template));
    return o;
}

static json_t *fit_json(const char *spec, const struct fit *fit) {
    json_t *o = json_object();

    cli_json_set(o, "kv", cli_json_text(spec, strlen(spec)));
    cli_json_set(o, "entries", json_integer((json_int_t)fit->estimate.entries));
    cli_json_set(o, "cache_bytes", json_integer((json_int_t)fit->estimate.cache_bytes));
    cli_json_set(o, "state_bytes", json_integer((json_int_t)fit->estimate.state_bytes));
    cli_json_set(o, "peak_bytes", json_integer((json_int_t)fit->estimate.peak_bytes));
    cli_json_set(o, "hidden_bytes", json_integer((json_int_t)fit->estimate.hidden_bytes));
    cli_json_set(o, "network_bytes", json_integer((json_int_t)fit->networks));
    cli_json_set(o, "total_bytes", json_integer((json_int_t)fit->total));
    cli_json_set(o, "fits", json_boolean(fit->fits));
    cli_json_set(o, "longest_prompt",
                 fit->longest == UINT64_MAX ? json_null() : json_integer((json_int_t)fit->longest));
    return o;
}

static int print_fits(const struct cli_command *command, const struct info_arguments *a, const struct fit *fits,
                      uint64_t prompt, const struct info_available *capacity) {
    struct cli_table *table = cli_table_open("<policy|entries|cache|state|peak|hidden|total|<fits|longest prompt");
    char text[32], number[2][32], types[KVC_ENTRY_TYPES_NAME];
    int status;

    printf("\nAfter a prompt of %s tokens and %s generated ones, %s entries; %s %s\n", cli_number(prompt, number[0]),
           cli_number((uint64_t)a->generate, number[1]), kvc_entry_types_name(a->common.cache_type, types),
           capacity->bytes == UINT64_MAX ? "what" : cli_bytes(capacity->bytes, text),
           a->memory                       ? "may be used"
           : capacity->bytes == UINT64_MAX ? "is free here is not known"
                                           : "are free here");
    if (!a->memory && strcmp(capacity->from, "the machine") != 0 && capacity->from[0]) {
        char line[sizeof capacity->from + 32];

        snprintf(line, sizeof line, "Free: limited by %s", capacity->from);
        kvc_printable(line, strlen(line), line, sizeof line);
        cli_wrap(stdout, line, 0);
    }
    printf("Total: weights and the policy's networks, the peak of cache and state, hidden states of prefill\n\n");
    for (size_t i = 0; i < a->specs.count; i++) {
        const struct fit *fit = &fits[i];

        cli_cell(table, "%s", a->specs.items[i].text);
        cli_cell(table, "%s", cli_number(fit->estimate.entries, text));
        cli_cell(table, "%s", cli_bytes(fit->estimate.cache_bytes, text));
        cli_cell(table, "%s", cli_bytes(fit->estimate.state_bytes, text));
        cli_cell(table, "%s", cli_bytes(fit->estimate.peak_bytes, text));
        cli_cell(table, "%s", cli_bytes(fit->estimate.hidden_bytes, text));
        cli_cell(table, "%s", cli_bytes(fit->total, text));
        cli_cell(table, "%s", fit->fits ? "yes" : "no");
        cli_cell(table, "%s", fit->longest == UINT64_MAX ? "any" : cli_number(fit->longest, text));
    }
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status == KVC_OK ? cli_flush(command) : status;
}

int info_model(const struct cli_command *command, const struct info_arguments *a, const char *path) {
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_error error;
    const struct kvc_model_info *info;
    struct info_available capacity = {a->memory, "--mem"};
    uint64_t prompt;
    struct fit *fits = calloc(a->specs.count, sizeof *fits);
    json_t *root = NULL, *list = NULL;
    bool all = true;
    int status =
        fits ? cli_open_model_or_text(command, &a->common, path, &a->specs, CLI_TEXT_OF_VOCABULARIES, &engine, &model)
             : cli_no_memory(command);

    if (status != KVC_OK) {
        free(fits);
        return status;
    }
    info = kvc_model_info(model);
    if (info->layers == 0) {
        status = a->common.json ? cli_json_print(command, model_json(info), stdout) : print_vocabulary(command, model);
        free(fits);
        kvc_model_close(model);
        kvc_engine_close(engine);
        return status;
    }
    if (!a->memory)
        info_available("", info->mapped_bytes, &capacity);
    prompt = a->prompt ? (uint64_t)a->prompt : info->trained_context ? info->trained_context : 4096;
    for (size_t i = 0; i < a->specs.count && status == KVC_OK; i++) {
        const char *spec = a->specs.items[i].text;

        if (kvc_estimate_networks(model, spec, 0, info->layers, info->kv_heads, &fits[i].networks, &error) != KVC_OK ||
            model_longest(engine, info, spec, a, capacity.bytes, &fits[i], &error) != KVC_OK ||
            estimate(engine, info, spec, a, prompt, capacity.bytes, &fits[i], &error) != KVC_OK)
            status = cli_report(command, &error);
        all = all && fits[i].fits;
    }
    if (status == KVC_OK && a->common.json) {
        root = model_json(info);
        list = json_array();
        for (size_t i = 0; list && i < a->specs.count; i++)
            cli_json_add(list, fit_json(a->specs.items[i].text, &fits[i]));
        cli_json_set(root, "prompt", json_integer((json_int_t)prompt));
        cli_json_set(root, "generate", json_integer((json_int_t)a->generate));
        cli_json_set(root, "memory",
                     capacity.bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)capacity.bytes));
        cli_json_set(root, "memory_from", cli_json_text(capacity.from, strlen(capacity.from)));
        cli_json_set(root, "policies", list);
        if (a->ranks)
            status = info_parts(command, a, engine, model, prompt, capacity.bytes, root, &all);
    } else if (status == KVC_OK) {
        status = print_model(command, model);
        if (status == KVC_OK)
            status = print_fits(command, a, fits, prompt, &capacity);
        if (status == KVC_OK && a->ranks)
            status = info_parts(command, a, engine, model, prompt, capacity.bytes, NULL, &all);
    }
    if (status == KVC_OK && root)
        status = cli_json_print(command, root, stdout);
    else
        json_decref(root);
    if (status == KVC_OK && a->memory && !all)
        status = KVC_DIFFERS;
    free(fits);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return status;
}
