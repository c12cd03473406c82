/* gguf_write.h - writes GGUF v3 files: metadata and tensor shapes first, then the tensors' bytes as they come. The file
 * gets its name when it is complete. libc only. */
#ifndef KVC_MODELS_FILES_GGUF_WRITE_H
#define KVC_MODELS_FILES_GGUF_WRITE_H

#include "models/files/gguf.h"

struct kvc_gguf_writer;

struct kvc_gguf_writer *kvc_gguf_writer_new(void); /* NULL: no memory */
/* Metadata, in order. A lack of memory is remembered and told by begin. */
void kvc_gguf_put_uint32(struct kvc_gguf_writer *writer, const char *key, uint32_t value);
void kvc_gguf_put_float32(struct kvc_gguf_writer *writer, const char *key, float value);
void kvc_gguf_put_bool(struct kvc_gguf_writer *writer, const char *key, bool value);
void kvc_gguf_put_string(struct kvc_gguf_writer *writer, const char *key, const char *text, size_t bytes);
void kvc_gguf_put_int32s(struct kvc_gguf_writer *writer, const char *key, const int32_t *values, size_t count);
void kvc_gguf_put_float32s(struct kvc_gguf_writer *writer, const char *key, const float *values, size_t count);
void kvc_gguf_put_bools(struct kvc_gguf_writer *writer, const char *key, const unsigned char *values, size_t count);
/* An array of strings: put_strings, then exactly count times add_string. */
void kvc_gguf_put_strings(struct kvc_gguf_writer *writer, const char *key, size_t count);
void kvc_gguf_add_string(struct kvc_gguf_writer *writer, const char *text, size_t bytes);
/* A value as another file has it (kvc_gguf_value_data). */
void kvc_gguf_put_raw(struct kvc_gguf_writer *writer, const char *key, enum kvc_gguf_type type,
                      const unsigned char *data, uint64_t bytes);
/* Tensors, in the order of their data; shape outermost first. Returns the tensor's index. */
size_t kvc_gguf_add_tensor(struct kvc_gguf_writer *writer, const char *name, enum kvc_type type, uint32_t dimensions,
                           const uint64_t *shape);

/* Writes everything but the tensors' data. */
enum kvc_status kvc_gguf_writer_begin(struct kvc_gguf_writer *writer, const char *path, struct kvc_error *error);
/* Appends to a tensor; tensors may be filled in any order. */
enum kvc_status kvc_gguf_write(struct kvc_gguf_writer *writer, size_t tensor, const void *data, size_t bytes,
                               struct kvc_error *error);
/* The file is complete, each tensor of it; *path: where it lies, until it is committed, to be read again. */
enum kvc_status kvc_gguf_writer_finish(struct kvc_gguf_writer *writer, const char **path, struct kvc_error *error);
/* Both free the writer; commit finishes it first. */
enum kvc_status kvc_gguf_writer_commit(struct kvc_gguf_writer *writer, struct kvc_error *error);
void kvc_gguf_writer_abandon(struct kvc_gguf_writer *writer); /* NULL is fine */

#endif
