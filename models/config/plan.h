/* plan.h - what a GGUF file of a model holds: its metadata and the list of its tensors, from the model's description.
 * libc only. */
#ifndef KVC_MODELS_CONFIG_PLAN_H
#define KVC_MODELS_CONFIG_PLAN_H

#include "models/config/config.h"
#include "models/files/gguf_write.h"

enum kvc_plan_kind {
    KVC_PLAN_MATRIX,
    KVC_PLAN_EXPERTS, /* a stack of matrices */
    KVC_PLAN_NORM,
    KVC_PLAN_BIAS,
    KVC_PLAN_FACTORS /* of rotary frequencies */
};

struct kvc_expert_name; /* names.h */
struct kvc_norm_name;

struct kvc_planned_tensor {
    char name[80], hf[80]; /* in GGUF and in Hugging Face files; hf is "" for what comes from config.json */
    enum kvc_plan_kind kind;
    enum kvc_type type;
    uint32_t dimensions;
    uint64_t shape[3]; /* outermost first */
    uint32_t layer;
    const struct kvc_expert_name *experts; /* of KVC_PLAN_EXPERTS, and of biases of stacks */
    const struct kvc_norm_name *norm;      /* of KVC_PLAN_NORM, in a layer */
    bool apart;           /* folders have a tensor for each of shape[0], experts or heads, and hf is the first's */
    uint64_t interleaved; /* heads whose rows come half-split in Hugging Face files and interleaved in GGUF; 0: none */
    float *factors;       /* values of KVC_PLAN_FACTORS */
};

struct kvc_replaced { /* matrices whose rows do not fit the asked type, by the type they get instead */
    size_t q8_0, f16;
};

struct kvc_plan {
    struct kvc_planned_tensor *tensors;
    size_t count;
    struct kvc_replaced replaced;
};

/* Matrices get the asked type, where their rows fit its blocks; else q8_0 or f16. All others are F32. */
enum kvc_status kvc_plan_build(const struct kvc_config *config, enum kvc_type type, struct kvc_plan *plan,
                               struct kvc_error *error);
/* Tensors of a folder that a planned one is made of: none where it comes from config.json, one where it is not apart.
 */
uint64_t kvc_plan_parts(const struct kvc_planned_tensor *planned);
/* What folders call the part of a planned tensor, and all of it where it is not apart. */
void kvc_plan_part(const struct kvc_config *config, const struct kvc_planned_tensor *planned, uint32_t part, char *name,
                   size_t capacity);
void kvc_plan_free(struct kvc_plan *plan);
enum kvc_type kvc_plan_type(enum kvc_type asked, uint64_t cols, struct kvc_replaced *replaced);
/* Puts a note about replaced types in error->text, or an empty one; the status there is KVC_OK. */
void kvc_plan_note(const struct kvc_replaced *replaced, enum kvc_type asked, struct kvc_error *error);

/* Everything below "<architecture>." and general.*, without the tokenizer. type: the one that was asked for. */
enum kvc_status kvc_plan_metadata(const struct kvc_config *config, const struct kvc_plan *plan, enum kvc_type type,
                                  const char *name, struct kvc_gguf_writer *writer, struct kvc_error *error);
/* general.file_type of a file whose matrices are of this type. */
uint32_t kvc_plan_file_type(enum kvc_type type);

#endif
