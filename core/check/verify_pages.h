/* verify_pages.h - synthetic lists with views and pages, for the test cases of pages and of select methods. */
#ifndef KVC_CORE_CHECK_VERIFY_PAGES_H
#define KVC_CORE_CHECK_VERIFY_PAGES_H

#include "core/check/verify.h"

struct kvc_verify_places {
    struct kvc_lists_shape shape;
    struct kvc_twin_lists lists;
    struct kvc_twin view_count, view_index, low, high;
    struct kvc_read_list view[2];
    struct kvc_pages pages[2];
    uint32_t *places; /* [H_kv] */
    uint32_t most, heads;
    bool viewed;
};

/* Creates lists and, sometimes, a view of them, which may contain all entries. A place is an index into the view or,
 * without a view, into the list. Returns false if out of memory. kvc_verify_view returns the view of one device, or
 * NULL. */
bool kvc_verify_places(struct kvc_verify *v, struct kvc_verify_places *c);
const struct kvc_read_list *kvc_verify_view(const struct kvc_verify_places *c, int side);
/* Creates pages for all places, with arbitrary contents. kvc_verify_page draws a number of places per page. */
void kvc_verify_pages(struct kvc_verify *v, struct kvc_verify_places *c, uint32_t page, bool low);
uint32_t kvc_verify_page(struct kvc_verify *v);

#endif
