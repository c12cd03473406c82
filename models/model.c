/* model.c - opens GGUF files and Hugging Face folders as models. text.c has the functions for
 * tokens and chat templates. */
#include "models/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/float.h"
#include "core/engine/linear.h"
#include "core/engine/runner.h"
#include "core/engine/session.h"
#include "models/chat/template.h"
#include "models/network.h"
#include "models/predictor.h"
#include "models/same_files.h"

/* ---- opening ---- */

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool folder_has(const char *folder, const char *name, enum kvc_status *status, struct kvc_error *error) {
    const size_t capacity = strlen(folder) + strlen(name) + 2;
    char *path = malloc(capacity);
    if (!path) {
        *status = kvc_fail(error, KVC_RESOURCE, "%s: no memory", folder);
        return false;
    }
    strcpy(path, folder);
    strcat(path, "/");
    strcat(path, name);
    struct stat about;
    const bool there = stat(path, &about) == 0;
    free(path);
    return there;
}

static bool ends_with(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static enum kvc_status open_gguf(struct kvc_model *model, const char *path, struct kvc_error *error) {
    if (ends_with(path, ".safetensors") || ends_with(path, ".json")) {
        return kvc_fail(error, KVC_INPUT, "%s: is one file of a Hugging Face model; give its folder", path);
    }
    enum kvc_status status = kvc_gguf_open(path, &model->gguf, error);
    if (!status) {
        status = kvc_network_from_gguf(model->engine, model->gguf, path, &model->network, &model->info, error);
    }
    if (!status && kvc_gguf_has(model->gguf, "tokenizer.ggml.model")) {
        status = kvc_tokenizer_from_gguf(model->gguf, path, model->network.vocab, &model->tokenizer, error);
    }
    return status;
}

static enum kvc_status open_folder(struct kvc_model *model, const char *path, struct kvc_error *error) {
    enum kvc_status status = kvc_safetensors_open(path, &model->safetensors, error);
    if (!status) {
        status = kvc_network_from_folder(model->engine, model->safetensors, path, &model->network, &model->info, error);
    }
    if (!status && (folder_has(path, "tokenizer.json", &status, error) ||
                    (!status && folder_has(path, "tokenizer.model", &status, error)))) {
        status = kvc_tokenizer_from_folder(path, model->network.vocab, &model->tokenizer, error);
    }
    return status;
}

/* Copies the tokenizer's properties to the model's info. */
static enum kvc_status take_text(struct kvc_model *model, struct kvc_error *error) {
    if (!model->tokenizer) {
        return KVC_OK;
    }
    model->info.bos = kvc_tokenizer_bos(model->tokenizer);
    model->info.eos = kvc_tokenizer_eos(model->tokenizer);
    model->info.has_chat_template = kvc_tokenizer_has_template(model->tokenizer);
    return kvc_chat_find_turn_end(model->tokenizer, error);
}

/* Broadcasts the call to the other ranks, which open the model, too. All ranks check that their files are the same. */
static enum kvc_status broadcast_open(struct kvc_model *model, const char *path, struct kvc_error *error) {
    struct kvc_ranks *ranks = model->engine->ranks;
    model->told = ranks != NULL;
    if (!ranks)
        return KVC_OK;
    struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_MODEL_OPEN);
    if (packet) {
        kvc_packet_put_pointer(packet, model->engine);
        kvc_packet_put_pointer(packet, model);
        kvc_packet_put_text(packet, path);
        kvc_call_broadcast(ranks);
    }
    if (kvc_ranks_several(ranks)) {
        kvc_model_same(ranks, model, path, false);
    }
    return kvc_call_end(ranks, KVC_OK, error);
}

static void broadcast_close(struct kvc_model *model) {
    struct kvc_packet *packet = kvc_call_begin(model->engine->ranks, KVC_CALL_MODEL_CLOSE);
    if (packet) {
        kvc_packet_put_pointer(packet, model);
        kvc_call_broadcast(model->engine->ranks);
    }
    (void)kvc_call_end(model->engine->ranks, KVC_OK, NULL);
}

/* Logs the model's shape, its types of weights, the part of it that this process holds, and the arithmetic in use. */
static void log_model(const struct kvc_model *model) {
    const struct kvc_log *log = &model->engine->log;
    const struct kvc_network *network = &model->network;
    const struct kvc_model_info *info = &model->info;
    KVC_LOG(log, KVC_LOG_INFO, KVC_LOG_MODEL,
            "%s: %s, %s; %u layers with attention, %u recurrent; hidden %u, H=%u, H_kv=%u, d=%u, vocabulary %u",
            info->path, info->format, info->architecture, info->layers, info->recurrent_layers, info->hidden,
            info->heads, info->kv_heads, info->head_size, info->vocab);
    KVC_LOG(log, KVC_LOG_INFO, KVC_LOG_MODEL,
            "weights %s: %llu bytes, of which %llu are used in the mapped file; linear layers in %s%s",
            info->weight_types, (unsigned long long)info->weight_bytes, (unsigned long long)info->mapped_bytes,
            info->math == KVC_MATH_INT8    ? "int8"
            : info->math == KVC_MATH_INT16 ? "int16"
                                           : "float",
            info->math == model->engine->math       ? ""
            : model->engine->math == KVC_MATH_INT16 ? ", because all weights are quantized"
                                                    : ", because no weight is quantized");
    if (model->engine->ranks)
        KVC_LOG(log, KVC_LOG_INFO, KVC_LOG_RANKS, "part of the model: H=%u, H_kv=%u from KV head %u, layers %u to %u",
                network->heads, network->kv_heads, network->part.first_kv_head, network->part.first_layer,
                network->part.pipeline ? network->part.first_layer + network->part.own_layers - 1
                                       : network->layers - 1);
}

enum kvc_status kvc_model_open(struct kvc_engine *engine, const char *path, struct kvc_model **model,
                               struct kvc_error *error) {
    *model = NULL;
    struct kvc_model *made = calloc(1, sizeof *made);
    if (!made) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    made->engine = engine;
    const uint64_t environment = kvc_float_open();
    enum kvc_status status = is_folder(path) ? open_folder(made, path, error) : open_gguf(made, path, error);
    kvc_float_close(environment);
    status = status ? status : take_text(made, error);
    if (status) {
        kvc_model_close(made);
        return status;
    }
    made->network.read_predictor = kvc_predictor_read;
    made->info.math = kvc_linear_math(&made->network, engine->math);
    made->packed = kvc_linear_packed_bytes(&made->network);
    made->info.resident_bytes = made->info.weight_bytes;
    if (made->info.math == KVC_MATH_INT16) {
        made->info.packed_bytes = made->packed.packed;
        made->info.resident_bytes += made->packed.packed - made->packed.replaced;
    }
    log_model(made);
    *model = made;
    return broadcast_open(made, path, error);
}

/* ---- opening for text only ---- */

static enum kvc_status open_gguf_text(struct kvc_model *model, const char *path, struct kvc_error *error) {
    const char *architecture = "?", *name = path;
    size_t bytes = 1, name_bytes = strlen(path);
    enum kvc_status status = kvc_gguf_open(path, &model->gguf, error);
    if (!status && kvc_gguf_has(model->gguf, "tokenizer.ggml.model")) {
        status = kvc_tokenizer_from_gguf(model->gguf, path, UINT64_MAX, &model->tokenizer, error);
    }
    if (status) {
        return status;
    }
    for (size_t i = 0; i < kvc_gguf_tensor_count(model->gguf); i++) {
        model->info.weight_bytes += kvc_gguf_tensor_at(model->gguf, i)->bytes;
    }
    (void)kvc_gguf_string(model->gguf, "general.architecture", &architecture, &bytes);
    (void)kvc_gguf_string(model->gguf, "general.name", &name, &name_bytes);
    model->info.format = "gguf";
    model->info.name = kvc_copy_text(name, name_bytes < 200 ? name_bytes : 200);
    model->architecture = kvc_copy_text(architecture, bytes < 80 ? bytes : 80);
    return KVC_OK;
}

static enum kvc_status open_folder_text(struct kvc_model *model, const char *path, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (folder_has(path, "tokenizer.json", &status, error) ||
        (!status && folder_has(path, "tokenizer.model", &status, error))) {
        status = kvc_tokenizer_from_folder(path, UINT64_MAX, &model->tokenizer, error);
    }
    model->info.format = "huggingface";
    model->info.name = kvc_copy_text(path, strlen(path));
    model->architecture = kvc_copy_text("?", 1);
    return status;
}

enum kvc_status kvc_model_open_text(struct kvc_engine *engine, const char *path, struct kvc_model **model,
                                    struct kvc_error *error) {
    *model = NULL;
    struct kvc_model *made = calloc(1, sizeof *made);
    if (!made) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    made->engine = engine;
    enum kvc_status status = is_folder(path) ? open_folder_text(made, path, error) : open_gguf_text(made, path, error);
    if (!status && !made->tokenizer) {
        status = kvc_fail(error, KVC_INPUT, "%s: has no tokenizer", path);
    }
    if (!status) {
        made->info.path = strdup(path);
        made->info.architecture = made->architecture;
        made->info.vocab = kvc_tokenizer_count(made->tokenizer);
        status = made->info.path && made->info.name && made->architecture
                     ? take_text(made, error)
                     : kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    if (status) {
        kvc_model_close(made);
        return status;
    }
    *model = made;
    return KVC_OK;
}

void kvc_model_close(struct kvc_model *model) {
    if (!model) {
        return;
    }
    if (model->told) {
        broadcast_close(model);
    }
    if (model->runner) {
        kvc_runner_close(model->runner);
    }
    kvc_network_free(model->engine->device, &model->network);
    if (model->tokenizer) {
        kvc_tokenizer_close(model->tokenizer);
    }
    if (model->gguf) {
        kvc_gguf_close(model->gguf);
    }
    if (model->safetensors) {
        kvc_safetensors_close(model->safetensors);
    }
    kvc_model_info_free(&model->info);
    free(model->architecture);
    free(model);
}

const struct kvc_model_info *kvc_model_info(const struct kvc_model *model) { return &model->info; }

/* Lets the system take back the pages of the files after the matrices have been converted. Data that is read again,
 * such as rows of the embedding, comes back page by page. */
static void let_go_of_files(struct kvc_model *model) {
    if (model->gguf) {
        kvc_gguf_let_go(model->gguf);
    }
    if (model->safetensors) {
        kvc_safetensors_let_go(model->safetensors);
    }
}

enum kvc_status kvc_session_open(struct kvc_model *model, const struct kvc_session_options *options,
                                 struct kvc_session **session, struct kvc_error *error) {
    struct kvc_ranks *ranks = model->engine->ranks;
    if (model->network.layers == 0) {
        return kvc_fail(error, KVC_USAGE, "%s: was opened for its text only, without weights", model->info.path);
    }
    enum kvc_status status =
        kvc_session_create(model->engine, &model->network, &model->runner, options, session, error);
    if (model->info.packed_bytes && !model->let_go) {
        model->let_go = true;
        let_go_of_files(model);
    }
    if (status || !ranks)
        return status;
    struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_SESSION_OPEN);
    if (packet) {
        struct kvc_session_options defaults;
        kvc_session_defaults(&defaults);
        kvc_packet_put_pointer(packet, model);
        kvc_packet_put_pointer(packet, *session);
        kvc_packet_put(packet, options ? options : &defaults, sizeof defaults);
        kvc_packet_put_text(packet, options ? options->policy : NULL);
        kvc_call_broadcast(ranks);
    }
    if (kvc_ranks_several(ranks)) {
        kvc_policy_same(ranks, (*session)->policy);
    }
    return kvc_call_end(ranks, KVC_OK, error);
}
