/* info.h - declarations shared by the files of kvcull info. */
#ifndef KVC_CLI_INFO_INFO_H
#define KVC_CLI_INFO_INFO_H

#include "cli/cli.h"
#include "kvcull/policy.h"

struct info_arguments {
    struct cli_common common;
    struct cli_texts specs;
    int64_t prompt, generate;
    const char *ranks, *share;
    uint64_t memory; /* 0: use the result of info_available */
    bool man, markdown;
};

int info_methods(const struct cli_command *command, const struct info_arguments *arguments, const char *name);
/* Print a page in mdoc or in Markdown, about all methods or about one of them. */
int info_methods_manual(const struct cli_command *command, const struct kvc_engine *engine);
int info_method_manual(const struct cli_command *command, const struct kvc_policy_class *policy);
int info_methods_markdown(const struct cli_command *command, const struct kvc_engine *engine);
int info_method_markdown(const struct cli_command *command, const struct kvc_policy_class *policy);
int info_families(const struct cli_command *command, const struct info_arguments *arguments);
int info_model(const struct cli_command *command, const struct info_arguments *arguments, const char *path);

/* Prints the part of the model that each rank of --ranks would hold. *all receives true if every part fits. */
int info_parts(const struct cli_command *command, const struct info_arguments *arguments,
               const struct kvc_engine *engine, const struct kvc_model *model, uint64_t prompt, uint64_t memory,
               json_t *root, bool *all);

struct info_available {
    uint64_t bytes;  /* UINT64_MAX: unknown */
    char from[4400]; /* what sets the limit: "the machine", "memory.max of /sys/fs/cgroup/job" */
};
/* Computes the available memory. `root` is "", or in tests a folder that replaces "/". `mapped` is the number of bytes
 * of mapped files that the caller will request again; they do not count as used. */
void info_available(const char *root, uint64_t mapped, struct info_available *capacity);

/* A text that every policy class has. info_before lists the texts that come before the options, info_after those that
 * come after them. Each table ends with a row without a key. */
struct info_part {
    const char *key, *title;
    size_t offset;
};
extern const struct info_part info_before[], info_after[];
const char *info_text(const struct kvc_policy_class *policy,
                      const struct info_part *part); /* returns "" if the policy does not have the text */

/* Texts about all methods (rules.c). A table ends with a row without a name. */
struct info_rule {
    const char *name, *text;
};
extern const struct info_rule info_words[], info_stage_rules[], info_rules[];
extern const char info_joining[];

/* Writes the names of the stages, such as "prompt, decode". */
void info_stages(unsigned stages, char text[64]);
/* Writes the values of an option: "1..4096", "tokens or a share as 10%", "sum|max". */
void info_range(const struct kvc_option *option, char text[96]);

#endif
