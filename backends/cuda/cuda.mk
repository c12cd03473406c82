# cuda.mk - backends/cuda/: plain C code on top of backends/offload, and the kernels, which nvcc compiles.

KVC_CUDA_SOURCES = backends/cuda/cuda.c backends/cuda/queue.c backends/cuda/arenas.c backends/cuda/linear.c \
	backends/cuda/attention.c backends/cuda/fast.c
KVC_CUDA_KERNELS = $(srcdir)/backends/cuda/kernels.cu $(wildcard $(srcdir)/backends/cuda/kernels/*.h) \
	$(wildcard $(srcdir)/backends/kernels/*.h) $(srcdir)/core/base/canon.h $(srcdir)/core/base/delta.h $(srcdir)/core/base/weight_blocks.h \
	$(srcdir)/core/base/entry_types.h $(srcdir)/core/base/weight_types.h
EXTRA_DIST += backends/cuda/kernels.cu backends/cuda/nvcc.sh

if HAVE_CUDA
noinst_LTLIBRARIES += libkvc_cuda.la
libkvc_la_LIBADD += libkvc_cuda.la
libkvc_cuda_la_SOURCES = $(KVC_CUDA_SOURCES)
libkvc_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
libkvc_cuda_la_LIBADD = backends/cuda/kernels.lo
KVC_LIBS += $(CUDA_LIBS)
# Without this flag, nvcc compresses the kernels of some devices only.
NVCCFLAGS = -O3 -Xfatbin=-compress-all

# The flags that keep the arithmetic exact come after the user's flags.
backends/cuda/kernels.lo: $(KVC_CUDA_KERNELS) $(srcdir)/backends/cuda/nvcc.sh
	$(AM_V_GEN)$(MKDIR_P) backends/cuda && $(LIBTOOL) $(AM_V_lt) --tag=CC --mode=compile \
	$(SHELL) $(srcdir)/backends/cuda/nvcc.sh $(NVCC) $(NVCCFLAGS) -std=c++14 $(CUDA_ARCH) -fmad=false -prec-div=true \
	-prec-sqrt=true -ftz=false -Xcompiler=-ffp-contract=off,-fno-exceptions,-fno-threadsafe-statics -I$(top_srcdir) -I$(top_srcdir)/include -c -o $@ $<
endif
