/* packet.c - bytes that rank 0 broadcasts to the other ranks. Each part begins at a multiple of eight bytes, so that
 * arrays are aligned. */
#include "core/ranks/packet.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"

enum { ALIGNMENT = 8 };

bool kvc_packet_reserve(struct kvc_packet *packet, size_t bytes) {
    if (bytes > packet->capacity) {
        unsigned char *grown = bytes <= SIZE_MAX / 2 ? realloc(packet->data, 2 * bytes) : NULL;
        packet->broken = packet->broken || !grown;
        if (!grown)
            return false;
        packet->data = grown;
        packet->capacity = 2 * bytes;
    }
    return true;
}

void kvc_packet_put(struct kvc_packet *packet, const void *data, size_t bytes) {
    const size_t padded = kvc_round_up(bytes, ALIGNMENT);
    if (packet->broken || !kvc_packet_reserve(packet, packet->bytes + padded))
        return;
    if (bytes)
        memcpy(packet->data + packet->bytes, data, bytes);
    memset(packet->data + packet->bytes + bytes, 0, padded - bytes);
    packet->bytes += padded;
    KVC_ASSERT(packet->bytes <= packet->capacity);
}

void kvc_packet_put_number(struct kvc_packet *packet, uint64_t number) {
    kvc_packet_put(packet, &number, sizeof number);
}

void kvc_packet_put_pointer(struct kvc_packet *packet, const void *object) {
    kvc_packet_put_number(packet, (uint64_t)(uintptr_t)object);
}

void kvc_packet_put_text(struct kvc_packet *packet, const char *text) {
    const size_t bytes = text ? strlen(text) + 1 : 0;
    kvc_packet_put_number(packet, bytes);
    kvc_packet_put(packet, text, bytes);
}

const void *kvc_packet_get(struct kvc_packet *packet, size_t bytes) {
    const size_t padded = kvc_round_up(bytes, ALIGNMENT);
    KVC_ASSERT(packet->at <= packet->bytes);
    packet->broken = packet->broken || padded < bytes || padded > packet->bytes - packet->at;
    if (packet->broken)
        return NULL;
    packet->at += padded;
    return packet->data + packet->at - padded;
}

uint64_t kvc_packet_get_number(struct kvc_packet *packet) {
    const uint64_t *number = kvc_packet_get(packet, sizeof *number);
    return number ? *number : 0;
}

const char *kvc_packet_get_text(struct kvc_packet *packet) {
    const size_t bytes = (size_t)kvc_packet_get_number(packet);
    const char *text = bytes ? kvc_packet_get(packet, bytes) : NULL;
    return text && text[bytes - 1] == '\0' ? text : NULL;
}

void kvc_packet_free(struct kvc_packet *packet) {
    free(packet->data);
    *packet = (struct kvc_packet){NULL, 0, 0, 0, false};
}
