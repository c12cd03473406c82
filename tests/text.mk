# text.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_tokenizer
tests_test_tokenizer_SOURCES = tests/test_tokenizer.c tests/text_data.h
tests_test_tokenizer_LDADD = $(KVC_TEST_LIBS)
EXTRA_DIST += tests/data/tokenizers tools/make_tokenizer_golden.py
