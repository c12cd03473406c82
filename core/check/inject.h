/* inject.h - mutants for tests: declarations that the damaged versions of all operations share. Each mutant is next to
 * its operation's test case (verify_rows.c, ...). Damaged results remain safe to use: indices stay within their lists.
 */
#ifndef KVC_CORE_CHECK_INJECT_H
#define KVC_CORE_CHECK_INJECT_H

#include "core/base/ops.h"

struct kvc_inject_table {
    struct kvc_ops ops; /* device->ops points here */
    const struct kvc_ops *real;
};

/* Restores the device's own table while an operation runs, because the damage uses the device's operations. */
const struct kvc_ops *kvc_inject_open(struct kvc_device *device);
void kvc_inject_close(struct kvc_device *device, const struct kvc_ops *inject);

#define KVC_BYTES(result, name, arguments) result kvc_inject_##name arguments;
#define KVC_OPERATION(name, parameters, ...) void kvc_inject_##name(struct kvc_device *, const struct parameters *);
#include "core/base/ops.def"

/* The mutant of an operation that writes rows of numbers: it runs the real operation, then the damage, which may use
 * device and args. */
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
void kvc_flip(struct kvc_device *device, struct kvc_span span, size_t index); /* flips the lowest bit of a float */
void kvc_flip_last_byte(struct kvc_device *device, struct kvc_span span, size_t bytes);
static inline struct kvc_span kvc_all_of(struct kvc_buffer *buffer) { return (struct kvc_span){buffer, 0}; }

/* The newest entry of the longest head. kvc_find_newest returns false if there is no entry. */
struct kvc_newest {
    uint32_t head, count, slot, slots;
    size_t base;
};
bool kvc_find_newest(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_newest *newest);
/* Damage the newest entry: its score (with `rows` rows of scores per head), its value in a state column, its presence,
 * or its position. */
void kvc_flip_score(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_span scores, uint32_t stride,
                    uint32_t rows);
void kvc_flip_state(struct kvc_device *device, const struct kvc_lists *lists, uint32_t column);
void kvc_take_one(struct kvc_device *device, const struct kvc_lists *lists);
void kvc_shift_position(struct kvc_device *device, const struct kvc_lists *lists);
/* Damage the order of the last two slots of the first head, or one index of ascending lists. */
void kvc_swap_slots(struct kvc_device *device, const struct kvc_lists *lists);
void kvc_change_index(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *list);

#endif
