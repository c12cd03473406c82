# core.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_session
tests_test_session_SOURCES = tests/test_session.c
tests_test_session_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_sampler
tests_test_sampler_SOURCES = tests/test_sampler.c
tests_test_sampler_LDADD = $(KVC_TEST_LIBS) -lm
