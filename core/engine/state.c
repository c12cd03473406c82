/* state.c - visits a session's state in one order for saving, loading and forking: its numbers, its methods' own state,
 * its layers, and its device data (lists of entries with state columns, views, states of recurrent layers). It omits
 * data that can be rebuilt bit for bit: pages and sums of values, cosines and sines of cache positions, plans and
 * scratch. */
#include "core/engine/state.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/cache_lists.h"
#include "core/engine/centre.h"

#include <stdlib.h>
#include <string.h>

#define ADDED_ROWS 65536u      /* upper bound of the rows that methods add temporarily to a prompt */
#define SURPLUS_LAID_OUT 4096u /* limit of the free slots that a file may request for methods */

enum kvc_status kvc_state_check(const struct kvc_session *session, const char *what, struct kvc_error *error) {
    if (session->failed) /* a session counts as failed while its prompt runs */
        return kvc_fail(
            error, KVC_USAGE,
            "%s: the session is within a prompt, or an earlier prompt or step of the session failed; close it", what);
    if (session->busy)
        return kvc_fail(error, KVC_USAGE, "%s: the session is within a step", what);
    return KVC_OK;
}

/* ---- numbers ---- */

static void pass_sums(struct kvc_archive *a, struct kvc_session *session) {
    struct kvc_session_sums *sums = &session->sums;
    uint64_t *numbers[] = {&sums->steps,       &sums->read_bytes,  &sums->select_bytes, &sums->saturated,
                           &sums->peak_before, &sums->prompt_peak, &sums->spared};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        kvc_archive_u64(a, numbers[i]);
    kvc_archive_u32(a, &sums->together);
}

static void pass_session(struct kvc_archive *a, struct kvc_session *session, uint64_t *peak) {
    const struct kvc_network *network = session->runner->network;
    kvc_archive_begin(a, KVC_SECTION_SESSION, 0);
    kvc_archive_limited(a, &session->tokens, INT32_MAX, "tokens");
    kvc_archive_limited(a, &session->turn, session->tokens, "rows of the last prompt");
    kvc_archive_limited(a, &session->step, session->tokens, "steps since the last prompt");
    kvc_archive_u64(a, &session->context);
    kvc_archive_u64(a, &session->seed);
    kvc_archive_u64(a, &session->expected);
    kvc_archive_bool(a, &session->long_rope);
    kvc_archive_bool(a, &session->prompt.last_chunk);
    pass_sums(a, session);
    kvc_archive_u64(a, peak);
    kvc_archive_end(a, KVC_SECTION_SESSION, 0);
    if (a->reads && session->long_rope && !(network && network->rope[0].long_frequency))
        kvc_archive_fail(a, KVC_INPUT, "long factors of a model that has none");
}

/* Visits a method's own state. A state from a file must equal the state of a newly opened method, or pass the method's
 * check. */
static void pass_method(struct kvc_archive *a, struct kvc_session *session, uint32_t i) {
    const struct kvc_method *method = &session->policy->method[i];
    struct kvc_method_use *use = &session->use[i];
    KVC_ASSERT((use->state != NULL) == (use->state_bytes > 0));
    uint64_t bytes = use->state_bytes;
    kvc_archive_begin(a, KVC_SECTION_METHOD, i);
    kvc_archive_u64(a, &bytes);
    if (a->reads && bytes != use->state_bytes)
        kvc_archive_fail(a, KVC_INPUT, "policy %s: %llu bytes of state: must be %zu", method->policy->name,
                         (unsigned long long)bytes, use->state_bytes);
    unsigned char *place = use->state_bytes ? kvc_archive_place(a, use->state_bytes) : NULL;
    if (place && !a->reads)
        memcpy(place, use->state, use->state_bytes);
    if (place && a->reads) {
        const bool changes = method->policy->state_fits || a->from;
        if (!changes && memcmp(place, use->state, use->state_bytes) != 0)
            kvc_archive_fail(
                a, KVC_INPUT,
                "policy %s: its saved state differs from that of a new session: a file that the policy names has "
                "changed, or the class has no state_fits",
                method->policy->name);
        memcpy(use->state, place, use->state_bytes);
        if (!a->from && method->policy->state_fits &&
            !method->policy->state_fits(&method->values, &session->runner->model, use->state))
            kvc_archive_fail(a, KVC_INPUT, "policy %s: its state cannot be", method->policy->name);
    }
    kvc_archive_end(a, KVC_SECTION_METHOD, i);
}

/* ---- layers ---- */

/* The sizes of a layer's data. */
struct layer_shape {
    bool there, ordered; /* `there`: the layer has slots; `ordered`: it has an order list */
    uint32_t *slots;     /* [lists] */
    uint32_t *count;     /* [lists] */
    uint32_t *viewed;    /* [lists] */
    struct kvc_select_shape select;
};

static bool shape_open(struct layer_shape *shape, uint32_t lists) {
    shape->slots = calloc(3 * (size_t)lists, sizeof *shape->slots);
    shape->count = shape->slots + lists;
    shape->viewed = shape->count + lists;
    return shape->slots != NULL;
}

/* Finds the sizes of the session's layer. */
static void find_shape(const struct kvc_session *session, uint32_t l, struct layer_shape *shape) {
    const struct kvc_cache_layer *layer = &session->cache.layer[l];
    shape->there = layer->lists.host_base != NULL;
    shape->ordered = layer->lists.order != NULL;
    shape->select = kvc_select_shape_of(session, l);
    KVC_ASSERT(kvc_cache_layer_fits(layer));
    for (uint32_t h = 0; h < layer->lists.kv_heads; h++) {
        shape->slots[h] = kvc_cache_head_slots(&session->cache, l, h);
        shape->count[h] = layer->count[h];
        shape->viewed[h] = shape->select.view_stride ? session->select.layer[l].view_count[h] : 0;
    }
}

/* Returns the largest number of pages that a buffer for `entries` entries has. */
static uint64_t pages_most(uint64_t entries, uint32_t page) {
    const uint64_t pages = kvc_divide_up(entries, page);
    return ((pages + pages / 64) / 64 + 1) * 64;
}

/* Checks that views and pages are no larger than a session of this length can make them. */
static void check_select(struct kvc_archive *a, const struct kvc_session *session, const struct layer_shape *shape,
                         uint32_t lists) {
    const struct kvc_select_shape *select = &shape->select;
    const uint64_t most = session->tokens + 2 * KVC_TILE;
    bool fits =
        select->view_stride % KVC_TILE == 0 && select->view_stride <= most && (select->page > 0) == (select->pages > 0);
    if (select->page > 0) {
        fits = fits && select->pages % 64 == 0 && select->pages <= pages_most(most, select->page);
    }
    for (uint32_t h = 0; h < lists; h++)
        fits = fits && shape->viewed[h] <= shape->count[h] && shape->viewed[h] <= select->view_stride;
    if (!fits || (!shape->there && (select->view_stride || select->page || select->sums)))
        kvc_archive_fail(a, KVC_INPUT, "pages or a view that cannot be");
}

static void pass_shape(struct kvc_archive *a, struct layer_shape *shape, uint32_t lists) {
    kvc_archive_bool(a, &shape->there);
    kvc_archive_bool(a, &shape->ordered);
    for (uint32_t h = 0; h < 3 * lists; h++)
        kvc_archive_u32(a, &shape->slots[h]);
    kvc_archive_u32(a, &shape->select.view_stride);
    kvc_archive_u32(a, &shape->select.page);
    kvc_archive_u32(a, &shape->select.pages);
    kvc_archive_bool(a, &shape->select.low);
    kvc_archive_bool(a, &shape->select.sums);
}

/* Checks each list: it has at most one entry per token, the file is large enough for its entries, and it has no more
 * free slots than methods leave. */
static void check_lists(struct kvc_archive *a, const struct kvc_session *session, uint32_t l,
                        const struct layer_shape *shape, uint32_t columns) {
    const struct kvc_cache *cache = &session->cache;
    const uint64_t surplus = kvc_policy_surplus(session->policy, l) + (uint64_t)ADDED_ROWS;
    const uint64_t entry =
        kvc_entry_bytes(&cache->format) + (shape->ordered ? sizeof(int32_t) : 0) + (uint64_t)columns * sizeof(float);
    for (uint32_t h = 0; h < cache->layer[l].lists.kv_heads && kvc_archive_fine(a); h++) {
        const uint32_t count = shape->count[h];
        if (count > session->tokens || shape->slots[h] > kvc_round_up(count + surplus, KVC_TILE) + KVC_EXTRA_SLOTS)
            kvc_archive_fail(a, KVC_INPUT, "layer %u, head %u: %u entries in %u slots, of %llu tokens", l, h, count,
                             shape->slots[h], (unsigned long long)session->tokens);
        a->promised += count * entry;
        if (!a->from && a->promised > a->left)
            kvc_archive_fail(a, KVC_INPUT, "it ends too early: the lists up to layer %u, head %u have %llu bytes", l, h,
                             (unsigned long long)a->promised);
    }
}

/* Reduces a shape that was read from a file to what its entries need, without slots for a prompt's temporary rows and
 * without room for evicted entries. The session allocates them again on demand, and a small file cannot request much
 * memory. */
static void trim(const struct kvc_session *session, uint32_t l, struct layer_shape *shape, uint32_t lists) {
    struct kvc_select_shape *select = &shape->select;
    const uint32_t surplus = (uint32_t)kvc_min_u64(kvc_policy_surplus(session->policy, l), SURPLUS_LAID_OUT);
    uint32_t longest = 0;
    for (uint32_t h = 0; h < lists; h++) {
        const uint64_t most = kvc_round_up((uint64_t)kvc_max_u64(shape->count[h], 1) + surplus, KVC_BLOCK);
        if (shape->slots[h] > most + KVC_EXTRA_SLOTS)
            shape->slots[h] = (uint32_t)most;
        longest = (uint32_t)kvc_max_u64(longest, shape->count[h]);
    }
    const uint64_t most = kvc_round_up((uint64_t)longest + 2 * KVC_TILE, KVC_TILE);
    KVC_ASSERT(longest <= session->tokens);
    select->view_stride = (uint32_t)kvc_min_u64(select->view_stride, most);
    if (select->page > 0)
        select->pages = (uint32_t)kvc_min_u64(select->pages, pages_most(most, select->page));
}

/* Allocates the memory of a layer of this shape. */
static void make_layer(struct kvc_archive *a, struct kvc_session *session, uint32_t l, struct layer_shape *shape) {
    struct kvc_error cause;
    struct kvc_cache *cache = &session->cache;
    const uint32_t columns = kvc_policy_all_columns(session->policy, l, cache->format.head_size);
    check_select(a, session, shape, cache->layer[l].lists.kv_heads);
    check_lists(a, session, l, shape, columns);
    if (!kvc_archive_fine(a) || !shape->there)
        return;
    if (!a->from)
        trim(session, l, shape, cache->layer[l].lists.kv_heads);
    enum kvc_status status = kvc_cache_lay_out(cache, l, shape->slots, shape->count, columns, shape->ordered, &cause);
    if (status == KVC_OK)
        status = kvc_select_lay_out(session, l, &shape->select, shape->viewed, &cause);
    if (status != KVC_OK)
        kvc_archive_fail(a, status, "%s", cause.text);
}

static void pass_layer(struct kvc_archive *a, struct kvc_session *session, uint32_t l) {
    struct kvc_cache_layer *layer = &session->cache.layer[l];
    const uint32_t lists = layer->lists.kv_heads;
    uint32_t heads = lists;
    KVC_ASSERT(!layer->stale && !session->select.layer[l].view_stale);
    struct layer_shape shape = {.there = false};
    if (!shape_open(&shape, lists)) {
        kvc_archive_fail(a, KVC_RESOURCE, "no memory for %u lists", lists);
        return;
    }
    if (!a->reads)
        find_shape(session, l, &shape);
    kvc_archive_begin(a, KVC_SECTION_LAYER, l);
    kvc_archive_u32(a, &heads);
    if (heads != lists)
        kvc_archive_fail(a, KVC_INPUT, "layer %u: %u lists: must be %u", l, heads, lists);
    kvc_archive_limited(a, &session->held[l], INT32_MAX, "entries with the prompt in");
    kvc_archive_limited(a, &session->after[l], INT32_MAX, "entries after the prompt");
    kvc_archive_u64(a, &layer->step_most);
    kvc_archive_u32(a, &layer->mean_rows);
    if (layer->mean_rows > KVC_MEAN_ROWS)
        kvc_archive_fail(a, KVC_INPUT, "layer %u: a mean of %u keys: must be at most %u", l, layer->mean_rows,
                         KVC_MEAN_ROWS);
    kvc_archive_bool(a, &session->evictions.thinned[l]);
    kvc_archive_bool(a, &session->evictions.touched[l]);
    pass_shape(a, &shape, lists);
    if (a->reads && kvc_archive_fine(a))
        make_layer(a, session, l, &shape);
    kvc_archive_end(a, KVC_SECTION_LAYER, l);
    free(shape.slots);
}

/* ---- device data ---- */

/* Visits the indices of a list's view, which ascend. */
static void pass_view(struct kvc_archive *a, struct kvc_session *session, uint32_t l, uint32_t h) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_select_layer *select = &session->select.layer[l];
    const uint32_t count = select->view.index ? select->view_count[h] : 0;
    KVC_ASSERT(h < session->cache.layer[l].lists.kv_heads);
    const size_t bytes = count * sizeof(uint32_t);
    const struct kvc_span at = {select->view.index, (size_t)h * select->view.stride * sizeof(uint32_t)};
    unsigned char *place = count ? kvc_archive_place(a, bytes) : NULL;
    uint32_t *indices = place ? malloc(bytes) : NULL;
    if (!place)
        return;
    if (!indices) {
        kvc_archive_fail(a, KVC_RESOURCE, "no memory for a view of %u entries", count);
        return;
    }
    if (a->reads) {
        memcpy(indices, place, bytes);
        for (uint32_t i = 0; i < count; i++)
            if (indices[i] >= session->cache.layer[l].count[h] || (i > 0 && indices[i] <= indices[i - 1]))
                kvc_archive_fail(a, KVC_INPUT, "layer %u, head %u: a view whose indices do not ascend", l, h);
        device->ops->upload(device, at, indices, bytes);
    } else {
        device->ops->download(device, indices, at, bytes);
        memcpy(place, indices, bytes);
    }
    free(indices);
}

static void pass_list(struct kvc_archive *a, struct kvc_session *session, uint32_t l, uint32_t h) {
    struct kvc_cache *cache = &session->cache;
    const uint32_t index = cache->layer[l].before + h;
    KVC_ASSERT(h < cache->layer[l].lists.kv_heads && index < kvc_cache_lists(cache));
    struct kvc_error cause;
    enum kvc_status status = KVC_OK;
    kvc_archive_begin(a, KVC_SECTION_LIST, index);
    const size_t bytes = kvc_archive_fine(a) ? kvc_cache_list_bytes(cache, l, h) : 0;
    unsigned char *place = bytes ? kvc_archive_place(a, bytes) : NULL;
    if (place && a->reads)
        status = kvc_cache_write_list(cache, l, h, place, session->tokens, &cause);
    else if (place)
        status = kvc_cache_read_list(cache, l, h, place, &cause);
    if (status != KVC_OK)
        kvc_archive_fail(a, status, "layer %u, head %u: %s", l, h, cause.text);
    pass_view(a, session, l, h);
    kvc_archive_end(a, KVC_SECTION_LIST, index);
}

static void pass_recurrent(struct kvc_archive *a, struct kvc_session *session) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_span at = {session->recurrent, 0};
    const size_t bytes = session->recurrent ? (size_t)kvc_network_state_bytes(session->runner->network) : 0;
    if (!bytes)
        return;
    kvc_archive_begin(a, KVC_SECTION_RECURRENT, 0);
    unsigned char *place = kvc_archive_place(a, bytes);
    if (place && a->reads)
        device->ops->upload(device, at, place, bytes);
    else if (place)
        device->ops->download(device, place, at, bytes);
    kvc_archive_end(a, KVC_SECTION_RECURRENT, 0);
}

/* Copies the device data from one session to another. */
static void copy_device(struct kvc_archive *a, struct kvc_session *session) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_session *from = a->from;
    struct kvc_error cause;
    for (uint32_t l = 0; l < session->cache.layers && kvc_archive_fine(a); l++) {
        const struct kvc_select_layer *to = &session->select.layer[l], *source = &from->select.layer[l];
        const enum kvc_status status = kvc_cache_clone(&session->cache, &from->cache, l, &cause);
        if (status != KVC_OK)
            kvc_archive_fail(a, status, "%s", cause.text);
        if (source->view.index)
            device->ops->copy(device, (struct kvc_span){to->view.index, 0}, (struct kvc_span){source->view.index, 0},
                              source->index_bytes);
    }
    if (session->recurrent)
        device->ops->copy(device, (struct kvc_span){session->recurrent, 0}, (struct kvc_span){from->recurrent, 0},
                          (size_t)kvc_network_state_bytes(session->runner->network));
    kvc_centre_pass(a, session);
}

static void pass_device(struct kvc_archive *a, struct kvc_session *session) {
    for (uint32_t l = 0; l < session->cache.layers; l++)
        for (uint32_t h = 0; h < session->cache.layer[l].lists.kv_heads && kvc_archive_fine(a); h++)
            pass_list(a, session, l, h);
    pass_recurrent(a, session);
    kvc_centre_pass(a, session);
}

void kvc_state_pass(struct kvc_archive *a, struct kvc_session *session) {
    struct kvc_device *device = session->runner->device;
    struct kvc_error cause;
    uint64_t peak = session->cache.peak_bytes;
    enum kvc_status status = device->ops->sync(device, &cause); /* adds the device's counts to the session */
    if (status != KVC_OK)
        kvc_archive_fail(a, status, "%s", cause.text);
    for (uint32_t l = 0; l < session->cache.layers && !a->reads; l++)
        kvc_cache_catch_up(&session->cache, l);
    pass_session(a, session, &peak);
    for (uint32_t i = 0; i < session->policy->count && kvc_archive_fine(a); i++)
        pass_method(a, session, i);
    for (uint32_t l = 0; l < session->cache.layers && kvc_archive_fine(a); l++)
        pass_layer(a, session, l);
    if (kvc_archive_fine(a) && !a->from)
        pass_device(a, session);
    else if (kvc_archive_fine(a) && a->reads)
        copy_device(a, session);
    if (a->reads)
        session->cache.peak_bytes = kvc_max_u64(session->cache.peak_bytes, peak);
    status = device->ops->sync(device, &cause); /* checks that all transfers succeeded */
    if (status != KVC_OK)
        kvc_archive_fail(a, status, "%s", cause.text);
}
