# core.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_session
tests_test_session_SOURCES = tests/test_session.c
tests_test_session_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_spares
tests_test_spares_SOURCES = tests/test_spares.c
tests_test_spares_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_sampler
tests_test_sampler_SOURCES = tests/test_sampler.c
tests_test_sampler_LDADD = $(KVC_TEST_LIBS) -lm

check_PROGRAMS += tests/test_no_memory
tests_test_no_memory_SOURCES = tests/test_no_memory.c
tests_test_no_memory_LDADD = $(KVC_TEST_LIBS)
tests_test_no_memory_LDFLAGS = $(AM_LDFLAGS) -static -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup \
	-Wl,--wrap=aligned_alloc,--wrap=posix_memalign,--wrap=mmap

check_PROGRAMS += tests/test_measure
tests_test_measure_SOURCES = tests/test_measure.c
tests_test_measure_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_step
tests_test_step_SOURCES = tests/test_step.c
tests_test_step_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_finite
tests_test_finite_SOURCES = tests/test_finite.c tests/whole_model.h tests/check.h
tests_test_finite_LDADD = $(KVC_TEST_LIBS)
