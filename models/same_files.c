/* same_files.c - compares the data that each rank reads from its files with rank 0's file. */
#include "models/same_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/bytes_hash.h"
#include "core/base/integers.h"
#include "core/engine/session.h"
#include "kvcull/ranks.h"
#include "models/files/gguf_file.h"
#include "models/files/held_files.h"
#include "models/files/safetensors_file.h"
#include "models/files/scaled.h"
#include "models/fingerprint.h"

/* A run of bytes in a tensor's data, with its hash. */
struct run {
    uint64_t tensor, first, bytes, hash;
};

struct comparison {
    struct kvc_ranks *ranks;
    struct kvc_model *model;
    const char *path;
    size_t *sizes; /* [ranks], for gather */
    char *bytes;   /* result of the last gather */
};

static void same_files_end(const struct comparison *of, const char *text) {
    of->ranks->link->class->end(of->ranks->link, text);
}

/* Gathers bytes from all ranks, in the order of ranks. `sizes` receives the number of bytes from each rank. */
static void *same_files_gather(struct comparison *of, const void *mine, size_t bytes) {
    void *all;
    free(of->bytes);
    kvc_ranks_gather(of->ranks, mine, bytes, &all, of->sizes);
    return of->bytes = all;
}

/* Reports a difference. Rank 0 prints the error and ends all ranks. The other ranks wait to be ended. */
static void differ(struct comparison *of, const char *path, const char *what, uint32_t rank) {
    char text[600], none = 0;
    snprintf(text, sizeof text, "%.300s: %s is not the same on rank %u as here: all ranks need the same files", path,
             what, rank);
    if (of->ranks->link->rank == 0)
        same_files_end(of, text);
    (void)same_files_gather(of, &none, 0);
}

static void *same_files_room(const struct comparison *of, size_t bytes) {
    void *made = malloc(bytes + 1);
    if (!made)
        same_files_end(of, "no memory to compare files");
    return made;
}

static const char *file_of(const struct comparison *of, const struct kvc_file_tensor *tensor) {
    const char *path = kvc_mapped_path(tensor->scaled ? (const void *)tensor->scaled->raw : tensor->data);
    return path ? path : of->path;
}

/* ---- metadata, shapes, samples ---- */

static void compare_fingerprints(struct comparison *of) {
    const size_t count = kvc_fingerprint_items(of->model);
    uint64_t other, *hashes;
    uint32_t rank;
    char name[160] = "the model";
    const struct kvc_file_tensor *tensor = NULL;
    if (kvc_ranks_agree(of->ranks, kvc_model_fingerprint(of->model), &rank, &other))
        return;
    hashes = same_files_room(of, count * sizeof *hashes);
    for (size_t i = 0; i < count; i++)
        hashes[i] = kvc_fingerprint_item(of->model, i);
    const char *all = same_files_gather(of, hashes, count * sizeof *hashes);
    size_t offset = 0, item = 0;
    for (uint32_t r = 0; r < rank; r++)
        offset += of->sizes[r];
    if (of->sizes[rank] == of->sizes[0]) { /* otherwise some keys or tensors are only in one of the files */
        while (item + 1 < count &&
               memcmp(all + item * sizeof *hashes, all + offset + item * sizeof *hashes, sizeof *hashes) == 0)
            item++;
        tensor = kvc_fingerprint_item_name(of->model, item, name, sizeof name);
    }
    free(hashes);
    differ(of, tensor ? file_of(of, tensor) : of->path, name, rank);
}

/* ---- small files of a folder ---- */

static const char *const small[] = {"config.json",           "generation_config.json",
                                    "tokenizer.json",        "tokenizer.model",
                                    "tokenizer_config.json", "special_tokens_map.json",
                                    "added_tokens.json",     "chat_template.jinja",
                                    "chat_template.json",    "additional_chat_templates/tool_use.jinja"};
enum { SMALL = sizeof small / sizeof *small };

/* Returns the hash of a file, or 0 if the file cannot be opened. */
static uint64_t hash_file(const char *path) {
    struct kvc_map map;
    struct kvc_error error;
    uint64_t hash = 0;
    if (kvc_map_open(path, &map, &error) == KVC_OK)
        hash = kvc_bytes_hash(1, map.data, map.bytes);
    kvc_map_close(&map);
    return hash;
}

static void compare_small(struct comparison *of) {
    uint64_t hashes[SMALL];
    char path[4096];
    for (size_t i = 0; i < SMALL; i++) {
        snprintf(path, sizeof path, "%s/%s", of->path, small[i]);
        hashes[i] = hash_file(path);
    }
    const uint64_t *all = same_files_gather(of, hashes, sizeof hashes);
    for (size_t i = 0; i < SMALL * of->ranks->link->count; i++)
        if (all[i] != all[i % SMALL]) {
            differ(of, of->path, small[i % SMALL], (uint32_t)(i / SMALL));
            return;
        }
}

/* ---- tensors ---- */

/* Identifies a rank's machine and files, to detect ranks with the same file on one machine. */
struct identity {
    uint64_t machine, files;
};

static uint64_t add_map(uint64_t hash, const struct kvc_map *map) {
    const uint64_t numbers[] = {map->device, map->inode, map->bytes};
    return kvc_bytes_hash(hash, numbers, sizeof numbers);
}

static struct identity identity_of(const struct comparison *of) {
    const struct kvc_gguf *gguf = of->model->gguf;
    const struct kvc_safetensors *folder = of->model->safetensors;
    struct identity identity = {of->ranks->link->machine, 0};
    if (gguf && !gguf->part_count)
        identity.files = add_map(0, &gguf->map);
    for (size_t i = 0; gguf && i < gguf->part_count; i++)
        identity.files = add_map(identity.files, &gguf->parts[i]->map);
    for (size_t i = 0; folder && i < folder->map_count; i++)
        identity.files = add_map(identity.files, &folder->maps[i]);
    return identity;
}

/* Returns a tensor's data. *made tells whether kvc_tensor_make had to create it. */
static const unsigned char *data_of(const struct comparison *of, const struct kvc_file_tensor *tensor, bool *made) {
    struct kvc_error error;
    *made = tensor->scaled && !tensor->scaled->made;
    if (kvc_tensor_make(tensor, of->path, &error) != KVC_OK)
        same_files_end(of, error.text);
    return kvc_tensor_data(tensor);
}

static uint64_t hash_run(const struct comparison *of, const struct run *run) {
    const struct kvc_file_tensor *tensor = kvc_model_tensor(of->model, (size_t)run->tensor);
    bool made;
    const unsigned char *data = data_of(of, tensor, &made);
    const uint64_t hash = kvc_bytes_hash(0, data + run->first, (size_t)run->bytes);
    if (made)
        kvc_tensor_drop(tensor);
    return hash;
}

struct extent {
    const unsigned char *data;
    uint64_t bytes, tensor;
};

static int by_data(const void *a, const void *b) {
    const unsigned char *x = ((const struct extent *)a)->data, *y = ((const struct extent *)b)->data;
    return (x > y) - (x < y);
}

/* Returns the addresses of all tensors whose data this rank has, [*count], sorted. */
static struct extent *find_extents(const struct comparison *of, size_t *count) {
    const size_t tensors = kvc_model_tensors(of->model);
    struct extent *extents = same_files_room(of, tensors * sizeof *extents);
    *count = 0;
    for (size_t i = 0; i < tensors; i++) {
        const struct kvc_file_tensor *tensor = kvc_model_tensor(of->model, i);
        if (kvc_tensor_data(tensor))
            extents[(*count)++] = (struct extent){kvc_tensor_data(tensor), tensor->bytes, i};
    }
    qsort(extents, *count, sizeof *extents, by_data);
    return extents;
}

/* Returns the last tensor that begins at or before an address. */
static size_t find_extent(const struct extent *extents, size_t count, const unsigned char *data) {
    size_t low = 0, high = count;
    while (low + 1 < high) {
        const size_t middle = low + (high - low) / 2;
        if (extents[middle].data <= data)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Cuts the recorded ranges into one run per tensor, because adjacent ranges were recorded as one. */
static struct run *cut_runs(const struct comparison *of, size_t *count) {
    const struct kvc_network *network = &of->model->network;
    size_t extent_count, capacity = 0;
    struct extent *extents = find_extents(of, &extent_count);
    struct run *runs = NULL;
    *count = 0;
    for (size_t i = 0; i < network->read_count; i++) {
        struct kvc_bytes_read left = network->read[i];
        for (size_t p = find_extent(extents, extent_count, left.data); left.bytes > 0 && p < extent_count; p++) {
            const uint64_t first = (uint64_t)(left.data - extents[p].data);
            if (first >= extents[p].bytes)
                continue; /* this is a reordered copy; its source in the file was recorded, too */
            const uint64_t some = kvc_min_u64(left.bytes, extents[p].bytes - first);
            if (*count == capacity) {
                capacity = 2 * capacity + 64;
                struct run *grown = realloc(runs, capacity * sizeof *runs);
                if (!grown)
                    same_files_end(of, "no memory to compare files");
                runs = grown;
            }
            runs[(*count)++] = (struct run){extents[p].tensor, first, some, 0};
            left.data += some;
            left.bytes -= some;
        }
    }
    free(extents);
    return runs;
}

static struct run *all_runs(const struct comparison *of, size_t *count) {
    *count = kvc_model_tensors(of->model);
    struct run *runs = same_files_room(of, *count * sizeof *runs);
    for (size_t i = 0; i < *count; i++)
        runs[i] = (struct run){i, 0, kvc_model_tensor(of->model, i)->bytes, 0};
    return runs;
}

/* Compares the runs that other ranks have hashed. The ranks with rank 0's file divide these runs among themselves. */
static void compare_runs(struct comparison *of, const bool *same, size_t same_count, struct run *mine, size_t count) {
    const uint32_t ranks = of->ranks->link->count, own = of->ranks->link->rank;
    size_t turn = 0, place = 0, at = 0;
    uint64_t wrong[3] = {0, 0, 0}; /* [0]: 1 if a run differs; [1]: its tensor; [2]: its rank */
    for (uint32_t r = 0; r < own; r++)
        place += same[r];
    for (size_t i = 0; i < count && !same[own]; i++)
        mine[i].hash = hash_run(of, &mine[i]);
    const struct run *runs = same_files_gather(of, mine, same[own] ? 0 : count * sizeof *mine);
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < of->sizes[r] / sizeof *runs; i++, at++)
            if (same[own] && turn++ % same_count == place && !wrong[0] && hash_run(of, &runs[at]) != runs[at].hash) {
                wrong[0] = 1;
                wrong[1] = runs[at].tensor;
                wrong[2] = r;
            }
    const uint64_t *all = same_files_gather(of, wrong, sizeof wrong);
    for (uint32_t r = 0; r < ranks; r++, all += 3)
        if (all[0]) {
            const struct kvc_file_tensor *tensor = kvc_model_tensor(of->model, (size_t)all[1]);
            char name[160];
            snprintf(name, sizeof name, "tensor %.100s", tensor->name);
            differ(of, file_of(of, tensor), name, (uint32_t)all[2]);
            return;
        }
}

static void compare_tensors(struct comparison *of, bool whole) {
    const uint32_t ranks = of->ranks->link->count;
    const struct identity mine = identity_of(of), *all = same_files_gather(of, &mine, sizeof mine);
    bool *same = same_files_room(of, ranks * sizeof *same);
    size_t same_count = 0, count = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        same[r] = memcmp(&all[r], &all[0], sizeof *all) == 0;
        same_count += same[r];
    }
    if (same_count < ranks) {
        struct run *runs = whole ? all_runs(of, &count) : cut_runs(of, &count);
        compare_runs(of, same, same_count, runs, count);
        free(runs);
    }
    free(same);
}

static struct comparison same_files_begin(struct kvc_ranks *ranks, struct kvc_model *model, const char *path) {
    struct comparison of = {.ranks = ranks, .model = model, .path = path};
    of.sizes = same_files_room(&of, ranks->link->count * sizeof *of.sizes);
    return of;
}

static void same_files_finish(struct comparison *of) {
    free(of->bytes);
    free(of->sizes);
}

void kvc_model_same(struct kvc_ranks *ranks, struct kvc_model *model, const char *path, bool whole) {
    struct comparison of = same_files_begin(ranks, model, path);
    compare_fingerprints(&of);
    if (model->safetensors)
        compare_small(&of);
    compare_tensors(&of, whole);
    same_files_finish(&of);
}

void kvc_ranks_same_model(struct kvc_ranks *ranks, struct kvc_model *model) {
    kvc_model_same(ranks, model, kvc_model_info(model)->path, true);
}

/* ---- policies' files ---- */

/* Compares a text option that may name a file. Other texts are equal on all ranks, because the policies are equal. */
static void compare_option(struct comparison *of, const struct kvc_method *method, size_t i) {
    const struct kvc_option *option = kvc_policy_option(method->policy, i);
    const struct kvc_value *value = &method->values.value[i];
    char name[160];
    if (!value->given || option->kind != KVC_OPTION_TEXT || !value->text)
        return;
    const uint64_t hash = hash_file(value->text), *all = same_files_gather(of, &hash, sizeof hash);
    for (uint32_t r = 1; r < of->ranks->link->count; r++)
        if (all[r] != all[0]) {
            snprintf(name, sizeof name, "the file of policy %.100s", method->policy->name);
            differ(of, value->text, name, r);
            return;
        }
}

void kvc_policy_same(struct kvc_ranks *ranks, const struct kvc_policy *policy) {
    struct comparison of = same_files_begin(ranks, NULL, NULL);
    for (size_t m = 0; m < policy->count; m++)
        for (size_t i = 0; i < kvc_policy_options(policy->method[m].policy); i++)
            compare_option(&of, &policy->method[m], i);
    same_files_finish(&of);
}
