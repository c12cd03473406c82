# linear.mk - tests of this area: check_PROGRAMS, their sources and test data.
check_PROGRAMS += tests/test_linear
tests_test_linear_SOURCES = tests/test_linear.c
tests_test_linear_LDADD = $(KVC_TEST_LIBS)
