# opencl.mk - tests of the OpenCL backend; they skip where there is no device.
if HAVE_OPENCL
check_PROGRAMS += tests/test_opencl tests/test_opencl_arithmetic
tests_test_opencl_SOURCES = tests/test_opencl.c
tests_test_opencl_LDADD = $(KVC_TEST_LIBS)
tests_test_opencl_arithmetic_SOURCES = tests/test_opencl_arithmetic.c
tests_test_opencl_arithmetic_LDADD = $(KVC_TEST_LIBS)
SHELL_TESTS += tests/test_opencl_runs.sh tests/test_opencl_methods.sh
endif
EXTRA_DIST += tests/test_opencl_runs.sh tests/test_opencl_methods.sh tests/opencl.supp tests/devices/device.sh tests/devices/intel.txt
