/* families.c - kvcull info families: the supported model families, as a table or as Markdown. */
#include "cli/info/info.h"

static int markdown(const struct cli_command *command) {
    struct kvc_model_family family, next;
    printf("| family | GGUF | Hugging Face | differences |\n|---|---|---|---|\n");
    for (size_t i = 0; kvc_model_family(i, &family); i++) {
        printf("| %s | `%s` | `%s`", family.models, family.gguf, family.folder);
        while (kvc_model_family(i + 1, &next) && !next.models) {
            printf(", `%s`", next.folder);
            i++;
        }
        printf(" | %s |\n", family.apart);
    }
    return cli_flush(command);
}

static int json(const struct cli_command *command) {
    json_t *root = json_object(), *list = json_array();
    struct kvc_model_family family;
    const char *models = "", *apart = "";
    for (size_t i = 0; list && kvc_model_family(i, &family); i++) {
        json_t *one = json_object();
        models = family.models ? family.models : models;
        apart = family.models ? family.apart : apart;
        cli_json_set(one, "models", json_string(models));
        cli_json_set(one, "gguf", json_string(family.gguf));
        cli_json_set(one, "folder", json_string(family.folder));
        cli_json_set(one, "apart", json_string(apart));
        cli_json_add(list, one);
    }
    cli_json_set(root, "families", list);
    return cli_json_print(command, root, stdout);
}

int info_families(const struct cli_command *command, const struct info_arguments *a) {
    struct kvc_model_family family;
    if (a->common.json)
        return json(command);
    if (a->markdown)
        return markdown(command);
    struct cli_table *table = cli_table_open("<models|<GGUF|<Hugging Face");
    for (size_t i = 0; kvc_model_family(i, &family); i++) {
        cli_cell(table, "%s", family.models ? family.models : "");
        cli_cell(table, "%s", family.gguf);
        cli_cell(table, "%s", family.folder);
    }
    const int status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status == KVC_OK ? cli_flush(command) : status;
}
