/* tokenize.c - kvcull tokenize: converts text to token ids and back, and lists the pieces. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct arguments {
    struct cli_common common;
    const char *model, *file;
    struct cli_template template;
    bool decode, pieces, special, no_special, bare;
    struct cli_texts prompts;
    struct cli_words words;
};

/* Reads the input: the words or the texts of -p, joined by spaces, or the file of -f. The caller frees *text. */
static int input(const struct cli_command *command, const struct arguments *a, char **text, size_t *bytes) {
    size_t capacity = 1;

    *text = NULL;
    *bytes = 0;
    if (a->decode && cli_template_given(&a->template))
        return cli_error(command, KVC_USAGE,
                         "--decode takes token ids, so it cannot be combined with --template or --system");
    if ((a->file != NULL) + (a->prompts.count > 0) + (a->words.count > 0) != 1)
        return cli_error(command, KVC_USAGE, "give the %s as words, with -p TEXT or with -f FILE",
                         a->decode ? "token ids" : "text");
    if (a->file || (a->words.count == 1 && strcmp(a->words.items[0], "-") == 0))
        return cli_read_file(command, a->file ? a->file : "-", text, bytes);
    for (size_t i = 0; i < a->words.count; i++)
        capacity += strlen(a->words.items[i]) + 1;
    for (size_t i = 0; i < a->prompts.count; i++)
        capacity += strlen(a->prompts.items[i].text) + 1;
    *text = calloc(capacity, 1);
    if (!*text)
        return cli_no_memory(command);
    for (size_t i = 0; i < a->words.count + a->prompts.count; i++) {
        const char *word = a->words.count ? a->words.items[i] : a->prompts.items[i].text;

        if (i > 0)
            (*text)[(*bytes)++] = ' ';
        memcpy(*text + *bytes, word, strlen(word));
        *bytes += strlen(word);
    }
    return KVC_OK;
}

/* Writes a piece in readable form: control bytes and parts of characters are escaped. */
static void readable(const char *bytes_of, size_t bytes, char *text, size_t capacity) {
    bool whole = true; /* the piece is complete UTF-8 */
    size_t at = 0, n;

    for (size_t i = 0; i < bytes && whole; i += n) {
        n = cli_character(bytes_of + i, bytes - i);
        whole = n > 0;
    }
    for (size_t i = 0; i < bytes && at + 8 < capacity; i++) {
        unsigned char c = (unsigned char)bytes_of[i];

        if (c == '\n' || c == '\t' || c == '\r' || c == '\\')
            at += (size_t)snprintf(text + at, capacity - at, "\\%c",
                                   c == '\n'   ? 'n'
                                   : c == '\t' ? 't'
                                   : c == '\r' ? 'r'
                                               : '\\');
        else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !whole))
            at += (size_t)snprintf(text + at, capacity - at, "\\x%02x", c);
        else
            text[at++] = (char)c;
    }
    text[at] = '\0';
}

/* Returns a token's bytes, or the name of a control token; the caller frees the result. On an error, reports it, sets
 * *status and returns NULL. */
static char *piece(const struct cli_command *command, const struct kvc_model *model, int32_t token, size_t *bytes,
                   int *status) {
    struct kvc_error error;
    char *text = NULL;

    *status = KVC_OK;
    if (kvc_token_bytes(model, token, false, NULL, 0, bytes, &error) != KVC_OK) {
        *status = cli_report(command, &error);
        return NULL;
    }
    if (*bytes == 0) {
        if (kvc_detokenize(model, &token, 1, true, &text, bytes, &error) != KVC_OK)
            *status = cli_report(command, &error);
        return text;
    }
    text = malloc(*bytes + 1);
    if (!text)
        *status = cli_no_memory(command);
    else if (kvc_token_bytes(model, token, false, text, *bytes, bytes, &error) != KVC_OK) {
        *status = cli_report(command, &error);
        free(text);
        text = NULL;
    }
    return text;
}

static int print_pieces(const struct cli_command *command, const struct kvc_model *model, const int32_t *tokens,
                        size_t count) {
    struct cli_table *table = cli_table_open("id|<piece");
    int status = KVC_OK;

    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        size_t bytes;
        char *text = piece(command, model, tokens[i], &bytes, &status), shown[512];

        if (!text)
            break;
        readable(text, bytes, shown, sizeof shown);
        cli_cell(table, "%d", tokens[i]);
        cli_cell(table, "'%s'", shown);
        free(text);
    }
    if (status == KVC_OK)
        status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status == KVC_OK ? cli_flush(command) : status;
}

static int print_json(const struct cli_command *command, const struct kvc_model *model, const int32_t *tokens,
                      size_t count, const char *text, size_t bytes) {
    json_t *root = json_object(), *ids = json_array(), *pieces = json_array();
    int status = KVC_OK;

    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        size_t n;
        char *one = piece(command, model, tokens[i], &n, &status);

        if (one && (json_array_append_new(ids, json_integer(tokens[i])) != 0 ||
                    json_array_append_new(pieces, cli_json_text(one, n)) != 0))
            status = cli_no_memory(command);
        free(one);
    }
    cli_json_set(root, "text", cli_json_text(text, bytes));
    cli_json_set(root, "tokens", ids);
    cli_json_set(root, "pieces", pieces);
    if (status == KVC_OK)
        return cli_json_print(command, root, stdout);
    json_decref(root);
    return status;
}

static int tokenize_decode(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                           const char *text, size_t bytes) {
    struct kvc_error error;
    int32_t *tokens = NULL;
    size_t count = 0, n = 0;
    char *out = NULL;
    int status = cli_token_list(command, a->file ? a->file : "tokens", text, bytes, a->file ? KVC_INPUT : KVC_USAGE,
                                &tokens, &count);

    if (status == KVC_OK && kvc_detokenize(model, tokens, count, a->special, &out, &n, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK && a->common.json)
        status = print_json(command, model, tokens, count, out, n);
    else if (status == KVC_OK && a->pieces)
        status = print_pieces(command, model, tokens, count);
    else if (status == KVC_OK) {
        fwrite(out, 1, n, stdout);
        putchar('\n');
        status = cli_flush(command);
    }
    free(out);
    free(tokens);
    return status;
}

/* Tokenizes the text as a user's message. *shown receives the formatted text, which the caller frees. */
static int encode_chat(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                       const char *message, int32_t **tokens, size_t *count, char **shown, size_t *bytes) {
    struct kvc_error error;
    struct cli_chat *chat;
    int status = cli_chat_open(command, model, &a->template, &chat);

    if (status == KVC_OK)
        status = cli_chat_turn(chat, message, tokens, count);
    if (status == KVC_OK && kvc_detokenize(model, *tokens, *count, true, shown, bytes, &error) != KVC_OK)
        status = cli_report(command, &error);
    cli_chat_close(chat);
    return status;
}

static int encode(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                  const char *text, size_t bytes) {
    unsigned flags =
        (a->bare ? 0u : (unsigned)KVC_TOKENIZE_BOS) | (a->no_special ? 0u : (unsigned)KVC_TOKENIZE_SPECIAL);
    struct kvc_error error;
    int32_t *tokens = NULL;
    size_t count = 0;
    char *shown = NULL; /* the formatted text */
    int status = KVC_OK;

    if (cli_template_given(&a->template)) {
        status = encode_chat(command, a, model, text, &tokens, &count, &shown, &bytes);
        text = shown;
    } else if (kvc_tokenize(model, text, bytes, flags, &tokens, &count, &error) != KVC_OK) {
        return cli_report(command, &error);
    }
    if (status != KVC_OK) {
        ;
    } else if (a->common.json) {
        status = print_json(command, model, tokens, count, text, bytes);
    } else if (a->pieces) {
        status = print_pieces(command, model, tokens, count);
    } else {
        for (size_t i = 0; i < count; i++)
            printf("%s%d", i ? "," : "", tokens[i]);
        putchar('\n');
        status = cli_flush(command);
    }
    free(shown);
    free(tokens);
    return status;
}

int kvc_cli_tokenize(const struct cli_command *command, int argc, char **argv) {
    struct arguments a = {.model = NULL};
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXTS, 'p', "prompt", "TEXT", "the text; useful if it begins with a dash", &a.prompts, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "FILE", "a file with the text or the ids; - is standard input", &a.file, 0, 0, NULL},
        {CLI_FLAG, 'd', "decode", NULL, "convert token ids to text", &a.decode, 0, 0, NULL},
        {CLI_FLAG, 0, "pieces", NULL, "print a table of ids and their bytes, or names for control tokens", &a.pieces, 0,
         0, NULL},
        {CLI_FLAG, 0, "special", NULL, "with --decode: write control tokens, too", &a.special, 0, 0, NULL},
        CLI_NO_SPECIAL_OPTION(&a.no_special),
        {CLI_FLAG, 0, "no-bos", NULL, "do not add the tokens that the model puts in front of a text, such as BOS",
         &a.bare, 0, 0, NULL},
        {CLI_TEXT, 0, "template", "NAME",
         "treat the text as a user's message in this chat template; 'model' selects the model's own template",
         &a.template.name, 0, 0, NULL},
        {CLI_TEXT, 0, "system", "TEXT", "system message in front of the user's message", &a.template.system, 0, 0,
         NULL},
        CLI_TEMPLATE_OPTIONS(&a.template),
        {CLI_FLAG, 0, "json", NULL, "print JSON: the text, ids and pieces", &a.common.json, 0, 0, NULL},
        {.kind = CLI_END}};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    char *text = NULL;
    size_t bytes = 0;
    int status;

    cli_common_defaults(&a.common);
    a.common.backend = "ref"; /* the backend does not matter, because no layers are computed */
    status = cli_parse(command, options, argc, argv, &a.words);
    if (status == CLI_GO) {
        status = input(command, &a, &text, &bytes);
        if (status == KVC_OK)
            status = cli_open_model_or_text(command, &a.common, a.model, NULL, CLI_TEXT_OF_ANY, &engine, &model);
        if (status == KVC_OK)
            status =
                a.decode ? tokenize_decode(command, &a, model, text, bytes) : encode(command, &a, model, text, bytes);
        kvc_model_close(model);
        kvc_engine_close(engine);
        free(text);
    }
    cli_texts_free(&a.prompts);
    cli_words_free(&a.words);
    return status;
}
