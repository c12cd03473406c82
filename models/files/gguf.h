/* gguf.h - reads GGUF v2 and v3 files. Files are memory-mapped and not trusted. libc only. */
#ifndef KVC_MODELS_FILES_GGUF_H
#define KVC_MODELS_FILES_GGUF_H

#include "kvcull.h"

struct kvc_gguf;

enum kvc_gguf_type { /* value types, with the format's numbers */
                     KVC_GGUF_U8,
                     KVC_GGUF_I8,
                     KVC_GGUF_U16,
                     KVC_GGUF_I16,
                     KVC_GGUF_U32,
                     KVC_GGUF_I32,
                     KVC_GGUF_F32,
                     KVC_GGUF_BOOL,
                     KVC_GGUF_STRING,
                     KVC_GGUF_ARRAY,
                     KVC_GGUF_U64,
                     KVC_GGUF_I64,
                     KVC_GGUF_F64
};

struct kvc_scaled;
enum kvc_raw { KVC_RAW_NONE, KVC_RAW_F8_E4M3, KVC_RAW_U8 };

/* A tensor in a GGUF or safetensors file. `cols` is the last dimension, and `rows` the product of all others. */
struct kvc_file_tensor {
    const char *name; /* NUL-terminated; owned by the file object */
    enum kvc_type type;
    uint64_t rows, cols;
    uint32_t dimensions;
    uint64_t shape[4]; /* outermost first (GGUF files store the reverse) */
    const void *data;  /* in the mapping, checked to lie inside the file */
    uint64_t bytes;
    struct kvc_scaled *scaled; /* if set, `data` is NULL until it is computed on demand (models/files/scaled.h) */
    enum kvc_raw raw;          /* raw element type; used only while a safetensors file is opened */
};

/* Returns KVC_USAGE if the name of a file to write is the name of one part of a split model, such as
 * NAME-00001-of-00003.gguf: the file could not be opened under such a name. */
enum kvc_status kvc_gguf_check_output(const char *to, struct kvc_error *error);
/* Opens a file, or a split model given any of its parts. */
enum kvc_status kvc_gguf_open(const char *path, struct kvc_gguf **file, struct kvc_error *error);
void kvc_gguf_let_go(const struct kvc_gguf *file); /* calls kvc_map_let_go for every file of the model */
void kvc_gguf_close(struct kvc_gguf *file);
size_t kvc_gguf_tensor_count(const struct kvc_gguf *file);
const struct kvc_file_tensor *kvc_gguf_tensor_at(const struct kvc_gguf *file, size_t i);
const struct kvc_file_tensor *kvc_gguf_tensor(const struct kvc_gguf *file, const char *name); /* NULL: none */

/* Metadata. These return false if the key is missing or has another type. Integer types convert if the value fits;
 * kvc_gguf_real also accepts integers. */
bool kvc_gguf_has(const struct kvc_gguf *file, const char *key);
bool kvc_gguf_uint(const struct kvc_gguf *file, const char *key, uint64_t *value);
bool kvc_gguf_real(const struct kvc_gguf *file, const char *key, double *value);
bool kvc_gguf_bool(const struct kvc_gguf *file, const char *key, bool *value);
bool kvc_gguf_string(const struct kvc_gguf *file, const char *key, const char **text,
                     size_t *bytes); /* not NUL-terminated */
/* Arrays: kvc_gguf_array returns the element type and count. The other functions return single elements;
 * kvc_gguf_array_real reads only float32 and float64 arrays. Access takes constant time, for strings too. */
bool kvc_gguf_array(const struct kvc_gguf *file, const char *key, enum kvc_gguf_type *type, uint64_t *count);
bool kvc_gguf_array_uint(const struct kvc_gguf *file, const char *key, uint64_t i, uint64_t *value);
bool kvc_gguf_array_int(const struct kvc_gguf *file, const char *key, uint64_t i, int64_t *value);
bool kvc_gguf_array_real(const struct kvc_gguf *file, const char *key, uint64_t i, double *value);
bool kvc_gguf_array_string(const struct kvc_gguf *file, const char *key, uint64_t i, const char **text, size_t *bytes);
/* Gets the key and the value type of the i-th metadata item. A caller can copy all metadata with it. Returns false if i
 * is past the last key. */
bool kvc_gguf_key(const struct kvc_gguf *file, size_t i, const char **key, enum kvc_gguf_type *type);
/* Returns the i-th value's bytes in the file, including lengths but not its type, or NULL if i is past the last value.
 */
const unsigned char *kvc_gguf_value_data(const struct kvc_gguf *file, size_t i, uint64_t *bytes);
/* Returns the format's number of a tensor type. */
uint32_t kvc_gguf_file_type(enum kvc_type type);

#endif
