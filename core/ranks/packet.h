/* packet.h - a message that rank 0 broadcasts: a call and its arguments. Both ends are the same program, so the order
 * of the arguments is the format. */
#ifndef KVC_CORE_RANKS_PACKET_H
#define KVC_CORE_RANKS_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvc_packet {
    unsigned char *data;
    size_t bytes, capacity;
    size_t at;   /* number of bytes read */
    bool broken; /* out of memory, or more was read than written */
};

void kvc_packet_put(struct kvc_packet *packet, const void *data, size_t bytes);
void kvc_packet_put_number(struct kvc_packet *packet, uint64_t number);
/* Identifies an object by its address on rank 0. */
void kvc_packet_put_pointer(struct kvc_packet *packet, const void *object);
void kvc_packet_put_text(struct kvc_packet *packet, const char *text); /* NULL is allowed */
/* The getters return pointers into the packet, which are valid until the packet is written again. */
const void *kvc_packet_get(struct kvc_packet *packet, size_t bytes); /* returns NULL if broken */
uint64_t kvc_packet_get_number(struct kvc_packet *packet);
const char *kvc_packet_get_text(struct kvc_packet *packet);
bool kvc_packet_reserve(struct kvc_packet *packet, size_t bytes);
void kvc_packet_free(struct kvc_packet *packet);

#endif
