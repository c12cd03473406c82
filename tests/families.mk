# families.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_trig
tests_test_trig_SOURCES = tests/test_trig.c
tests_test_trig_LDADD = $(KVC_TEST_LIBS) -lm

check_PROGRAMS += tests/test_golden
tests_test_golden_SOURCES = tests/test_golden.c
tests_test_golden_LDADD = $(KVC_TEST_LIBS) -lm

check_PROGRAMS += tests/test_rope tests/test_config tests/test_config_gguf
tests_test_rope_SOURCES = tests/test_rope.c tests/config_checks.h
tests_test_rope_LDADD = $(KVC_TEST_LIBS) -lm
tests_test_config_SOURCES = tests/test_config.c tests/config_checks.h
tests_test_config_LDADD = $(KVC_TEST_LIBS)
tests_test_config_gguf_SOURCES = tests/test_config_gguf.c tests/config_checks.h
tests_test_config_gguf_LDADD = $(KVC_TEST_LIBS)
