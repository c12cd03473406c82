/* host_writes.c - an LD_PRELOAD library between a program and Oclgrind that makes Oclgrind's check for uninitialized
 * reads see the host's writes. The check keeps a shadow of each buffer, which records the bytes written. Oclgrind 21.10
 * loses it:
 *
 *     - A write by the host, a fill or a copy replaces the buffer's shadow by one of the written length that starts at
 * the buffer's beginning. Only a write of the whole buffer gives a correct shadow. After any other, bytes beyond its
 *       length always count as unwritten, and those below it have undefined states.
 *     - Copied bytes count as written even if their source was not.
 *     - Native kernels and CL_MEM_USE_HOST_PTR leave no shadow: everything counts as unwritten.
 *     - A buffer's shadow outlives it, and the next buffer gets it: unwritten memory counts as written.
 *
 * So this library sends the host's writes to a buffer of their own, and a kernel copies them to their destination,
 * because Oclgrind tracks kernel writes exactly. The same kernel performs copies; fills become writes; native kernels
 * are refused (the program then uses fills); host memory is copied; and the address of a released buffer is never
 * reused.
 *
 *     OMIT_FILLS=1  fills write nothing, to check that reads of unwritten bytes are found */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGE ((size_t)1 << 20)
#define VECTOR 16

static const char *const source = /* one vector of bytes each, then one byte each */
    "__kernel void put(__global uchar *to, ulong to_at, __global const uchar *from, ulong from_at, ulong vectors) {\n"
    "    ulong i = get_global_id(0);\n"
    "    if (i < vectors)\n"
    "        vstore16(vload16(i, from + from_at), i, to + to_at);\n"
    "    else {\n"
    "        i += vectors * 15;\n"
    "        to[to_at + i] = from[from_at + i];\n"
    "    }\n"
    "}\n";

/* Objects of the most recently used context. They keep it alive, so that no other context gets its address. */
static cl_context context_used;
static cl_kernel put;
static cl_mem stage;

static void need(int right, const char *what) {
    if (right)
        return;
    fprintf(stderr, "host_writes: %s failed\n", what);
    abort();
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static void prepare(cl_command_queue queue) {
    cl_context context;
    cl_device_id device;
    cl_program program;
    cl_int code;
    clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (context == context_used)
        return;
    context_used = context;
    clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &code);
    need(code == CL_SUCCESS, "clCreateProgramWithSource");
    need(clBuildProgram(program, 1, &device, "", NULL, NULL) == CL_SUCCESS, "clBuildProgram");
    put = clCreateKernel(program, "put", &code);
    need(code == CL_SUCCESS, "clCreateKernel");
    stage = clCreateBuffer(context, CL_MEM_READ_WRITE, STAGE, NULL, &code);
    need(code == CL_SUCCESS, "clCreateBuffer");
}

static cl_int put_bytes(cl_command_queue queue, cl_mem to, size_t to_at, cl_mem from, size_t from_at, size_t bytes) {
    const cl_ulong to_word = to_at, from_word = from_at, vectors = bytes / VECTOR;
    const size_t items = bytes / VECTOR + bytes % VECTOR;
    clSetKernelArg(put, 0, sizeof to, &to);
    clSetKernelArg(put, 1, sizeof to_word, &to_word);
    clSetKernelArg(put, 2, sizeof from, &from);
    clSetKernelArg(put, 3, sizeof from_word, &from_word);
    clSetKernelArg(put, 4, sizeof vectors, &vectors);
    return items ? clEnqueueNDRangeKernel(queue, put, 1, NULL, &items, NULL, 0, NULL, NULL) : CL_SUCCESS;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem to, cl_bool blocking, size_t offset, size_t bytes,
                            const void *from, cl_uint events, const cl_event *list, cl_event *event) {
    REAL(clEnqueueWriteBuffer);
    size_t whole = 0, here;
    cl_int code = CL_SUCCESS;
    need(events == 0 && !event, "clEnqueueWriteBuffer without events");
    clGetMemObjectInfo(to, CL_MEM_SIZE, sizeof whole, &whole, NULL);
    if ((offset == 0 && bytes == whole) || offset > whole || bytes > whole - offset)
        return real(queue, to, blocking, offset, bytes, from, events, list, event);
    prepare(queue);
    for (size_t at = 0; at < bytes && code == CL_SUCCESS; at += here) {
        here = bytes - at < STAGE ? bytes - at : STAGE;
        code = real(queue, stage, CL_TRUE, 0, here, (const char *)from + at, 0, NULL, NULL);
        if (code == CL_SUCCESS)
            code = put_bytes(queue, to, offset + at, stage, 0, here);
        if (code == CL_SUCCESS)
            code = clFinish(queue);
    }
    return code;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t bytes,
                           cl_uint events, const cl_event *list, cl_event *event) {
    need(events == 0 && !list && !event, "clEnqueueCopyBuffer without events");
    prepare(queue);
    return put_bytes(queue, to, to_at, from, from_at, bytes);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem to, const void *pattern, size_t width, size_t offset,
                           size_t bytes, cl_uint events, const cl_event *list, cl_event *event) {
    char *filled = getenv("OMIT_FILLS") ? NULL : malloc(bytes + width);
    cl_int code = CL_SUCCESS;
    for (size_t at = 0; filled && at < bytes; at += width)
        memcpy(filled + at, pattern, width);
    if (filled)
        code = clEnqueueWriteBuffer(queue, to, CL_TRUE, offset, bytes, filled, events, list, event);
    free(filled);
    return code;
}

cl_int clEnqueueNativeKernel(cl_command_queue queue, void(CL_CALLBACK *function)(void *), void *arguments, size_t bytes,
                             cl_uint count, const cl_mem *memory, const void **where, cl_uint events,
                             const cl_event *list, cl_event *event) {
    (void)queue, (void)function, (void)arguments, (void)bytes, (void)count, (void)memory, (void)where, (void)events;
    (void)list, (void)event;
    return CL_INVALID_OPERATION;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code) {
    REAL(clCreateBuffer);
    if (flags & CL_MEM_USE_HOST_PTR)
        flags = (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
    return real(context, flags, bytes, host, code);
}

/* When the last reference goes (a command holds one until it has run), the buffer is freed; another byte takes its
 * place. */
cl_int clReleaseMemObject(cl_mem memory) {
    REAL(clReleaseMemObject);
    cl_context context = NULL;
    cl_uint references = 0;
    cl_int code;
    clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof context, &context, NULL);
    clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL);
    code = real(memory);
    if (code == CL_SUCCESS && references == 1)
        clCreateBuffer(context, CL_MEM_READ_WRITE, 1, NULL, NULL);
    return code;
}
