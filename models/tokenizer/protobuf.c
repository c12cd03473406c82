/* protobuf.c - iterates over the fields of a message in protobuf's wire format. The obsolete field type "group" ends
 * the iteration. */
#include "models/tokenizer/protobuf.h"

#include "core/base/assert.h"

/* Reads a variable-length integer: 7 bits per byte, at most ten bytes. */
static bool take_varint(struct kvc_wire_message *message, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 70 && message->at < message->bytes; shift += 7) {
        const unsigned char byte = message->data[message->at++];
        if (shift == 63 && byte > 1) {
            return false;
        }
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static bool take_fixed(struct kvc_wire_message *message, unsigned bytes, uint64_t *value) {
    *value = 0;
    if (message->bytes - message->at < bytes) {
        return false;
    }
    for (unsigned i = 0; i < bytes; i++) {
        *value |= (uint64_t)message->data[message->at++] << (8 * i);
    }
    return true;
}

static bool take_bytes(struct kvc_wire_message *message, struct kvc_wire_field *field) {
    uint64_t length;
    if (!take_varint(message, &length) || length > message->bytes - message->at) {
        return false;
    }
    field->data = message->data + message->at;
    field->bytes = (size_t)length;
    message->at += field->bytes;
    KVC_ASSERT(message->at <= message->bytes);
    return true;
}

static bool take_field(struct kvc_wire_message *message, struct kvc_wire_field *field) {
    uint64_t key;
    if (!take_varint(message, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff) {
        return false;
    }
    field->number = (uint32_t)(key >> 3);
    field->wire = (enum kvc_wire)(key & 7);
    switch (field->wire) {
    case KVC_WIRE_VARINT:
        return take_varint(message, &field->value);
    case KVC_WIRE_64:
        return take_fixed(message, 8, &field->value);
    case KVC_WIRE_32:
        return take_fixed(message, 4, &field->value);
    case KVC_WIRE_BYTES:
        return take_bytes(message, field);
    }
    return false;
}

bool kvc_wire_next(struct kvc_wire_message *message, struct kvc_wire_field *field) {
    *field = (struct kvc_wire_field){0};
    KVC_ASSERT(message->at <= message->bytes);
    if (message->broken || message->at == message->bytes) {
        return false;
    }
    message->broken = !take_field(message, field);
    return !message->broken;
}
