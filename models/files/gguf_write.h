/* gguf_write.h - writes GGUF v3 files: first metadata and tensor shapes, then the tensors' bytes in any order. The file
 * gets its final name when it is complete. libc only. */
#ifndef KVC_MODELS_FILES_GGUF_WRITE_H
#define KVC_MODELS_FILES_GGUF_WRITE_H

#include "models/files/gguf.h"

struct kvc_gguf_writer;

struct kvc_gguf_writer *kvc_gguf_writer_new(void); /* NULL: no memory */
/* Metadata, in order. A failed allocation is reported by kvc_gguf_writer_begin. */
void kvc_gguf_put_uint32(struct kvc_gguf_writer *writer, const char *key, uint32_t value);
void kvc_gguf_put_float32(struct kvc_gguf_writer *writer, const char *key, float value);
void kvc_gguf_put_bool(struct kvc_gguf_writer *writer, const char *key, bool value);
void kvc_gguf_put_string(struct kvc_gguf_writer *writer, const char *key, const char *text, size_t bytes);
void kvc_gguf_put_int32s(struct kvc_gguf_writer *writer, const char *key, const int32_t *values, size_t count);
void kvc_gguf_put_float32s(struct kvc_gguf_writer *writer, const char *key, const float *values, size_t count);
void kvc_gguf_put_bools(struct kvc_gguf_writer *writer, const char *key, const unsigned char *values, size_t count);
/* An array of strings: call put_strings once, then add_string exactly `count` times. */
void kvc_gguf_put_strings(struct kvc_gguf_writer *writer, const char *key, size_t count);
void kvc_gguf_add_string(struct kvc_gguf_writer *writer, const char *text, size_t bytes);
/* Copies a value as another file stores it (kvc_gguf_value_data). */
void kvc_gguf_put_raw(struct kvc_gguf_writer *writer, const char *key, enum kvc_gguf_type type,
                      const unsigned char *data, uint64_t bytes);
/* Adds a tensor. The order of calls is the order of the data; shape is outermost first. Returns the tensor's index. */
size_t kvc_gguf_add_tensor(struct kvc_gguf_writer *writer, const char *name, enum kvc_type type, uint32_t dimensions,
                           const uint64_t *shape);

/* Writes everything except the tensors' data. */
enum kvc_status kvc_gguf_writer_begin(struct kvc_gguf_writer *writer, const char *path, struct kvc_error *error);
/* Appends bytes to a tensor. Tensors may be written in any order. */
enum kvc_status kvc_gguf_write(struct kvc_gguf_writer *writer, size_t tensor, const void *data, size_t bytes,
                               struct kvc_error *error);
/* Completes the file; every tensor must be complete. *path receives the temporary path, for reading the file back
 * before it is committed. */
enum kvc_status kvc_gguf_writer_finish(struct kvc_gguf_writer *writer, const char **path, struct kvc_error *error);
/* Both free the writer. commit calls finish first. */
enum kvc_status kvc_gguf_writer_commit(struct kvc_gguf_writer *writer, struct kvc_error *error);
void kvc_gguf_writer_abandon(struct kvc_gguf_writer *writer); /* NULL is allowed */

#endif
