/* convert.h - rewrites a tensor in another type while it is copied into a GGUF file or a Hugging Face folder. libc
 * only, except folders. */
#ifndef KVC_MODELS_CONVERT_CONVERT_H
#define KVC_MODELS_CONVERT_CONVERT_H

#include "core/base/threads.h"
#include "models/config/plan.h"

struct kvc_converter {
    struct kvc_threads *threads;
    struct kvc_gguf_writer *writer;
    struct kvc_tensor_writer *tensors; /* of a folder, in place of the writer; else NULL */
    const char *from;                  /* the source's path, for errors */
    unsigned char *rows;               /* a chunk of finished rows */
    float *floats;                     /* one row per thread */
    size_t rows_capacity, floats_capacity;
};

enum kvc_status kvc_converter_open(const char *from, struct kvc_converter *converter, struct kvc_error *error);
void kvc_converter_close(struct kvc_converter *converter); /* abandons the writers where they are still there */

/* Appends all rows of `tensor` as the writer's tensor `index`, of type `to`. interleaved: rows are put from half-split
 * into interleaved order, or back where a folder is written, within each of that many heads, for the first `rotary`
 * rows of a head; 0: they stay. A vector counts as a column then (biases). */
enum kvc_status kvc_convert_tensor(struct kvc_converter *converter, const struct kvc_file_tensor *tensor,
                                   enum kvc_type to, uint64_t interleaved, uint64_t rotary, size_t index,
                                   struct kvc_error *error);

/* The tensor `index` of a folder of gpt-oss, in F32, F16 or BF16: [experts, inputs, outputs] of stacks [experts,
 * outputs, inputs], or [experts, outputs] of biases. Where there are two, of one shape, their outputs take turns. */
enum kvc_status kvc_convert_stacked(struct kvc_converter *converter, const struct kvc_file_tensor *const *parts,
                                    size_t count, enum kvc_type type, size_t index, struct kvc_error *error);

/* Whether a tensor keeps its type: stacks of experts in MXFP4 where another block type is asked for, which would lose
 * what they hold and seldom be smaller. */
bool kvc_stays(const struct kvc_file_tensor *tensor, enum kvc_type asked);

struct kvc_safetensors;
/* KVC_INPUT where the folder has a tensor that is neither in the plan nor one of those that no model needs. */
enum kvc_status kvc_convert_unused(const struct kvc_safetensors *file, const struct kvc_config *config,
                                   const struct kvc_plan *plan, const char *from, struct kvc_error *error);

/* Opens the model that lies at `written` until it is named `to`. What fails is reported as KVC_INPUT, or KVC_RESOURCE.
 */
enum kvc_status kvc_convert_read_back(const char *written, const char *to, struct kvc_error *error);

/* KVC_USAGE where the name is that of a part of a split model: the file could not be opened under it. */
enum kvc_status kvc_convert_check_name(const char *to, struct kvc_error *error);

/* Both write the file `to`. */
enum kvc_status kvc_convert_gguf(struct kvc_converter *converter, const char *to, enum kvc_type type,
                                 struct kvc_replaced *replaced, struct kvc_error *error);
enum kvc_status kvc_convert_folder(struct kvc_converter *converter, const char *to, enum kvc_type type,
                                   struct kvc_replaced *replaced, struct kvc_error *error); /* jansson */
/* Writes the folder `to`. folder: the source is one, too. */
enum kvc_status kvc_convert_to_folder(struct kvc_converter *converter, bool folder, const char *to, enum kvc_type type,
                                      struct kvc_error *error); /* jansson */

/* The type of a folder that is made of `from`: see kvc_convert_type. */
enum kvc_status kvc_convert_folder_type(const char *from, bool folder, enum kvc_type *type,
                                        struct kvc_error *error); /* jansson */

#endif
