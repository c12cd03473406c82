# core.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_session
tests_test_session_SOURCES = tests/test_session.c
tests_test_session_LDADD = $(KVC_TEST_LIBS)
