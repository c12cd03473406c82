# vector.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_attention
tests_test_attention_SOURCES = tests/test_attention.c tests/pair.h
tests_test_attention_LDADD = $(KVC_TEST_LIBS)
