/* plan.h - the contents of a model's GGUF file (metadata and list of tensors), derived from the model's description.
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
    KVC_PLAN_FACTORS /* factors of rotary frequencies */
};

struct kvc_expert_name; /* names.h */
struct kvc_norm_name;

struct kvc_planned_tensor {
    char name[80], hf[80]; /* names in GGUF and Hugging Face files; hf is "" for values from config.json */
    enum kvc_plan_kind kind;
    enum kvc_type type;
    uint32_t dimensions;
    uint64_t shape[3]; /* outermost first */
    uint32_t layer;
    const struct kvc_expert_name *experts; /* for KVC_PLAN_EXPERTS and for stacked biases */
    const struct kvc_norm_name *norm;      /* for KVC_PLAN_NORM, in a layer */
    bool apart;           /* folders have shape[0] tensors, one per expert or head; hf is the first one's name */
    uint64_t interleaved; /* number of heads whose rows are half-split in Hugging Face files and interleaved in GGUF
                             files; 0: none */
    float *factors;       /* values of KVC_PLAN_FACTORS */
};

struct kvc_replaced { /* matrices whose rows do not fit the requested type, counted by the type they get instead */
    size_t q8_0, f16;
};

struct kvc_plan {
    struct kvc_planned_tensor *tensors;
    size_t count;
    struct kvc_replaced replaced;
};

/* Builds the list of tensors. Matrices get the requested type if their rows fit its blocks, else q8_0 or f16. All other
 * tensors are F32. */
enum kvc_status kvc_plan_build(const struct kvc_config *config, enum kvc_type type, struct kvc_plan *plan,
                               struct kvc_error *error);
/* Returns how many tensors of a folder make up the planned tensor: shape[0] if `apart` is set, 0 if the values come
 * from config.json, otherwise 1. */
uint64_t kvc_plan_parts(const struct kvc_planned_tensor *planned);
/* Writes the name that folders use for a planned tensor or, if `apart` is set, for its part number `part`. */
void kvc_plan_part(const struct kvc_config *config, const struct kvc_planned_tensor *planned, uint32_t part, char *name,
                   size_t capacity);
void kvc_plan_free(struct kvc_plan *plan);
enum kvc_type kvc_plan_type(enum kvc_type asked, uint64_t cols, struct kvc_replaced *replaced);
/* Writes a note about replaced types to error->text, or an empty text if no type was replaced. Sets error->status to
 * KVC_OK. */
void kvc_plan_note(const struct kvc_replaced *replaced, enum kvc_type asked, struct kvc_error *error);

/* Writes all keys of "<architecture>." and "general.", without the tokenizer. `type` is the requested type. */
enum kvc_status kvc_plan_metadata(const struct kvc_config *config, const struct kvc_plan *plan, enum kvc_type type,
                                  const char *name, struct kvc_gguf_writer *writer, struct kvc_error *error);
/* Returns general.file_type for a file whose matrices have this type. */
uint32_t kvc_plan_file_type(enum kvc_type type);

#endif
