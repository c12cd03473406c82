/* convert.c - kvcull convert and kvcull mkmodel: write GGUF files and Hugging Face folders. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

static bool is_folder_name(const char *path) { return path[0] != '\0' && path[strlen(path) - 1] == '/'; }

static int print_written(const struct cli_command *command, const struct cli_common *common, const char *path,
                         enum kvc_type type, const char *note, double seconds) {
    struct stat about;
    char text[2][32], file[PATH_MAX];

    snprintf(file, sizeof file, "%s%s", path, is_folder_name(path) ? "model.safetensors" : "");
    if (stat(file, &about) != 0)
        about.st_size = 0;
    if (common->json) {
        json_t *root = json_object();

        cli_json_set(root, "out", cli_json_text(path, strlen(path)));
        cli_json_set(root, "type", json_string(kvc_type_name(type)));
        cli_json_set(root, "bytes", json_integer((json_int_t)about.st_size));
        if (note[0] != '\0')
            cli_json_set(root, "note", json_string(note));
        cli_json_set(root, "seconds", json_real(seconds));
        return cli_json_print(command, root, stdout);
    }
    if (!common->quiet && note[0] != '\0')
        fprintf(stderr, "%s: %s\n", path, note);
    if (!common->quiet)
        fprintf(stderr, "%s: %s of %s in %s\n", path, cli_bytes((uint64_t)about.st_size, text[0]), kvc_type_name(type),
                cli_time(seconds, text[1]));
    return KVC_OK;
}

int kvc_cli_convert(const struct cli_command *command, int argc, char **argv) {
    struct cli_common common;
    const char *out = NULL;
    enum kvc_type type = KVC_TYPES;
    const struct cli_option options[] = {
        {CLI_TEXT, 'o', "out", "OUT", "GGUF file to write or, if OUT ends in a slash, Hugging Face folder", &out, 0, 0,
         NULL},
        {CLI_TYPE, 0, "type", "TYPE",
         "type of the matrices (default: q8_0). A folder takes f32, f16 or bf16 (default: the type of the source if "
         "that is f32 or bf16, else f16). Norms and biases stay f32",
         &type, 0, 0, NULL},
        CLI_OUTPUT_OPTIONS(&common),
        {.kind = CLI_END}};
    struct cli_words words = {NULL, 0};
    struct kvc_error error;
    double start = cli_seconds();
    int status;

    cli_common_defaults(&common);
    status = cli_parse(command, options, argc, argv, &words);
    if (status == CLI_GO) {
        if (words.count != 1)
            status = cli_error(command, KVC_USAGE, "give one model to convert, a Hugging Face folder or a GGUF file");
        else if (!out)
            status =
                cli_error(command, KVC_USAGE, "give the file to write with -o OUT.gguf, or the folder with -o OUT/");
        else if (is_folder_name(out) && type != KVC_TYPES && type != KVC_F32 && type != KVC_F16 && type != KVC_BF16)
            status = cli_error(command, KVC_USAGE, "%s: a Hugging Face folder is of --type f32, f16 or bf16, not %s",
                               out, kvc_type_name(type));
        else if ((status = cli_check_name(command, "out", out)) != KVC_OK ||
                 (status = cli_check_inputs(command, out, (const char *const *)words.items, 1)) != KVC_OK)
            ;
        else if (type == KVC_TYPES && kvc_convert_type(words.items[0], out, &type, &error) != KVC_OK)
            status = cli_report(command, &error);
        else if (kvc_convert(words.items[0], out, type, &error) != KVC_OK)
            status = cli_report(command, &error);
        else
            status = print_written(command, &common, out, type, error.text, cli_seconds() - start);
    }
    cli_words_free(&words);
    return status;
}

int kvc_cli_mkmodel(const struct cli_command *command, int argc, char **argv) {
    struct cli_common common;
    const char *out = NULL, *shape = NULL;
    enum kvc_type type = KVC_F16;
    int64_t seed = 0;
    bool list = false;
    const struct cli_option options[] = {
        {CLI_TEXT, 0, "shape", "NAME", "geometry; --list shows them", &shape, 0, 0, NULL},
        {CLI_TYPE, 0, "type", "TYPE", "type of the matrices; norms stay f32", &type, 0, 0, NULL},
        {CLI_INT, 0, "seed", "S", "seed of the random weights", &seed, 0, 9007199254740992.0, NULL},
        {CLI_TEXT, 'o', "out", "OUT", "GGUF file to write", &out, 0, 0, NULL},
        {CLI_FLAG, 0, "list", NULL, "list the shapes", &list, 0, 0, NULL},
        CLI_OUTPUT_OPTIONS(&common),
        {.kind = CLI_END}};
    struct kvc_error error;
    double start = cli_seconds();
    int status;

    cli_common_defaults(&common);
    status = cli_parse(command, options, argc, argv, NULL);
    if (status != CLI_GO)
        return status;
    if (list)
        return cli_names(command, &common, "<shape|<geometry", "shapes", kvc_shape);
    if (!shape)
        return cli_error(command, KVC_USAGE, "give a geometry with --shape NAME; --list shows them");
    if (!out)
        return cli_error(command, KVC_USAGE, "give the file to write with -o OUT.gguf");
    status = cli_check_name(command, "out", out);
    if (status != KVC_OK)
        return status;
    if (kvc_make_model(shape, type, (uint64_t)seed, out, &error) != KVC_OK)
        return cli_report(command, &error);
    return print_written(command, &common, out, type, error.text, cli_seconds() - start);
}
