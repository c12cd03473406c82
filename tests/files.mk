# files.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_gguf tests/test_gguf_refused tests/test_safetensors tests/test_types
tests_test_gguf_SOURCES = tests/test_gguf.c tests/gguf_maker.h tests/file_maker.h
tests_test_gguf_LDADD = $(KVC_TEST_LIBS)
tests_test_gguf_refused_SOURCES = tests/test_gguf_refused.c tests/gguf_maker.h tests/file_maker.h
tests_test_gguf_refused_LDADD = $(KVC_TEST_LIBS)
tests_test_safetensors_SOURCES = tests/test_safetensors.c tests/file_maker.h
tests_test_safetensors_LDADD = $(KVC_TEST_LIBS)
tests_test_types_SOURCES = tests/test_types.c tests/file_maker.h
tests_test_types_LDADD = $(KVC_TEST_LIBS) -lm

check_PROGRAMS += tests/test_convert
tests_test_convert_SOURCES = tests/test_convert.c tests/file_maker.h
tests_test_convert_LDADD = $(KVC_TEST_LIBS) -lm

check_PROGRAMS += tests/test_hostile
tests_test_hostile_SOURCES = tests/test_hostile.c tests/file_maker.h
tests_test_hostile_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_gguf_write
tests_test_gguf_write_SOURCES = tests/test_gguf_write.c tests/file_maker.h
tests_test_gguf_write_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_json_check
tests_test_json_check_SOURCES = tests/test_json_check.c
tests_test_json_check_LDADD = $(KVC_TEST_LIBS)
