/* network_load.h - the steps of loading a network's tensors, shared by network.c, network_delta.c and
 * network_experts.c. */
#ifndef KVC_MODELS_NETWORK_LOAD_H
#define KVC_MODELS_NETWORK_LOAD_H

#include "models/network.h"
#include "models/network_info.h"

enum { KVC_LAYER_SPANS = 24 }; /* upper limit of norms, biases and sinks per layer */

struct kvc_loader {
    struct kvc_device *device;
    const struct kvc_config *config;
    bool gguf;
    const struct kvc_tensors *tensors;
    const char *where;
    bool elsewhere; /* another rank holds the current layer: check and count its tensors, but make no weights */
    struct kvc_network *network;
    struct kvc_error *error;
    struct kvc_loaded loaded;
    const void **experts; /* [experts]: data of their matrices while a weight is made */
    /* Norms and biases of one layer, collected for one buffer. */
    float *floats;
    size_t float_count, float_capacity;
    struct kvc_span *spans[KVC_LAYER_SPANS];
    size_t span_count;
};

enum kvc_status kvc_loader_no_memory(const struct kvc_loader *in);
/* Finds a tensor of the file by name and calls kvc_tensor_make, except for another rank's matrix. */
enum kvc_status kvc_loader_find(struct kvc_loader *in, const char *name, const struct kvc_file_tensor **tensor);
enum kvc_status kvc_loader_check_matrix(const struct kvc_loader *in, const struct kvc_file_tensor *tensor,
                                        uint64_t outputs, uint64_t inputs);
enum kvc_status kvc_loader_matrix(struct kvc_loader *in, const char *name, uint64_t outputs, uint64_t inputs,
                                  struct kvc_weight **weight);
/* Records that this rank reads these bytes, so that ranks can be compared (models/same_files.h). */
enum kvc_status kvc_loader_note(struct kvc_loader *in, const void *data, uint64_t bytes);
/* Returns this rank's range of outputs. If `heads` is true, the outputs belong to heads, and `outputs` is a multiple of
 * the number of KV heads. A single rank has all outputs. */
struct kvc_range kvc_loader_range(const struct kvc_loader *in, uint64_t outputs, bool heads);
/* Adds a weight to the network's list. */
void kvc_loader_keep(struct kvc_loader *in, struct kvc_weight *weight, uint64_t rows, uint64_t inputs);
/* Makes a weight of some rows of a matrix of `type`. The data is not copied. */
enum kvc_status kvc_loader_rows(struct kvc_loader *in, enum kvc_type type, struct kvc_range rows, uint64_t inputs,
                                const void *data, struct kvc_weight **weight);
/* Makes a weight of this rank's rows of the matrix [outputs, inputs]. */
enum kvc_status kvc_loader_weight(struct kvc_loader *in, enum kvc_type type, uint64_t outputs, uint64_t inputs,
                                  const void *data, struct kvc_weight **weight);
/* Return the values of a tensor, or of the vector with this name, as float32. The caller frees them. */
enum kvc_status kvc_loader_dequantize(struct kvc_loader *in, const struct kvc_file_tensor *tensor, float **values);
enum kvc_status kvc_loader_vector(struct kvc_loader *in, const char *name, uint64_t length, float **values);
/* Adds values to the layer's buffer and sets span->offset. kvc_loader_flush sets span->buffer. */
enum kvc_status kvc_loader_add_floats(struct kvc_loader *in, const float *values, size_t count, struct kvc_span *span);
/* kvc_loader_norm collects a norm's weights, `length` numbers. kvc_loader_flush copies everything collected into one
 * buffer. */
enum kvc_status kvc_loader_norm(struct kvc_loader *in, const char *name, uint64_t length, struct kvc_span *span);
enum kvc_status kvc_loader_flush(struct kvc_loader *in);
/* Determines the layers and heads of this rank. If `ranks` is NULL, this rank has all of them. Returns false if there
 * are more stages than layers. */
bool kvc_network_share(struct kvc_network *network, struct kvc_ranks *ranks);
/* Loads the embedding, the final norm and the output head. */
enum kvc_status kvc_loader_ends(struct kvc_loader *in);
/* Loads the delta net of layer l, except for its norms and feed-forward network. */
enum kvc_status kvc_loader_delta(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer);
/* Loads the constants that all delta nets share. */
enum kvc_status kvc_loader_delta_units(struct kvc_loader *in);
/* Loads the router and the experts of layer l. */
enum kvc_status kvc_loader_experts(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer);

#endif
