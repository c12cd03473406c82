/* push.h - KVC_PUSH(launch, ...) adds up to 12 arguments to a launch, in the kernel's order. The C type of an argument
 * selects its form: a span becomes a pointer and an offset; lists, arenas and read lists become the parameters that
 * backends/kernels/lists.h names; integers of 4 and 8 bytes and floats are passed as they are. */
#ifndef KVC_BACKENDS_OFFLOAD_PUSH_H
#define KVC_BACKENDS_OFFLOAD_PUSH_H

#define KVC_PUSH_ONE(launch, x)                                                                                        \
    _Generic((x),                                                                                                      \
        struct kvc_span: kvc_launch_span,                                                                              \
        struct kvc_buffer *: kvc_launch_buffer,                                                                        \
        const struct kvc_buffer *: kvc_launch_buffer,                                                                  \
        struct kvc_lists *: kvc_launch_lists,                                                                          \
        const struct kvc_lists *: kvc_launch_lists,                                                                    \
        struct kvc_arena *: kvc_launch_arena,                                                                          \
        const struct kvc_arena *: kvc_launch_arena,                                                                    \
        struct kvc_read_list *: kvc_launch_reads,                                                                      \
        const struct kvc_read_list *: kvc_launch_reads,                                                                \
        void *: kvc_launch_handle,                                                                                     \
        unsigned char *: kvc_launch_handle,                                                                            \
        float: kvc_launch_real,                                                                                        \
        bool: kvc_launch_word,                                                                                         \
        int: kvc_launch_word,                                                                                          \
        unsigned: kvc_launch_word,                                                                                     \
        unsigned long: kvc_launch_wide,                                                                                \
        unsigned long long: kvc_launch_wide)(launch, x);

#define KVC_PUSH_1(l, x) KVC_PUSH_ONE(l, x)
#define KVC_PUSH_2(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_1(l, __VA_ARGS__)
#define KVC_PUSH_3(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_2(l, __VA_ARGS__)
#define KVC_PUSH_4(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_3(l, __VA_ARGS__)
#define KVC_PUSH_5(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_4(l, __VA_ARGS__)
#define KVC_PUSH_6(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_5(l, __VA_ARGS__)
#define KVC_PUSH_7(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_6(l, __VA_ARGS__)
#define KVC_PUSH_8(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_7(l, __VA_ARGS__)
#define KVC_PUSH_9(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_8(l, __VA_ARGS__)
#define KVC_PUSH_10(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_9(l, __VA_ARGS__)
#define KVC_PUSH_11(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_10(l, __VA_ARGS__)
#define KVC_PUSH_12(l, x, ...) KVC_PUSH_ONE(l, x) KVC_PUSH_11(l, __VA_ARGS__)
#define KVC_PUSH_COUNTED(a, b, c, d, e, f, g, h, i, j, k, l, each, ...) each
#define KVC_PUSH(launch, ...)                                                                                          \
    do {                                                                                                               \
        KVC_PUSH_COUNTED(__VA_ARGS__, KVC_PUSH_12, KVC_PUSH_11, KVC_PUSH_10, KVC_PUSH_9, KVC_PUSH_8, KVC_PUSH_7,       \
                         KVC_PUSH_6, KVC_PUSH_5, KVC_PUSH_4, KVC_PUSH_3, KVC_PUSH_2, KVC_PUSH_1, )                     \
        (launch, __VA_ARGS__)                                                                                          \
    } while (0)

#endif
