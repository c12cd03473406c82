/* make_dump.c - writes tensors for `kvcull replay`: make_dump FILE layers rows heads kv_heads head_size [NAME:n:n:n]...
 * The last arguments are extra tensors with their shapes. */
#include <stdio.h>
#include <stdlib.h>

#include "kvcull.h"

enum { MOST = 3 * 8 + 64 };

static uint32_t state = 1;

static float value(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)(state >> 8) / 8388608.0f - 1.0f;
}

int main(int argc, char **argv) {
    uint64_t n[5];
    struct kvc_tensor tensors[MOST];
    char names[MOST][32];
    size_t count;
    struct kvc_tensor_writer *writer = NULL;
    struct kvc_error error;

    if (argc < 7 || argc > 7 + 64)
        return 2;
    for (size_t i = 0; i < 5; i++)
        n[i] = strtoull(argv[2 + i], NULL, 10);
    if (n[0] > 8)
        return 2;
    for (size_t i = 0; i < 3 * n[0]; i++) {
        snprintf(names[i], sizeof names[i], "layers.%zu.%c", i / 3, "qkv"[i % 3]);
        tensors[i] = (struct kvc_tensor){names[i], 3, {n[1], i % 3 ? n[3] : n[2], n[4]}, NULL};
    }
    count = 3 * n[0];
    for (int i = 7; i < argc; i++, count++) {
        unsigned long shape[3];

        if (sscanf(argv[i], "%31[^:]:%lu:%lu:%lu", names[count], &shape[0], &shape[1], &shape[2]) != 4)
            return 2;
        tensors[count] = (struct kvc_tensor){names[count], 3, {shape[0], shape[1], shape[2]}, NULL};
    }
    if (kvc_tensor_writer_open(argv[1], tensors, count, &writer, &error) != KVC_OK)
        goto failed;
    for (size_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < tensors[i].shape[0] * tensors[i].shape[1] * tensors[i].shape[2]; j++) {
            float x = value();

            if (kvc_tensor_write(writer, i, &x, 1, &error) != KVC_OK)
                goto failed;
        }
    if (kvc_tensor_writer_commit(writer, &error) == KVC_OK)
        return 0;
    writer = NULL;
failed:
    kvc_tensor_writer_abandon(writer);
    fprintf(stderr, "make_dump: %s\n", error.text);
    return 4;
}
