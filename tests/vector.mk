# vector.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_attention tests/test_rows tests/test_lists tests/test_weights
tests_test_attention_SOURCES = tests/test_attention.c tests/pair.h tests/check.h
tests_test_attention_LDADD = $(KVC_TEST_LIBS)
tests_test_rows_SOURCES = tests/test_rows.c tests/pair.h tests/check.h
tests_test_rows_LDADD = $(KVC_TEST_LIBS)
tests_test_lists_SOURCES = tests/test_lists.c tests/pair.h tests/check.h
tests_test_lists_LDADD = $(KVC_TEST_LIBS)
tests_test_weights_SOURCES = tests/test_weights.c tests/pair.h tests/check.h
tests_test_weights_LDADD = $(KVC_TEST_LIBS)
