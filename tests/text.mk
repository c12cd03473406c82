# text.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_tokenizer tests/test_tokenizer_golden tests/test_tokenizer_hostile tests/test_template
tests_test_tokenizer_SOURCES = tests/test_tokenizer.c tests/tokenizer_checks.h tests/text_data.h
tests_test_tokenizer_LDADD = $(KVC_TEST_LIBS)
tests_test_tokenizer_golden_SOURCES = tests/test_tokenizer_golden.c tests/tokenizer_checks.h tests/text_data.h
tests_test_tokenizer_golden_LDADD = $(KVC_TEST_LIBS)
tests_test_tokenizer_hostile_SOURCES = tests/test_tokenizer_hostile.c tests/tokenizer_checks.h tests/text_data.h
tests_test_tokenizer_hostile_LDADD = $(KVC_TEST_LIBS)
tests_test_template_SOURCES = tests/test_template.c tests/text_data.h
tests_test_template_LDADD = $(KVC_TEST_LIBS)
EXTRA_DIST += tests/data/tokenizers tests/data/templates tools/make_tokenizer_golden.py tools/make_templates_golden.py

check_PROGRAMS += tests/test_tokenizer_match
tests_test_tokenizer_match_SOURCES = tests/test_tokenizer_match.c tests/check.h
tests_test_tokenizer_match_LDADD = $(KVC_TEST_LIBS)
