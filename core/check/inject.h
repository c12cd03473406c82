/* inject.h - one operation with wrong results, for tests: what the stand-ins of operations share. Each stands beside
 * the operation's case (verify_rows.c, ...). Whatever is damaged stays safe to use: indices remain within their lists.
 */
#ifndef KVC_CORE_CHECK_INJECT_H
#define KVC_CORE_CHECK_INJECT_H

#include "core/base/ops.h"

struct kvc_inject_table {
    struct kvc_ops ops; /* the device's ops points here */
    const struct kvc_ops *real;
};

/* Within an operation the device has its own table, and the damage is done through it. */
const struct kvc_ops *kvc_inject_open(struct kvc_device *device);
void kvc_inject_close(struct kvc_device *device, const struct kvc_ops *inject);

#define KVC_BYTES(result, name, arguments) result kvc_inject_##name arguments;
#define KVC_OPERATION(name, parameters, ...) void kvc_inject_##name(struct kvc_device *, const struct parameters *);
#include "core/base/ops.def"

/* An operation that writes rows of numbers: the damage, in terms of device and args, follows the real one. */
#define KVC_INJECT(name, parameters, ...)                                                                              \
    void kvc_inject_##name(struct kvc_device *device, const struct parameters *args) {                                 \
        const struct kvc_ops *inject = kvc_inject_open(device);                                                        \
        device->ops->name(device, args);                                                                               \
        __VA_ARGS__;                                                                                                   \
        kvc_inject_close(device, inject);                                                                              \
    }

/* ---- damage ---- */

uint32_t kvc_word_at(struct kvc_device *device, struct kvc_span span, size_t index);
void kvc_put_word(struct kvc_device *device, struct kvc_span span, size_t index, uint32_t word);
void kvc_flip(struct kvc_device *device, struct kvc_span span, size_t index); /* the lowest bit of a float */
void kvc_flip_last_byte(struct kvc_device *device, struct kvc_span span, size_t bytes);
static inline struct kvc_span kvc_all_of(struct kvc_buffer *buffer) { return (struct kvc_span){buffer, 0}; }

/* The newest entry of the fullest head; false: there is none. */
struct kvc_newest {
    uint32_t head, count, slot, slots;
    size_t base;
};
bool kvc_find_newest(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_newest *newest);
/* Its score, where each head has so many rows of scores; its value in a state column; itself; its position. */
void kvc_flip_score(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_span scores, uint32_t stride,
                    uint32_t rows);
void kvc_flip_state(struct kvc_device *device, const struct kvc_lists *lists, uint32_t column);
void kvc_take_one(struct kvc_device *device, const struct kvc_lists *lists);
void kvc_shift_position(struct kvc_device *device, const struct kvc_lists *lists);
/* The last two slots of the first head; one index of ascending lists. */
void kvc_swap_slots(struct kvc_device *device, const struct kvc_lists *lists);
void kvc_change_index(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *list);

#endif
