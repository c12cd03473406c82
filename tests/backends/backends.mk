# backends.mk - tests of backends/: ref beside plain code, every path beside ref. OpenCL's skip where there is no device.
check_PROGRAMS += \
	tests/backends/test_attention \
	tests/backends/test_cache \
	tests/backends/test_delta \
	tests/backends/test_device \
	tests/backends/test_experts \
	tests/backends/test_int16 \
	tests/backends/test_int8 \
	tests/backends/test_integers \
	tests/backends/test_linear \
	tests/backends/test_ref \
	tests/backends/test_ref_attention \
	tests/backends/test_ref_cache \
	tests/backends/test_ref_channels \
	tests/backends/test_ref_entries \
	tests/backends/test_ref_leverage \
	tests/backends/test_ref_merge \
	tests/backends/test_rows \
	tests/backends/test_scores \
	tests/backends/test_tiles

if HAVE_X86_SIMD
check_LTLIBRARIES += tests/backends/libtiles.la
tests_backends_libtiles_la_SOURCES = tests/backends/tiles.h tests/backends/tiles_linear.c \
	tests/backends/tiles_integers.c
tests_backends_libtiles_la_CFLAGS = $(libcpu_avx512_la_CFLAGS)
tests_backends_test_tiles_LDADD = tests/backends/libtiles.la $(LDADD)
tests_backends_test_integers_LDADD = tests/backends/libtiles.la $(LDADD)
endif
tests_backends_test_tiles_SOURCES = tests/backends/test_tiles.c
if HAVE_X86_AMX
tests_backends_test_tiles_SOURCES += tests/backends/tiles_instructions.c
endif

if HAVE_OPENCL
check_PROGRAMS += tests/backends/test_opencl tests/backends/test_opencl_arithmetic
SHELL_TESTS += tests/backends/test_opencl_methods.sh tests/backends/test_opencl_runs.sh \
	tests/backends/test_opencl_trace.sh
endif
EXTRA_DIST += tests/backends/test_opencl_methods.sh tests/backends/test_opencl_runs.sh \
	tests/backends/test_opencl_trace.sh tests/backends/opencl.supp \
	tests/devices/device.sh tests/devices/intel.txt tests/oclgrind/run.sh tests/oclgrind/host_writes.c
