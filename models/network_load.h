/* network_load.h - what loading a network's tensors takes, for network.c, network_delta.c and network_experts.c. */
#ifndef KVC_MODELS_NETWORK_LOAD_H
#define KVC_MODELS_NETWORK_LOAD_H

#include "models/network.h"
#include "models/network_info.h"

enum { KVC_LAYER_SPANS = 24 }; /* norms, biases and sinks of one layer, at most */

struct kvc_loader {
    struct kvc_device *device;
    const struct kvc_config *config;
    bool gguf;
    const struct kvc_tensors *tensors;
    const char *where;
    bool elsewhere; /* the layer at hand is another rank's: its tensors are checked and counted, no weights are made */
    struct kvc_network *network;
    struct kvc_error *error;
    struct kvc_loaded loaded;
    const void **experts; /* [experts]: where their matrices lie, while a weight is made */
    /* Norms and biases of one layer on their way into one buffer. */
    float *floats;
    size_t float_count, float_capacity;
    struct kvc_span *spans[KVC_LAYER_SPANS];
    size_t span_count;
};

enum kvc_status kvc_loader_no_memory(const struct kvc_loader *in);
/* A tensor of the file by its name, its data made. */
enum kvc_status kvc_loader_find(struct kvc_loader *in, const char *name, const struct kvc_file_tensor **tensor);
enum kvc_status kvc_loader_check_matrix(const struct kvc_loader *in, const struct kvc_file_tensor *tensor,
                                        uint64_t outputs, uint64_t inputs);
enum kvc_status kvc_loader_matrix(struct kvc_loader *in, const char *name, uint64_t outputs, uint64_t inputs,
                                  struct kvc_weight **weight);
/* Notes that this rank takes these bytes, where several must have the same (models/same_files.h). */
enum kvc_status kvc_loader_note(struct kvc_loader *in, const void *data, uint64_t bytes);
/* This rank's part of so many outputs (heads: of what heads give, a multiple of the KV heads): all, where there is one
 * rank. */
struct kvc_range kvc_loader_range(const struct kvc_loader *in, uint64_t outputs, bool heads);
/* These rows of a matrix of `type` at data, which stays where it is, as a weight. */
enum kvc_status kvc_loader_rows(struct kvc_loader *in, enum kvc_type type, struct kvc_range rows, uint64_t inputs,
                                const void *data, struct kvc_weight **weight);
/* The same, this rank's part of outputs x inputs. */
enum kvc_status kvc_loader_weight(struct kvc_loader *in, enum kvc_type type, uint64_t outputs, uint64_t inputs,
                                  const void *data, struct kvc_weight **weight);
/* A tensor's numbers, or those of a vector by its name, as float32, malloc'ed. */
enum kvc_status kvc_loader_dequantize(struct kvc_loader *in, const struct kvc_file_tensor *tensor, float **values);
enum kvc_status kvc_loader_vector(struct kvc_loader *in, const char *name, uint64_t length, float **values);
/* They go into the layer's buffer, and the span will say where. */
enum kvc_status kvc_loader_add_floats(struct kvc_loader *in, const float *values, size_t count, struct kvc_span *span);
/* A norm's weights, of so many numbers; and what was collected, into one buffer. */
enum kvc_status kvc_loader_norm(struct kvc_loader *in, const char *name, uint64_t length, struct kvc_span *span);
enum kvc_status kvc_loader_flush(struct kvc_loader *in);
/* Which layers this rank has, and which heads of them. ranks NULL: all. false: there are more stages than layers. */
bool kvc_network_share(struct kvc_network *network, struct kvc_ranks *ranks);
/* Embedding, final norm and head. */
enum kvc_status kvc_loader_ends(struct kvc_loader *in);
/* The delta net of layer l, but for its norms and its feed-forward network. */
enum kvc_status kvc_loader_delta(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer);
/* What all of them share. */
enum kvc_status kvc_loader_delta_units(struct kvc_loader *in);
/* The router and the experts of layer l. */
enum kvc_status kvc_loader_experts(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer);

#endif
