# ops.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_verify
tests_test_verify_SOURCES = tests/test_verify.c
tests_test_verify_LDADD = $(KVC_TEST_LIBS)
