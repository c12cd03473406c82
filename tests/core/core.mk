# core.mk - tests of core/: the arithmetic, sessions and steps, policy strings, forecasts, verification, measuring.
check_PROGRAMS += \
	tests/core/test_arguments \
	tests/core/test_assert \
	tests/core/test_beside \
	tests/core/test_cache_positions \
	tests/core/test_canon \
	tests/core/test_centre \
	tests/core/test_entry_types \
	tests/core/test_experts \
	tests/core/test_finite \
	tests/core/test_formula \
	tests/core/test_log \
	tests/core/test_measure \
	tests/core/test_no_memory \
	tests/core/test_policy \
	tests/core/test_fragmentation \
	tests/core/test_prompt_many \
	tests/core/test_recurrent \
	tests/core/test_sampler \
	tests/core/test_saved \
	tests/core/test_saved_file \
	tests/core/test_saved_killed \
	tests/core/test_session \
	tests/core/test_session_memory \
	tests/core/test_extra_slots \
	tests/core/test_stage \
	tests/core/test_stage_arguments \
	tests/core/test_step \
	tests/core/test_threads \
	tests/core/test_trig \
	tests/core/test_types \
	tests/core/test_expired \
	tests/core/test_verify
tests_core_test_assert_SOURCES = tests/core/test_assert.c tests/core/assert_off.c
# The wrapped calls are those of the archive.
tests_core_test_no_memory_SOURCES = tests/core/test_no_memory.c tests/case.c
tests_core_test_no_memory_CPPFLAGS = $(AM_CPPFLAGS)
tests_core_test_no_memory_LDADD = tests/oracle/liboracle.la $(KVC_STATIC_TEST_LIBS) -lm
tests_core_test_no_memory_LDFLAGS = $(AM_LDFLAGS) -static \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup \
	-Wl,--wrap=aligned_alloc,--wrap=posix_memalign,--wrap=mmap
