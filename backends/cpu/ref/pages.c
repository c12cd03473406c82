/* pages.c - the data that select methods store in addition to the entries: views, pages of keys, and sums of values. */
#include <string.h>

#include "backends/cpu/ref/ref.h"

#include "core/base/assert.h"

void KVC_REF(view_append)(struct kvc_device *device, const struct kvc_view_append *args) {
    KVC_ASSERT(args->view->index);
    const struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        uint32_t *count = (uint32_t *)args->view->count->data + h, held = kvc_list_count(lists, h);
        for (uint32_t r = held > args->rows ? held - args->rows : 0; r < held; r++)
            ((uint32_t *)args->view->index->data)[(size_t)h * args->view->stride + (*count)++] = r;
    }
}

void KVC_REF(view_evict)(struct kvc_device *device, const struct kvc_view_evict *args) {
    (void)device;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t *indices = (const uint32_t *)args->kept->index->data + (size_t)h * args->kept->stride;
        const uint32_t kept_count = ((const uint32_t *)args->kept->count->data)[h];
        uint32_t *index = (uint32_t *)args->view->index->data + (size_t)h * args->view->stride;
        uint32_t *count = (uint32_t *)args->view->count->data + h, left = 0;
        for (uint32_t i = 0, k = 0; i < *count; i++) {
            while (k < kept_count && indices[k] < index[i])
                k++;
            if (k < kept_count && indices[k] == index[i])
                index[left++] = k;
        }
        *count = left;
    }
}

static float pages_load(enum kvc_type type, const struct kvc_buffer *buffer, size_t at) {
    return type == KVC_F16 ? kvc_f16_to_f32(((const kvc_u16 *)buffer->data)[at]) : ((const float *)buffer->data)[at];
}

static void pages_store(enum kvc_type type, struct kvc_buffer *buffer, size_t at, float x) {
    if (type == KVC_F16)
        ((kvc_u16 *)buffer->data)[at] = kvc_f32_to_f16(x);
    else
        ((float *)buffer->data)[at] = x;
}

float KVC_REF(page_value)(const struct kvc_pages *pages, const struct kvc_buffer *side, uint32_t d, uint32_t h,
                          uint32_t channel, uint32_t page) {
    return pages_load(pages->type, side, ((size_t)h * d + channel) * pages->stride + page);
}

/* Updates the page of one new key. */
static void add_key(struct kvc_pages *pages, uint32_t d, uint32_t h, uint32_t place, const float *key) {
    bool first = place % pages->page == 0;
    for (uint32_t c = 0; c < d; c++) {
        size_t at = ((size_t)h * d + c) * pages->stride + place / pages->page;
        for (int side = 0; side < 2; side++) {
            struct kvc_buffer *buffer = side ? pages->high : pages->low;
            float old, x = key[c];
            if (!buffer)
                continue;
            old = pages_load(pages->type, buffer, at);
            pages_store(pages->type, buffer, at, first ? x : side ? (x > old ? x : old) : x < old ? x : old);
        }
    }
}

/* Return the number of entries of head h in the view (or in the list if view is NULL), and the slot of one such
 * entry. */
static uint32_t places_of(const struct kvc_lists *lists, const struct kvc_read_list *view, uint32_t h) {
    return view ? ((const uint32_t *)view->count->data)[h] : kvc_list_count(lists, h);
}

static uint32_t slot_at(const struct kvc_lists *lists, const struct kvc_read_list *view, uint32_t h, uint32_t place) {
    uint32_t index = view ? ((const uint32_t *)view->index->data)[(size_t)h * view->stride + place] : place;
    return kvc_list_slot(lists, h, index);
}

void KVC_REF(pages_update)(struct kvc_device *device, const struct kvc_pages_update *args) {
    KVC_ASSERT(args->pages->page > 0 && args->pages->high);
    const struct kvc_lists *lists = args->lists;
    uint32_t d = lists->format.head_size;
    float *key = kvc_cpu_scratch((struct kvc_cpu *)device, 0, d * sizeof *key);
    if (!key)
        return;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        uint32_t places = places_of(lists, args->view, h);
        for (uint32_t p = args->rows < places ? places - args->rows : 0; p < places; p++) {
            KVC_REF(load_key)(lists, h, slot_at(lists, args->view, h, p), key);
            add_key(args->pages, d, h, p, key);
        }
    }
}

void KVC_REF(value_sums)(struct kvc_device *device, const struct kvc_value_sums *args) {
    KVC_ASSERT(args->lists->kv_heads > 0);
    const struct kvc_lists *lists = args->lists;
    uint32_t d = lists->format.head_size;
    float *value = kvc_cpu_scratch((struct kvc_cpu *)device, 0, d * sizeof *value);
    if (!value)
        return;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        uint32_t places = places_of(lists, args->view, h);
        float *sum = (float *)kvc_span_data(args->sums) + (size_t)h * d;
        if (args->rows == UINT32_MAX)
            memset(sum, 0, d * sizeof *sum);
        for (uint32_t p = args->rows < places ? places - args->rows : 0; p < places; p++) {
            KVC_REF(load_value)(lists, h, slot_at(lists, args->view, h, p), value);
            for (uint32_t c = 0; c < d; c++)
                sum[c] = sum[c] + value[c];
        }
    }
}

void KVC_REF(mix_mean)(struct kvc_device *device, const struct kvc_mix_mean *args) {
    const struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < args->heads; h++) {
        uint32_t list = h / (args->heads / lists->kv_heads), places = places_of(lists, args->view, list);
        float *y = (float *)kvc_span_data(args->out) + (size_t)h * args->head_size,
              share = ((float *)kvc_span_data(args->alpha))[h];
        const float *sum = (const float *)kvc_span_data(args->sums) + (size_t)list * args->head_size;
        if (((const uint32_t *)args->reads->count->data)[list] == places)
            continue;
        for (uint32_t c = 0; c < args->head_size; c++)
            y[c] = kvc_fma(share, y[c], (1.0f - share) * kvc_div(sum[c], (float)places));
    }
}
