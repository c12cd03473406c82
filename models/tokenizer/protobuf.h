/* protobuf.h - walks the fields of a message in protobuf's wire format, which is never trusted. */
#ifndef KVC_MODELS_TOKENIZER_PROTOBUF_H
#define KVC_MODELS_TOKENIZER_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kvc_wire { KVC_WIRE_VARINT = 0, KVC_WIRE_64 = 1, KVC_WIRE_BYTES = 2, KVC_WIRE_32 = 5 };

struct kvc_wire_message {
    const unsigned char *data;
    size_t bytes, at;
    bool broken; /* set where the bytes are no message */
};

struct kvc_wire_field {
    uint32_t number;
    enum kvc_wire wire;
    uint64_t value;            /* of the wires that are numbers; their bits */
    const unsigned char *data; /* of bytes, and of a message within */
    size_t bytes;
};

/* The next field; false at the end and where the message is broken. */
bool kvc_wire_next(struct kvc_wire_message *message, struct kvc_wire_field *field);

#endif
