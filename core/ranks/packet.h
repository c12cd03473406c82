/* packet.h - bytes that rank 0 tells the others: what a call is and what it takes. Both ends are the same program, so
 * there is no format but the order. */
#ifndef KVC_CORE_RANKS_PACKET_H
#define KVC_CORE_RANKS_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvc_packet {
    unsigned char *data;
    size_t bytes, capacity;
    size_t at;   /* read so far */
    bool broken; /* no memory, or more is read than was written */
};

void kvc_packet_put(struct kvc_packet *packet, const void *data, size_t bytes);
void kvc_packet_put_number(struct kvc_packet *packet, uint64_t number);
void kvc_packet_put_pointer(struct kvc_packet *packet, const void *object); /* rank 0's address names an object */
void kvc_packet_put_text(struct kvc_packet *packet, const char *text);      /* NULL is told too */
/* Pointers into the packet, which stay until it is written anew. */
const void *kvc_packet_get(struct kvc_packet *packet, size_t bytes); /* NULL: broken */
uint64_t kvc_packet_get_number(struct kvc_packet *packet);
const char *kvc_packet_get_text(struct kvc_packet *packet);
bool kvc_packet_reserve(struct kvc_packet *packet, size_t bytes);
void kvc_packet_free(struct kvc_packet *packet);

#endif
