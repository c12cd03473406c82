/* run.c - kvcull run: answers a prompt, formatted by the model's chat template, or continues the prompt as it is.
 * Several prompts are turns of one session. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct arguments {
    struct cli_common common;
    struct cli_sampling sampling;
    const char *model, *kv, *load, *save;
    bool kv_given, type_given;
    struct cli_template template;
    bool show_prompt, raw, no_special;
    struct cli_texts prompts;
};

struct prompt {
    char *owned; /* text read from a file, or NULL */
    const char *text;
    size_t bytes;
    int32_t *tokens; /* NULL in a chat, because a turn can be tokenized only after the previous answer */
    size_t count;
};

static int read_text(const struct cli_command *command, const struct cli_given *given, struct prompt *prompt) {
    int status = KVC_OK;

    if (given->letter == 'p') {
        prompt->text = given->text;
        prompt->bytes = strlen(given->text);
    } else {
        status = cli_read_file(command, given->text, &prompt->owned, &prompt->bytes);
        prompt->text = prompt->owned;
    }
    return status;
}

/* Tokenizes a prompt that the model continues as it is. If `first` is true, no tokens precede the prompt. */
static int read_tokens(const struct cli_command *command, const struct kvc_model *model, bool special, bool first,
                       struct prompt *prompt) {
    const unsigned flags = (first ? KVC_TOKENIZE_BOS : 0u) | (special ? KVC_TOKENIZE_SPECIAL : 0u);
    struct kvc_error error;

    if (kvc_tokenize(model, prompt->text, prompt->bytes, flags, &prompt->tokens, &prompt->count, &error) != KVC_OK)
        return cli_report(command, &error);
    if (prompt->count == 0 && first && kvc_model_info(model)->bos >= 0) {
        /* if the first text is empty, it begins with BOS, even if the tokenizer does not add that token */
        free(prompt->tokens);
        prompt->tokens = malloc(sizeof *prompt->tokens);
        if (!prompt->tokens)
            return cli_no_memory(command);
        prompt->tokens[prompt->count++] = kvc_model_info(model)->bos;
    }
    if (prompt->count == 0)
        return cli_error(command, KVC_USAGE, "the prompt is empty%s; give -p TEXT or -f FILE",
                         first ? " and this model has no BOS token to begin with" : "");
    return KVC_OK;
}

/* Sets *found to true if the text contains a control token of the model, such as "<|im_start|>". A template has already
 * formatted such a text. */
static int find_control(const struct cli_command *command, const struct kvc_model *model, const struct prompt *prompt,
                        bool *found) {
    struct kvc_error error;
    int32_t *tokens = NULL;
    size_t count = 0;

    if (kvc_tokenize(model, prompt->text, prompt->bytes, KVC_TOKENIZE_SPECIAL, &tokens, &count, &error) != KVC_OK)
        return cli_report(command, &error);
    for (size_t i = 0; i < count && !*found; i++) {
        size_t bytes = 1;

        *found = kvc_token_bytes(model, tokens[i], false, NULL, 0, &bytes, &error) == KVC_OK && bytes == 0;
    }
    free(tokens);
    return KVC_OK;
}

/* Sets *chat if the prompts are messages of a chat. They are messages if an option for chat templates is given. Without
 * such an option, they are messages if the model has a template, unless --raw is given, there is no prompt, or a prompt
 * contains control tokens (which --no-special makes plain text). */
static int run_choose(const struct cli_command *command, const struct arguments *arguments,
                      const struct kvc_model *model, const struct prompt *prompts, bool *chat) {
    bool control = false;
    int status = KVC_OK;

    *chat = cli_template_given(&arguments->template);
    if (*chat || arguments->raw || arguments->prompts.count == 0 || !kvc_model_info(model)->has_chat_template)
        return KVC_OK;
    for (size_t i = 0; i < arguments->prompts.count && status == KVC_OK && !control && !arguments->no_special; i++)
        status = find_control(command, model, &prompts[i], &control);
    if (status == KVC_OK && control && !arguments->common.quiet)
        fprintf(
            stderr,
            "(the prompt contains control tokens and is continued unchanged; --template model makes it a message)\n");
    *chat = !control;
    return status;
}

static json_t *answer_json(const struct cli_answer *answer) {
    json_t *object = json_object(), *tokens = json_array();

    for (size_t i = 0; tokens && i < answer->count; i++)
        cli_json_add(tokens, json_integer(answer->tokens[i]));
    cli_json_set(object, "prompt_tokens", json_integer((json_int_t)answer->prompt_tokens));
    cli_json_set(object, "text", cli_json_text(answer->text, answer->bytes));
    cli_json_set(object, "tokens", tokens);
    cli_json_set(object, "stopped", json_string(cli_stop_name(answer->stop)));
    return object;
}

static int run_turns(const struct cli_command *command, struct cli_generation *generation, struct cli_chat *chat,
                     struct prompt *prompts, size_t count, json_t *turns) {
    int status = KVC_OK;

    for (size_t turn = 0; turn < count && status == KVC_OK; turn++) {
        struct cli_answer answer = {0};
        struct prompt *prompt = &prompts[turn];
        const bool bare = turn == 0 && prompt->bytes == 0 && !generation->policy;

        if (chat)
            status = cli_chat_turn(chat, prompt->text, &prompt->tokens, &prompt->count);
        if (status != KVC_OK)
            break;
        status = cli_generate(generation, prompt->tokens, prompt->count, chat || bare, &answer);
        if (generation->echo && answer.count > 0)
            putchar('\n');
        if (status == KVC_OK)
            cli_say_ending(generation, &answer);
        if (status == KVC_OK && chat)
            status = cli_chat_answer(chat, &answer);
        if (status == KVC_OK && turns && json_array_append_new(turns, answer_json(&answer)) != 0)
            status = cli_no_memory(command);
        cli_answer_free(&answer);
    }
    return status;
}

/* Continues the answer of a saved session. */
static int go_on(const struct cli_command *command, const struct arguments *arguments,
                 struct cli_generation *generation, struct cli_chat *chat, json_t *turns) {
    struct cli_answer answer = {0};
    int status;

    if (!generation->goes_on)
        return cli_error(command, KVC_USAGE, "--load %s: its answer has ended; give -p TEXT or -f FILE",
                         arguments->load);
    if (generation->frequency_penalty != 0 || generation->presence_penalty != 0)
        return cli_error(command, KVC_USAGE,
                         "--load %s: does not contain the tokens of its answer; give a prompt, or omit "
                         "--frequency-penalty and --presence-penalty",
                         arguments->load);
    if (generation->grammar)
        return cli_error(command, KVC_USAGE,
                         "--load %s: does not contain the text of its answer so far; give a prompt, or omit "
                         "--json-schema, --regex and --grammar",
                         arguments->load);
    status = cli_generate(generation, NULL, 0, false, &answer);
    if (generation->echo && answer.count > 0)
        putchar('\n');
    if (status == KVC_OK)
        cli_say_ending(generation, &answer);
    if (status == KVC_OK && chat)
        status = cli_chat_extend(chat, &answer);
    if (status == KVC_OK && turns && json_array_append_new(turns, answer_json(&answer)) != 0)
        status = cli_no_memory(command);
    cli_answer_free(&answer);
    return status;
}

/* Replaces the new session by a saved session. Without options for templates, the session is a chat if it was saved as
 * a chat. */
static int run_load(const struct cli_command *command, const struct arguments *arguments,
                    struct cli_generation *generation, struct cli_chat **chat) {
    const struct cli_template *template = &arguments->template;
    json_t *messages = NULL;
    int status = KVC_OK;

    if (cli_template_given(template)) {
        status = cli_chat_open(command, generation->model, template, chat);
        return status == KVC_OK ? cli_chat_resume(generation, template, arguments->load, arguments->kv_given,
                                                  arguments->type_given, *chat)
                                : status;
    }
    status = cli_generation_load(generation, arguments->load, arguments->kv_given, arguments->type_given, &messages);
    if (status == KVC_OK && messages && !arguments->raw)
        status = cli_chat_open(command, generation->model, template, chat);
    if (status == KVC_OK && *chat)
        status = cli_chat_restore(*chat, messages, arguments->load);
    json_decref(messages);
    return status;
}

static int answer_prompts(const struct cli_command *command, const struct arguments *arguments,
                          struct cli_generation *generation, struct prompt *prompts, size_t count,
                          struct cli_chat **chat, json_t *turns) {
    bool wanted = *chat != NULL;
    int status = KVC_OK;

    if (!arguments->load)
        status = run_choose(command, arguments, generation->model, prompts, &wanted);
    if (status == KVC_OK && wanted && !*chat)
        status = cli_chat_open(command, generation->model, &arguments->template, chat);
    if (status == KVC_OK && !*chat)
        generation->unused = cli_own_template(generation->model);
    for (size_t i = 0; i < count && status == KVC_OK && !*chat; i++)
        status =
            read_tokens(command, generation->model, !arguments->no_special, i == 0 && !arguments->load, &prompts[i]);
    return status == KVC_OK ? run_turns(command, generation, *chat, prompts, count, turns) : status;
}

/* Reads all prompts, then generates. */
static int read_and_run(const struct cli_command *command, const struct arguments *arguments,
                        struct cli_generation *generation, struct cli_chat **chat, json_t *turns) {
    static const struct cli_given empty = {'p', ""};
    const struct cli_given *given = arguments->prompts.count ? arguments->prompts.items : &empty;
    const size_t count = arguments->prompts.count ? arguments->prompts.count : 1;
    struct prompt *prompts;
    int status;

    if (arguments->load) {
        status = run_load(command, arguments, generation, chat);
        if (status != KVC_OK || arguments->prompts.count == 0)
            return status == KVC_OK ? go_on(command, arguments, generation, *chat, turns) : status;
    }
    prompts = calloc(count, sizeof *prompts);
    status = prompts ? KVC_OK : cli_no_memory(command);
    for (size_t i = 0; i < count && status == KVC_OK; i++)
        status = read_text(command, &given[i], &prompts[i]);
    if (status == KVC_OK)
        status = answer_prompts(command, arguments, generation, prompts, count, chat, turns);
    for (size_t i = 0; prompts && i < count; i++) {
        free(prompts[i].owned);
        free(prompts[i].tokens);
    }
    free(prompts);
    return status;
}

static int run_with_model(const struct cli_command *command, const struct arguments *arguments,
                          struct kvc_model *model) {
    struct cli_generation generation;
    struct cli_chat *chat = NULL;
    json_t *root = NULL, *turns = NULL;
    int status =
        cli_generation_open(command, &arguments->common, &arguments->sampling, model, arguments->kv, &generation);

    if (status != KVC_OK)
        return status;
    generation.echo = !arguments->common.json;
    generation.show_prompt = arguments->show_prompt;
    if (arguments->common.json)
        turns = json_array();
    if (status == KVC_OK)
        status = read_and_run(command, arguments, &generation, &chat, turns);
    if (status == KVC_OK && arguments->save)
        status = cli_generation_save(&generation, arguments->save, chat);
    if (status == KVC_OK && arguments->common.json) {
        root = json_object();
        cli_json_set(root, "model", cli_json_text(arguments->model, strlen(arguments->model)));
        cli_json_set(root, "kv", cli_json_text(generation.options.policy, strlen(generation.options.policy)));
        cli_json_set(root, "turns", turns);
        cli_json_set(root, "summary", cli_summary_json(&generation));
        turns = NULL;
        status = cli_json_print(command, root, stdout);
    } else if (status == KVC_OK) {
        status = cli_flush(command);
        cli_summary_print(&generation, generation.options.policy);
    }
    json_decref(turns);
    cli_chat_close(chat);
    cli_generation_close(&generation);
    return status;
}

/* Interprets the arguments that are not options: "-" reads a prompt from standard input, and any other word is the
 * model. */
static int take_words(const struct cli_command *command, const struct cli_words *words, struct arguments *a) {
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        struct cli_given *items;

        if (strcmp(word, "-") != 0) {
            if (a->model)
                return cli_error(command, KVC_USAGE, "%s: not an option; give a prompt with -p TEXT or -f FILE", word);
            a->model = word;
            continue;
        }
        items = realloc(a->prompts.items, (a->prompts.count + 1) * sizeof *items);
        if (!items)
            return cli_no_memory(command);
        items[a->prompts.count++] = (struct cli_given){'f', "-"};
        a->prompts.items = items;
    }
    return CLI_GO;
}

static bool reads_input(const struct cli_texts *prompts) {
    for (size_t i = 0; i < prompts->count; i++)
        if (prompts->items[i].letter == 'f' && strcmp(prompts->items[i].text, "-") == 0)
            return true;
    return false;
}

int kvc_cli_run(const struct cli_command *command, int argc, char **argv) {
    struct arguments a = {.model = NULL};
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXTS, 'p', "prompt", "TEXT", "a prompt; may be given several times: each is one turn", &a.prompts, 0, 0,
         NULL},
        {CLI_TEXTS, 'f', "file", "FILE", "a file with the prompt; - is standard input", &a.prompts, 0, 0, NULL},
        {CLI_TEXT, 0, "kv", "SPEC", "policy of the cache", &a.kv, 0, 0, NULL},
        {CLI_TEXT, 0, "load", "FILE",
         "continue a saved session with its policy and entry type; without a prompt, continue its answer", &a.load, 0,
         0, NULL},
        {CLI_TEXT, 0, "save", "FILE", "save the session after the last answer", &a.save, 0, 0, NULL},
        {CLI_FLAG, 0, "raw", NULL,
         "continue the prompt unchanged; without --raw the prompt is a user's message if the model has a chat template",
         &a.raw, 0, 0, NULL},
        CLI_NO_SPECIAL_OPTION(&a.no_special),
        {CLI_TEXT, 0, "template", "NAME",
         "chat template that formats each prompt as a user's message; 'model' selects the model's own template",
         &a.template.name, 0, 0, NULL},
        {CLI_TEXT, 0, "system", "TEXT", "system message of a chat", &a.template.system, 0, 0, NULL},
        CLI_TEMPLATE_OPTIONS(&a.template),
        CLI_SAMPLING_OPTIONS(&a.sampling),
        CLI_ENGINE_OPTIONS(&a.common),
        CLI_SESSION_OPTIONS(&a.common),
        CLI_OUTPUT_OPTIONS(&a.common),
        CLI_SHOW_OPTION(&a.show_prompt),
        {.kind = CLI_END}};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct cli_words words = {NULL, 0};
    struct cli_texts specs = {NULL, 0};
    struct cli_given kv;
    struct cli_lock lock = {0, NULL};
    int status, opened, guarded;

    cli_common_defaults(&a.common);
    cli_sampling_defaults(&a.sampling);
    a.kv = "full";
    status = cli_parse(command, options, argc, argv, &words);
    if (status == CLI_GO)
        status = take_words(command, &words, &a);
    if (status == CLI_GO && a.raw && cli_template_given(&a.template))
        status = cli_error(command, KVC_USAGE,
                           "--raw continues a prompt unchanged and cannot be combined with options of a chat");
    a.template.implied = !cli_template_given(&a.template);
    a.kv_given = cli_is_given(argc, argv, "kv");
    a.type_given = cli_is_given(argc, argv, "kv-type");
    if (status == CLI_GO && (opened = cli_grammar_open(command, &a.sampling, reads_input(&a.prompts))) != KVC_OK)
        status = opened;
    if (status == CLI_GO && a.save && (guarded = cli_session_guard(command, "save", a.save, &lock)) != KVC_OK)
        status = guarded;
    if (status == CLI_GO) {
        kv = (struct cli_given){0, a.kv};
        specs = (struct cli_texts){&kv, 1};
        status = cli_open_model(command, &a.common, a.model, &specs, &engine, &model);
        if (status == KVC_OK)
            status = run_with_model(command, &a, model);
        kvc_model_close(model);
        kvc_engine_close(engine);
    }
    cli_lock_close(&lock);
    cli_texts_free(&a.prompts);
    cli_sampling_close(&a.sampling);
    cli_words_free(&words);
    return status;
}
