/* prepare.c - turns a request's values into the engine thread's input: the tokens of the prompts, and the answers to
 * compute. lengths.c adds the policy and the length limit. */
#include <stdlib.h>
#include <string.h>

#include "kvcull/chat.h"
#include "serve/serve.h"

static bool prepare_refuse(struct serve_error *error, const char *param, const char *what) {
    return serve_refuse(error, 400, SERVE_INVALID, param, NULL, "%s: %s", param, what);
}

static bool no_memory(struct serve_error *error) {
    return serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
}

/* ---- prompts ---- */

static bool token_ids(const struct serve_request *request, const json_t *array, struct serve_tokens *tokens,
                      struct serve_error *error) {
    const size_t count = json_array_size(array);
    tokens->items = malloc((count + 1) * sizeof *tokens->items);
    if (!tokens->items)
        return no_memory(error);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= request->serve->info->vocab)
            return serve_refuse(error, 400, SERVE_INVALID, "prompt", NULL,
                                "prompt: token ids are whole numbers from 0 to %u", request->serve->info->vocab - 1);
        tokens->items[tokens->count++] = (int32_t)id;
    }
    return true;
}

static bool text_tokens(const struct serve_request *request, const char *text, size_t bytes, unsigned flags,
                        struct serve_tokens *tokens, struct serve_error *error) {
    struct kvc_error cause;
    if (kvc_tokenize(request->serve->model, text, bytes, flags, &tokens->items, &tokens->count, &cause) != KVC_OK)
        return serve_refuse_by(error, "prompt", &cause);
    return true;
}

static bool one_prompt(struct serve_request *request, const json_t *prompt, struct serve_error *error) {
    struct serve_tokens *tokens = &request->prompts[request->prompt_count++];
    const unsigned flags = KVC_TOKENIZE_BOS | (request->values.special ? KVC_TOKENIZE_SPECIAL : 0u);
    if (json_is_string(prompt)) {
        if (!text_tokens(request, json_string_value(prompt), json_string_length(prompt), flags, tokens, error))
            return false;
    } else if (!json_is_array(prompt)) {
        return prepare_refuse(error, "prompt", "must be a text, an array of token ids, or an array of such prompts");
    } else if (!token_ids(request, prompt, tokens, error)) {
        return false;
    }
    const int32_t bos = request->serve->info->bos;
    if (tokens->count == 0 && bos >= 0) { /* an empty prompt begins with BOS */
        free(tokens->items);
        tokens->items = malloc(sizeof *tokens->items);
        if (!tokens->items)
            return no_memory(error);
        tokens->items[tokens->count++] = bos;
    }
    return tokens->count > 0 ||
           prepare_refuse(error, "prompt", "must not be empty: this model has no BOS token to begin with");
}

static bool read_prompts(struct serve_request *request, struct serve_error *error) {
    const json_t *prompt = request->values.prompt, *first = json_array_get(prompt, 0);
    const bool several = json_is_array(prompt) && (json_is_string(first) || json_is_array(first));
    const size_t count = several ? json_array_size(prompt) : 1;
    if (count > SERVE_CHOICES_MOST)
        return serve_refuse(error, 400, SERVE_INVALID, "prompt", NULL, "prompt: at most %d in one request",
                            SERVE_CHOICES_MOST);
    request->prompts = calloc(count, sizeof *request->prompts);
    if (!request->prompts)
        return no_memory(error);
    for (size_t i = 0; i < count; i++)
        if (!one_prompt(request, several ? json_array_get(prompt, i) : prompt, error))
            return false;
    return true;
}

/* ---- conversations ---- */

/* Returns the template's variables: chat_template_kwargs, plus reasoning_effort if chat_template_kwargs does not set
 * it. */
static json_t *template_variables(const struct serve_values *values) {
    json_t *variables = values->template_values ? json_copy(values->template_values) : json_object();
    if (values->reasoning_effort && !json_object_get(variables, "reasoning_effort"))
        (void)json_object_set_new(variables, "reasoning_effort", json_string(values->reasoning_effort));
    return variables;
}

/* Warns once if a request has tools but the template ignores tools. */
static void warn_unread(struct serve *serve, const struct serve_values *values,
                        const struct kvc_chat_options *options) {
    const bool given = options->tools || json_array_size(json_object_get(values->template_values, "tools")) > 0;
    if (given && !kvc_chat_reads(serve->model, options, "tools") && !atomic_exchange(&serve->warned_unread, true))
        cli_warn(serve->command, "the chat template ignores tools, so the model does not see the tools of requests");
}

/* Renders the messages. OpenAI's client sends a null content with calls. Some templates, such as that of gpt-oss, fail
 * then. They get an empty text instead. */
static enum kvc_status render(struct serve_request *request, struct kvc_chat_options *options,
                              struct kvc_error *cause) {
    struct serve_tokens *prompt = &request->prompts[0];
    const char *messages = options->earlier;
    struct kvc_error again;
    struct serve_error error;
    enum kvc_status status =
        kvc_chat_tokens(request->serve->model, options, NULL, 0, &prompt->items, &prompt->count, cause);
    char *texts = status == KVC_OK ? NULL : serve_messages_text(request, true, &error);
    if (texts && strcmp(texts, messages) != 0) {
        options->earlier = texts;
        if (kvc_chat_tokens(request->serve->model, options, NULL, 0, &prompt->items, &prompt->count, &again) == KVC_OK)
            status = KVC_OK;
        options->earlier = messages;
    }
    cli_json_free(texts);
    return status;
}

static bool read_messages(struct serve_request *request, struct serve_error *error) {
    const struct serve_values *values = &request->values;
    struct kvc_chat_options options;
    struct kvc_error cause;
    char *variables = NULL, *tools = NULL;
    bool good = false;
    if (values->template_values && !json_is_object(values->template_values))
        return prepare_refuse(error, "chat_template_kwargs", "must be an object");
    char *messages = serve_messages_text(request, false, error);
    if (!messages)
        return false;
    json_t *more = template_variables(values);
    kvc_chat_defaults(&options);
    options.template_name = request->serve->options->template_name;
    options.template_text = request->serve->template_text;
    options.earlier = messages;
    options.date = request->serve->options->date;
    options.special_content = values->special_content;
    options.variables = variables = json_dumps(more, JSON_COMPACT);
    if (request->functions)
        options.tools = tools = json_dumps(values->tools, JSON_COMPACT);
    request->prompts = calloc(1, sizeof *request->prompts);
    if (!request->prompts || !variables || (request->functions && !tools) || cli_json_lost()) {
        (void)no_memory(error);
    } else if (render(request, &options, &cause) != KVC_OK) {
        cause.status = KVC_USAGE; /* a template's error is about the conversation, so the client gets its message */
        (void)serve_refuse_by(error, "messages", &cause);
    } else {
        request->prompt_count = 1;
        warn_unread(request->serve, values, &options);
        good = request->prompts[0].count > 0 ||
               prepare_refuse(error, "messages", "the chat template produces an empty prompt");
        good = good && serve_begin(request, &options, more, error);
    }
    cli_json_free(messages);
    cli_json_free(tools);
    cli_json_free(variables);
    json_decref(more);
    return good;
}

bool serve_prompt_read(struct serve_request *request, struct serve_error *error) {
    return request->chat ? read_messages(request, error) : read_prompts(request, error);
}

/* ---- choices ---- */

/* Checks the stop texts and removes empty ones, which would never end an answer. */
static bool check_stop(json_t *stop, struct serve_error *error) {
    if (stop && !json_is_string(stop) && !json_is_array(stop))
        return prepare_refuse(error, "stop", "must be a text or an array of texts");
    for (size_t i = json_array_size(stop); i-- > 0;)
        if (json_is_string(json_array_get(stop, i)) && json_string_length(json_array_get(stop, i)) == 0)
            (void)json_array_remove(stop, i);
    if (json_array_size(stop) > SERVE_STOPS_MOST)
        return prepare_refuse(error, "stop", "has too many texts; at most 16");
    for (size_t i = 0; i < (json_is_string(stop) ? 1 : json_array_size(stop)); i++) {
        const json_t *text = json_is_string(stop) ? stop : json_array_get(stop, i);
        if (!json_is_string(text) || json_string_length(text) > 1000)
            return prepare_refuse(error, "stop", "each must be a text of at most 1000 bytes");
    }
    return true;
}

static bool check_stream_options(const struct serve_request *request, json_t *options, struct serve_error *error) {
    static const char *const known[] = {"include_usage", NULL};
    const char *name;
    json_t *value;
    if (options && !json_is_object(options))
        return prepare_refuse(error, "stream_options", "must be an object");
    json_object_foreach(options, name, value) {
        const bool usage = strcmp(name, known[0]) == 0;
        if (usage ? !json_is_boolean(value) : request->serve->options->strict || serve_meant(name, known))
            return prepare_refuse(error, "stream_options", "may have include_usage, true or false");
    }
    return true;
}

static bool check_values(const struct serve_request *request, struct serve_error *error) {
    const struct serve_values *values = &request->values;
    const json_t *bias = values->logit_bias;
    if (values->model && request->serve->options->strict_model && strcmp(values->model, request->serve->name) != 0)
        return serve_refuse(error, 404, SERVE_INVALID, "model", "model_not_found",
                            "model: there is no such model here; this server has %s", request->serve->name);
    if (!(values->top_p > 0))
        return prepare_refuse(error, "top_p", "must be above 0, and at most 1");
    if (request->chat && values->top_logprobs > 0 && !values->chat_logprobs)
        return prepare_refuse(error, "top_logprobs", "requires logprobs true");
    if (bias && (!json_is_object(bias) || json_object_size(bias) > SERVE_BIASES_MOST))
        return prepare_refuse(error, "logit_bias", "must be an object of at most 1024 tokens");
    return check_stream_options(request, values->stream_options, error) && check_stop(values->stop, error);
}

/* Replaces values that mean "default" by the default. */
static void set_unsaid(struct serve_request *request) {
    struct serve_values *values = &request->values;
    if (values->max_tokens == SERVE_LENGTH_UNSAID)
        values->max_tokens = request->serve->options->max_tokens;
    values->seed = values->seed < 0 ? 0 : values->seed;
    values->top_k = values->top_k < 0 ? 0 : values->top_k;
    if (json_is_string(values->stop) && json_string_length(values->stop) == 0)
        values->stop = NULL;
}

/* Converts logit_bias to the sampler's form. */
static bool read_biases(struct serve_request *request, struct serve_error *error) {
    const json_t *object = request->values.logit_bias;
    const char *name;
    json_t *value;
    request->biases = malloc((json_object_size(object) + 1) * sizeof *request->biases);
    if (!request->biases)
        return no_memory(error);
    json_object_foreach((json_t *)object, name, value) {
        double id;
        const double bias = json_number_value(value);
        if (name[strspn(name, "0123456789")] || !kvc_decimal(name, strlen(name), &id) ||
            !(id >= 0 && id < request->serve->info->vocab) || id != (double)(int32_t)id || !json_is_number(value) ||
            !(bias >= -100 && bias <= 100))
            return prepare_refuse(error, "logit_bias", "must have token ids as names and numbers from -100 to 100");
        request->biases[request->bias_count++] = (struct kvc_bias){(int32_t)id, (float)bias};
    }
    return true;
}

/* Checks the sampling values by opening a sampler, which is closed again. Each answer opens its own sampler when it
 * begins. */
static bool check_sampling(struct serve_choice *choice, struct serve_error *error) {
    struct kvc_error cause;
    enum kvc_status status = serve_choice_sampler(choice, &cause);
    if (status == KVC_OK)
        status = serve_choice_begin(choice, &cause);
    kvc_sampler_close(choice->sampler);
    choice->sampler = NULL;
    return status == KVC_OK || serve_refuse_by(error, "sampling", &cause);
}

static bool make_choices(struct serve_request *request, struct serve_error *error) {
    const size_t count = request->prompt_count * (size_t)request->values.n;
    if (count > SERVE_CHOICES_MOST)
        return serve_refuse(error, 400, SERVE_INVALID, "n", NULL, "n: prompts times n may be at most %d",
                            SERVE_CHOICES_MOST);
    request->choices = calloc(count, sizeof *request->choices);
    if (!request->choices)
        return no_memory(error);
    bool good = read_biases(request, error);
    for (size_t i = 0; i < count && good; i++) {
        struct serve_choice *choice = &request->choices[request->choice_count++];
        choice->request = request;
        choice->index = (uint32_t)i;
        choice->prompt = &request->prompts[i / (size_t)request->values.n];
        choice->pending = -1;
        choice->first = request->chat;
        serve_begin_reader(choice);
        if (request->values.logits_hash && !(choice->hash = kvc_hash_open()))
            good = no_memory(error);
    }
    return good && check_sampling(&request->choices[0], error);
}

static bool prepare_body(struct serve_request *request, json_t *body, struct serve_error *error) {
    struct serve_values *values = &request->values;
    if (!serve_fields_read(body, request->chat ? SERVE_CHAT : SERVE_COMPLETIONS, request->serve->options, values,
                           error) ||
        !check_values(request, error) || !serve_policy_read(request, error) || !serve_format_read(request, error) ||
        !serve_tools_read(request, error))
        return false;
    set_unsaid(request);
    values->include_usage = json_is_true(json_object_get(values->stream_options, "include_usage"));
    request->logprobs = request->chat ? values->chat_logprobs : values->logprobs >= 0;
    request->top = !request->logprobs ? 0 : (size_t)(request->chat ? values->top_logprobs : values->logprobs);
    return serve_prompt_read(request, error) && serve_length_check(request, error) && make_choices(request, error);
}

bool serve_prepare(struct serve_request *request, json_t *body, struct serve_error *error) {
    struct serve_values *values = &request->values;
    const bool good = prepare_body(request, body, error);
    values->stop = good ? json_incref(values->stop) : NULL;
    values->model = values->kv = values->content = values->reasoning_effort = values->reasoning_format = NULL;
    values->prompt = values->messages = values->logit_bias = values->stream_options = NULL;
    values->template_values = values->tokens = NULL;
    values->regex = values->guided_regex = values->grammar = values->guided_grammar = NULL;
    values->response_format = values->json_schema = values->guided_json = values->guided_choice = NULL;
    values->structured_outputs = values->tools = values->tool_choice = NULL;
    return good;
}
