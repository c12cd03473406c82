# cuda.mk - the CUDA backend on an emulated device, and on a real one where there is one.

EXTRA_DIST += tests/cuda/emulation.cc tests/cuda/ptx.awk tests/cuda/sass.awk tests/backends/test_cuda_device.sh tests/backends/test_cuda_ptx.sh
if HAVE_CUDA
SHELL_TESTS += tests/backends/test_cuda_device.sh tests/backends/test_cuda_ptx.sh
endif

if HAVE_EMULATION
check_PROGRAMS += tests/backends/test_cuda tests/backends/test_cuda_memory
tests_backends_test_cuda_SOURCES = tests/backends/test_cuda.c tests/case.c $(KVC_CUDA_SOURCES) $(KVC_OFFLOAD_SOURCES)
tests_backends_test_cuda_CPPFLAGS = -I$(top_srcdir)/tests/cuda $(AM_CPPFLAGS)
tests_backends_test_cuda_LDADD = tests/cuda/emulation.o $(KVC_STATIC_TEST_LIBS)
tests_backends_test_cuda_memory_SOURCES = tests/backends/test_cuda_memory.c tests/case.c $(KVC_CUDA_SOURCES) $(KVC_OFFLOAD_SOURCES)
tests_backends_test_cuda_memory_CPPFLAGS = $(tests_backends_test_cuda_CPPFLAGS)
tests_backends_test_cuda_memory_LDADD = $(tests_backends_test_cuda_LDADD)
CLEANFILES += tests/cuda/emulation.o
if HAVE_OPENMPI
# The program on an emulated device, with NCCL made up: several of it are ranks with a device each.
EXTRA_PROGRAMS += tests/cuda/emulated
check_DATA += tests/cuda/emulated
tests_cuda_emulated_SOURCES = cli/main.c backends/list.c ranks/direct.c ranks/nccl.c tests/cuda/fake_nccl.c \
	$(KVC_CUDA_SOURCES) $(KVC_OFFLOAD_SOURCES)
tests_cuda_emulated_CPPFLAGS = -DKVC_CUDA=1 -DKVC_NCCL=1 $(tests_backends_test_cuda_CPPFLAGS) $(OPENMPI_CPPFLAGS)
tests_cuda_emulated_LDADD = tests/cuda/emulation.o libkvcli.la $(KVC_STATIC_TEST_LIBS) $(OPENMPI_LIBS) -lm
# The program finds its NCCL in itself.
tests_cuda_emulated_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
endif
if HAVE_X86_SIMD
EMULATION_FLAGS = -mfma
endif
EMULATION_CXXFLAGS = -O2 -g
# Devices fail at what is not aligned; here it is an illegal instruction.
EMULATION_CHECKS = -fsanitize=alignment -fsanitize-undefined-trap-on-error

tests/cuda/emulation.o: $(srcdir)/tests/cuda/emulation.cc $(srcdir)/tests/cuda/threads.h $(srcdir)/tests/cuda/device.h \
		$(srcdir)/tests/cuda/cuda_runtime_api.h $(srcdir)/backends/cuda/kernels.h \
		$(srcdir)/backends/offload/offload.h $(KVC_CUDA_KERNELS)
	$(AM_V_GEN)$(MKDIR_P) tests/cuda && $(EMULATION_CXX) -x c++ -std=c++14 $(EMULATION_CXXFLAGS) $(EMULATION_FLAGS) \
	$(EMULATION_CHECKS) -ffp-contract=off -fno-exceptions -fno-rtti -D_GNU_SOURCE -I$(top_srcdir) -I$(top_srcdir)/include -c -o $@ $<
endif
