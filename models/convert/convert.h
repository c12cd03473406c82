/* convert.h - converts tensors to another type while copying them into a GGUF file or a Hugging Face folder. libc only,
 * except for folders. */
#ifndef KVC_MODELS_CONVERT_CONVERT_H
#define KVC_MODELS_CONVERT_CONVERT_H

#include "core/base/threads.h"
#include "models/config/plan.h"

struct kvc_converter {
    struct kvc_threads *threads;
    struct kvc_gguf_writer *writer;
    struct kvc_tensor_writer *tensors; /* writer of a folder, used in place of `writer`; else NULL */
    const char *from;                  /* the source's path, for errors */
    unsigned char *rows;               /* a chunk of converted rows */
    float *floats;                     /* one row per thread */
    size_t rows_capacity, floats_capacity;
};

enum kvc_status kvc_converter_open(const char *from, struct kvc_converter *converter, struct kvc_error *error);
void kvc_converter_close(struct kvc_converter *converter); /* abandons unfinished writers */

/* Appends all rows of `tensor` to the writer's tensor `index`, converted to type `to`. `interleaved` is a number of
 * heads; within each head the first `rotary` rows are reordered from half-split to interleaved, or back if a folder is
 * written. 0 keeps the order of rows. A vector (bias) counts as a column here. */
enum kvc_status kvc_convert_tensor(struct kvc_converter *converter, const struct kvc_file_tensor *tensor,
                                   enum kvc_type to, uint64_t interleaved, uint64_t rotary, size_t index,
                                   struct kvc_error *error);

/* Writes tensor `index` of a gpt-oss folder in F32, F16 or BF16. Stacks [experts, outputs, inputs] become [experts,
 * inputs, outputs]; biases remain [experts, outputs]. Two parts of the same shape are interleaved by output. */
enum kvc_status kvc_convert_stacked(struct kvc_converter *converter, const struct kvc_file_tensor *const *parts,
                                    size_t count, enum kvc_type type, size_t index, struct kvc_error *error);

/* Returns true if a tensor keeps its type: stacks of experts in MXFP4 when another block type is requested. Converting
 * them would lose precision and rarely save memory. */
bool kvc_stays(const struct kvc_file_tensor *tensor, enum kvc_type asked);

struct kvc_safetensors;
/* Returns KVC_INPUT if the folder has a tensor that is neither in the plan nor ignored (kvc_tensor_ignored). */
enum kvc_status kvc_convert_unused(const struct kvc_safetensors *file, const struct kvc_config *config,
                                   const struct kvc_plan *plan, const char *from, struct kvc_error *error);

/* Opens the model at its temporary path `written`, before it is renamed to `to`. Reports a failure as KVC_INPUT or
 * KVC_RESOURCE. */
enum kvc_status kvc_convert_read_back(const char *written, const char *to, struct kvc_error *error);

/* Write the file `to`. */
enum kvc_status kvc_convert_gguf(struct kvc_converter *converter, const char *to, enum kvc_type type,
                                 struct kvc_replaced *replaced, struct kvc_error *error);
enum kvc_status kvc_convert_folder(struct kvc_converter *converter, const char *to, enum kvc_type type,
                                   struct kvc_replaced *replaced, struct kvc_error *error); /* uses jansson */
/* Writes the folder `to`. `folder` is true if the source is a folder. */
enum kvc_status kvc_convert_to_folder(struct kvc_converter *converter, bool folder, const char *to, enum kvc_type type,
                                      struct kvc_error *error); /* uses jansson */

/* Chooses the type of a folder made from `from`: see kvc_convert_type. */
enum kvc_status kvc_convert_folder_type(const char *from, bool folder, enum kvc_type *type,
                                        struct kvc_error *error); /* uses jansson */

#endif
