/* info.h - the parts of kvcull info. */
#ifndef KVC_CLI_INFO_H
#define KVC_CLI_INFO_H

#include "cli/cli.h"

struct info_arguments {
    struct cli_common common;
    struct cli_texts specs;
    int64_t prompt, generate;
    uint64_t memory; /* 0: what the machine has available */
    bool man, markdown;
};

int info_methods(const struct cli_command *command, const struct info_arguments *arguments, const char *name);
int info_method_manual(const struct cli_command *command, const struct kvc_engine *engine);
int info_method_markdown(const struct cli_command *command, const struct kvc_engine *engine);
int info_model(const struct cli_command *command, const struct info_arguments *arguments, const char *path);

/* "prompt, decode" */
void info_stages(unsigned stages, char text[64]);
/* What an option takes: "1..4096", "tokens or a share as 10%", "sum|max". */
void info_range(const struct kvc_option *option, char text[96]);

#endif
