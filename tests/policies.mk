# policies.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_methods
tests_test_methods_SOURCES = tests/test_methods.c
tests_test_methods_LDADD = $(KVC_TEST_LIBS)
