/* functions.h - the functions of OpenCL that this backend calls. kvcull looks them up at run time, so it also starts on
 * machines without OpenCL. */
#ifndef KVC_BACKENDS_OPENCL_FUNCTIONS_H
#define KVC_BACKENDS_OPENCL_FUNCTIONS_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

#define KVC_CL_FUNCTIONS(F)                                                                                            \
    F(clBuildProgram)                                                                                                  \
    F(clCreateBuffer)                                                                                                  \
    F(clCreateCommandQueue)                                                                                            \
    F(clCreateContext)                                                                                                 \
    F(clCreateKernel)                                                                                                  \
    F(clCreateProgramWithBinary)                                                                                       \
    F(clCreateProgramWithSource)                                                                                       \
    F(clEnqueueCopyBuffer)                                                                                             \
    F(clEnqueueFillBuffer)                                                                                             \
    F(clEnqueueNativeKernel)                                                                                           \
    F(clEnqueueNDRangeKernel)                                                                                          \
    F(clEnqueueReadBuffer)                                                                                             \
    F(clEnqueueWriteBuffer)                                                                                            \
    F(clFinish)                                                                                                        \
    F(clGetDeviceIDs)                                                                                                  \
    F(clGetDeviceInfo)                                                                                                 \
    F(clGetPlatformIDs)                                                                                                \
    F(clGetPlatformInfo)                                                                                               \
    F(clGetProgramBuildInfo)                                                                                           \
    F(clGetProgramInfo)                                                                                                \
    F(clReleaseCommandQueue)                                                                                           \
    F(clReleaseContext)                                                                                                \
    F(clReleaseKernel)                                                                                                 \
    F(clReleaseMemObject)                                                                                              \
    F(clReleaseProgram)                                                                                                \
    F(clSetKernelArg)

struct kvc_cl {
#define KVC_CL_FUNCTION(name) __typeof__(&name) name;
    KVC_CL_FUNCTIONS(KVC_CL_FUNCTION)
#undef KVC_CL_FUNCTION
};

/* Opens the OpenCL library and finds its functions. Returns false if that fails; `why` [capacity] then holds the
 * reason. */
bool kvc_cl_open(struct kvc_cl *cl, char *why, size_t capacity);

#endif
