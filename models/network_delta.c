/* network_delta.c - loads the tensors of gated delta nets. These are rows of fused matrices, reordered if the file's
 * order differs from the network's. libc only. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/trig.h"
#include "core/base/types.h"
#include "models/config/names.h"
#include "models/files/scaled.h"
#include "models/network_load.h"

/* Rows of a tensor: `pieces` groups of `rows` rows. The first group begins at row `first`, and each further one
 * `stride` rows later. If `by_head` is true, groups are value heads. Their order may differ between the file and the
 * network (head_of). */
struct slice {
    const char *stem;
    uint64_t first, rows, pieces, stride;
    bool by_head;
};

/* Returns the index that the network's value head h has in the file. */
static uint64_t head_of(const struct kvc_loader *in, uint64_t h) {
    const uint64_t keys = in->config->delta.key_heads, each = in->config->delta.heads / keys;
    return in->gguf || !in->config->family->delta_tiled ? h : h % keys * each + h / keys;
}

static bool moves_heads(const struct kvc_loader *in) {
    return in->config->delta.key_heads > 1 && in->config->delta.heads > in->config->delta.key_heads && !in->gguf &&
           in->config->family->delta_tiled;
}

static void delta_tensor(const struct kvc_loader *in, uint32_t l, const char *stem, const char *suffix,
                         char name[128]) {
    char text[64];
    snprintf(text, sizeof text, "%s%s", in->gguf ? "" : "linear_attn.", stem);
    kvc_layer_tensor(name, 128, in->gguf, l, text, suffix);
}

/* Allocates memory that is freed with the network. */
static void *take_host(struct kvc_loader *in, size_t bytes) {
    void *made = malloc(bytes ? bytes : 1);
    if (made) {
        in->network->host[in->network->host_count++] = made;
    }
    return made;
}

/* Makes a weight of a slice of a matrix, which has `all` rows. Adjacent rows remain in the mapping; others are
 * copied. */
static enum kvc_status load_slice(struct kvc_loader *in, uint32_t l, const struct slice *slice, uint64_t all,
                                  struct kvc_weight **weight) {
    const uint64_t inputs = in->config->hidden, outputs = slice->rows * slice->pieces;
    const struct kvc_file_tensor *tensor;
    char name[128];
    delta_tensor(in, l, slice->stem, "weight", name);
    enum kvc_status status = kvc_loader_find(in, name, &tensor);
    if (!status) {
        status = kvc_loader_check_matrix(in, tensor, all, inputs);
    }
    if (status || in->elsewhere) {
        return status;
    }
    const size_t row = kvc_type_row_bytes(tensor->type, inputs), piece = (size_t)slice->rows * row;
    const unsigned char *data = (const unsigned char *)kvc_tensor_data(tensor) + (size_t)slice->first * row;
    const bool moves = slice->by_head && moves_heads(in);
    if (!moves && (slice->pieces == 1 || slice->stride == slice->rows)) {
        return kvc_loader_weight(in, tensor->type, outputs, inputs, data, weight);
    }
    unsigned char *made = take_host(in, (size_t)outputs * row);
    status = made ? kvc_loader_note(in, kvc_tensor_data(tensor), tensor->bytes) : kvc_loader_no_memory(in);
    if (status) {
        return status;
    }
    for (uint64_t p = 0; p < slice->pieces; p++) {
        const uint64_t from = moves ? head_of(in, p) : p;
        memcpy(made + (size_t)p * piece, data + (size_t)(from * slice->stride) * row, piece);
    }
    return kvc_loader_weight(in, tensor->type, outputs, inputs, made, weight);
}

/* Loads the output projection, whose inputs are value heads. */
static enum kvc_status load_output(struct kvc_loader *in, uint32_t l, struct kvc_weight **weight) {
    const uint64_t outputs = in->config->hidden, size = in->config->delta.value_size;
    const uint64_t heads = in->config->delta.heads, inputs = heads * size;
    const struct kvc_file_tensor *tensor;
    char name[128];
    delta_tensor(in, l, in->gguf ? "ssm_out" : "out_proj", "weight", name);
    enum kvc_status status = kvc_loader_find(in, name, &tensor);
    if (!status) {
        status = kvc_loader_check_matrix(in, tensor, outputs, inputs);
    }
    if (status || in->elsewhere) {
        return status;
    }
    const unsigned char *data = kvc_tensor_data(tensor);
    if (!moves_heads(in)) {
        return kvc_loader_weight(in, tensor->type, outputs, inputs, data, weight);
    }
    const struct kvc_type_block block = kvc_type_block(tensor->type);
    if (size % block.elements != 0) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s is of type %s, whose blocks do not fit heads of %" PRIu64 " channels", in->where,
                        name, kvc_type_name(tensor->type), size);
    }
    const size_t row = kvc_type_row_bytes(tensor->type, inputs), piece = kvc_type_row_bytes(tensor->type, size);
    unsigned char *made = take_host(in, (size_t)outputs * row);
    status = made ? kvc_loader_note(in, data, tensor->bytes) : kvc_loader_no_memory(in);
    if (status) {
        return status;
    }
    for (uint64_t n = 0; n < outputs; n++) {
        for (uint64_t h = 0; h < heads; h++) {
            memcpy(made + n * row + h * piece, data + n * row + head_of(in, h) * piece, piece);
        }
    }
    return kvc_loader_weight(in, tensor->type, outputs, inputs, made, weight);
}

static enum kvc_status load_projections(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer) {
    const uint64_t key_heads = in->config->delta.key_heads, heads = in->config->delta.heads, each = heads / key_heads;
    const uint64_t n = in->config->delta.key_size, d = in->config->delta.value_size, keys = key_heads * n;
    const char *qkv = in->gguf ? "attn_qkv" : "in_proj_qkv", *z = in->gguf ? "attn_gate" : "in_proj_z";
    const char *a = in->gguf ? "ssm_alpha" : "in_proj_a", *b = in->gguf ? "ssm_beta" : "in_proj_b";
    const struct slice apart[] = {{qkv, 0, n, key_heads, n, false},   {qkv, keys, n, key_heads, n, false},
                                  {qkv, 2 * keys, d, heads, d, true}, {z, 0, d, heads, d, true},
                                  {a, 0, 1, heads, 1, true},          {b, 0, 1, heads, 1, true}};
    /* rows of each key head: query, key, values, gates; in the second matrix: betas, decays */
    const uint64_t group = 2 * n + 2 * each * d;
    const struct slice grouped[] = {{"in_proj_qkvz", 0, n, key_heads, group, false},
                                    {"in_proj_qkvz", n, n, key_heads, group, false},
                                    {"in_proj_qkvz", 2 * n, each * d, key_heads, group, false},
                                    {"in_proj_qkvz", 2 * n + each * d, each * d, key_heads, group, false},
                                    {in->gguf ? "ssm_ba" : "in_proj_ba", each, each, key_heads, 2 * each, false},
                                    {in->gguf ? "ssm_ba" : "in_proj_ba", 0, each, key_heads, 2 * each, false}};
    const uint64_t rows[2] = {2 * keys + heads * d, 2 * keys + 2 * heads * d};
    struct kvc_weight **to[] = {&layer->q,          &layer->k,           &layer->v,
                                &layer->delta_gate, &layer->delta_decay, &layer->delta_beta};
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; !status && i < sizeof to / sizeof *to; i++) {
        /* in delta_grouped families, GGUF files group only decays and betas; q, k, v and gates are separate */
        const bool by_group = in->config->family->delta_grouped && (!in->gguf || i > 3);
        const uint64_t all = i > 3 ? (by_group ? 2 * heads : heads) : by_group ? rows[1] : i == 3 ? heads * d : rows[0];
        status = load_slice(in, l, by_group ? &grouped[i] : &apart[i], all, to[i]);
    }
    return status;
}

/* Loads a vector with one number per head. If `rate` is true, converts the file's number to the factor in
 * core/base/delta.h. */
static enum kvc_status load_heads(struct kvc_loader *in, const char *name, bool rate, struct kvc_span *span) {
    const size_t heads = (size_t)in->config->delta.heads;
    float *values = NULL, *made = malloc(heads * sizeof *made);
    enum kvc_status status = made ? kvc_loader_vector(in, name, heads, &values) : kvc_loader_no_memory(in);
    for (size_t h = 0; !status && h < heads; h++) {
        const float value = values[head_of(in, h)];
        made[h] = rate && !in->gguf ? (float)-kvc_double_exp((double)value) : value;
        if (!isfinite(made[h]) || (rate && made[h] > 0)) {
            status = kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: the number of head %zu is %g, it must be %s",
                              in->where, name, h, (double)value, rate && in->gguf ? "finite, 0 or below" : "finite");
        }
    }
    if (!status) {
        status = kvc_loader_add_floats(in, made, heads, span);
    }
    free(values);
    free(made);
    return status;
}

/* Loads the weights of the convolutions, [channels, taps] or [channels, 1, taps], for queries, keys and values. */
static enum kvc_status load_taps(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer) {
    const size_t taps = (size_t)in->config->delta.taps, heads = (size_t)in->config->delta.heads;
    const size_t keys = (size_t)(in->config->delta.key_heads * in->config->delta.key_size);
    const size_t each = (size_t)in->config->delta.value_size * taps, channels = 2 * keys + heads * each / taps;
    const struct kvc_file_tensor *tensor;
    float *values = NULL, *made = NULL;
    char name[128];
    delta_tensor(in, l, in->gguf ? "ssm_conv1d" : "conv1d", "weight", name);
    enum kvc_status status = kvc_loader_find(in, name, &tensor);
    if (status) {
        return status;
    }
    const bool flat = tensor->dimensions == 2 || (tensor->dimensions == 3 && tensor->shape[1] == 1);
    if (!flat || tensor->rows != channels || tensor->cols != taps) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s has %" PRIu64 " x %" PRIu64 " numbers in %u dimensions, it must be %zu x %zu",
                        in->where, name, tensor->rows, tensor->cols, (unsigned)tensor->dimensions, channels, taps);
    }
    status = kvc_loader_dequantize(in, tensor, &values);
    if (!status) {
        made = malloc(heads * each * sizeof *made);
        status = made ? KVC_OK : kvc_loader_no_memory(in);
    }
    for (size_t h = 0; !status && h < heads; h++) {
        memcpy(made + h * each, values + 2 * keys * taps + head_of(in, h) * each, each * sizeof *made);
    }
    if (!status)
        status = kvc_loader_add_floats(in, values, keys * taps, &layer->q_taps);
    if (!status)
        status = kvc_loader_add_floats(in, values + keys * taps, keys * taps, &layer->k_taps);
    if (!status)
        status = kvc_loader_add_floats(in, made, heads * each, &layer->v_taps);
    free(values);
    free(made);
    return status;
}

enum kvc_status kvc_loader_delta(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer) {
    const size_t size = (size_t)in->config->delta.value_size;
    char name[128];
    float *norm = NULL;
    enum kvc_status status = load_projections(in, l, layer);
    if (!status) {
        status = load_output(in, l, &layer->output);
    }
    if (!status) {
        status = load_taps(in, l, layer);
    }
    if (!status) {
        kvc_delta_vector(name, sizeof name, in->gguf, l, true);
        status = load_heads(in, name, true, &layer->decay_rate);
    }
    if (!status) {
        kvc_delta_vector(name, sizeof name, in->gguf, l, false);
        status = load_heads(in, name, false, &layer->decay_bias);
    }
    if (!status) {
        delta_tensor(in, l, in->gguf ? "ssm_norm" : "norm", "weight", name);
        status = kvc_loader_vector(in, name, size, &norm);
    }
    if (!status) {
        status = kvc_loader_add_floats(in, norm, size, &layer->delta_norm);
    }
    free(norm);
    return status;
}

enum kvc_status kvc_loader_delta_units(struct kvc_loader *in) {
    const size_t n = (size_t)in->config->delta.key_size;
    float *unit = malloc(n * sizeof *unit);
    enum kvc_status status = unit ? KVC_OK : kvc_loader_no_memory(in);
    for (int key = 0; key < 2 && !status; key++) { /* queries have a further factor of 1 / sqrt(n) */
        for (size_t i = 0; i < n; i++) {
            unit[i] = (float)(key ? 1 / sqrt((double)n) : 1 / (double)n);
        }
        status = kvc_loader_add_floats(in, unit, n, key ? &in->network->k_unit : &in->network->q_unit);
    }
    free(unit);
    return status;
}
