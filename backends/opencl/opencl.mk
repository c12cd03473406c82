# opencl.mk - backends/opencl/, and backends/offload/, which is the host side shared with backends/cuda/.

KVC_OFFLOAD_SOURCES = backends/offload/offload.c backends/offload/memory.c backends/offload/arena.c \
	backends/offload/rows.c backends/offload/linear.c backends/offload/experts.c backends/offload/delta.c backends/offload/int8.c backends/offload/int16.c backends/offload/cache.c backends/offload/attention.c backends/offload/scores.c \
	backends/offload/entries.c backends/offload/expected.c backends/offload/series.c backends/offload/leverage.c backends/offload/merge.c backends/offload/channels.c backends/offload/keep.c backends/offload/pages.c backends/offload/select.c backends/offload/check.c backends/offload/prepare.c

# The sources are joined in this order, because OpenCL programs cannot include files.
KVC_OPENCL_KERNELS = $(srcdir)/backends/opencl/divide.h $(srcdir)/core/base/canon.h $(srcdir)/core/base/delta.h \
	$(srcdir)/core/base/weight_blocks.h $(srcdir)/core/base/entry_types.h $(srcdir)/core/base/weight_types.h $(srcdir)/backends/kernels/shared.h \
	$(srcdir)/backends/kernels/portable.h $(srcdir)/backends/kernels/dequantize.h $(srcdir)/backends/kernels/lists.h \
	$(srcdir)/backends/kernels/parts.h $(srcdir)/backends/kernels/weights.h $(srcdir)/backends/kernels/rows.h $(srcdir)/backends/kernels/linear.h \
	$(srcdir)/backends/kernels/experts.h $(srcdir)/backends/kernels/quants.h $(srcdir)/backends/kernels/delta.h \
	$(srcdir)/backends/kernels/int8.h $(srcdir)/backends/kernels/int16.h $(srcdir)/backends/kernels/queries.h \
	$(srcdir)/backends/kernels/cache.h $(srcdir)/backends/kernels/attention.h $(srcdir)/backends/kernels/attention_int8.h \
	$(srcdir)/backends/kernels/scores.h \
	$(srcdir)/backends/kernels/entries.h $(srcdir)/backends/kernels/expected.h $(srcdir)/backends/kernels/series.h $(srcdir)/backends/kernels/leverage.h $(srcdir)/backends/kernels/merge.h $(srcdir)/backends/kernels/channels.h $(srcdir)/backends/kernels/keep.h $(srcdir)/backends/kernels/pages.h $(srcdir)/backends/kernels/select.h \
	$(srcdir)/backends/kernels/check.h
EXTRA_DIST += backends/opencl/embed.sh

if HAVE_OFFLOAD
libkvc_la_SOURCES += $(KVC_OFFLOAD_SOURCES)
endif
if HAVE_OPENCL
libkvc_la_SOURCES += backends/opencl/opencl.c backends/opencl/devices.c backends/opencl/program.c \
	backends/opencl/driver.c backends/opencl/functions.c backends/opencl/fast.c
nodist_libkvc_la_SOURCES = backends/opencl/source.c
CLEANFILES += backends/opencl/source.c
AM_CPPFLAGS += $(OPENCL_CFLAGS)

backends/opencl/source.c: backends/opencl/embed.sh $(KVC_OPENCL_KERNELS)
	$(AM_V_GEN)$(MKDIR_P) backends/opencl && \
	$(SHELL) $(srcdir)/backends/opencl/embed.sh $(KVC_OPENCL_KERNELS) >$@.tmp && mv $@.tmp $@
endif
