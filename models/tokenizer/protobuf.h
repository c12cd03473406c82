/* protobuf.h - iterates over the fields of an untrusted message in protobuf's wire format. */
#ifndef KVC_MODELS_TOKENIZER_PROTOBUF_H
#define KVC_MODELS_TOKENIZER_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kvc_wire { KVC_WIRE_VARINT = 0, KVC_WIRE_64 = 1, KVC_WIRE_BYTES = 2, KVC_WIRE_32 = 5 };

struct kvc_wire_message {
    const unsigned char *data;
    size_t bytes, at;
    bool broken; /* set if the bytes are not a valid message */
};

struct kvc_wire_field {
    uint32_t number;
    enum kvc_wire wire;
    uint64_t value;            /* bits of a numeric field */
    const unsigned char *data; /* contents of a byte field or nested message */
    size_t bytes;
};

/* Reads the next field. Returns false at the end or if the message is broken. */
bool kvc_wire_next(struct kvc_wire_message *message, struct kvc_wire_field *field);

#endif
