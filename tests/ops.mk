# ops.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_canon tests/test_threads tests/test_device tests/test_ref \
	tests/test_ref_lists tests/test_ref_attention tests/test_verify
tests_test_canon_SOURCES = tests/test_canon.c
tests_test_canon_LDADD = $(KVC_TEST_LIBS)
tests_test_threads_SOURCES = tests/test_threads.c
tests_test_threads_LDADD = $(KVC_TEST_LIBS)
tests_test_device_SOURCES = tests/test_device.c
tests_test_device_LDADD = $(KVC_TEST_LIBS)
tests_test_ref_SOURCES = tests/test_ref.c tests/ref_fixture.h
tests_test_ref_LDADD = $(KVC_TEST_LIBS)
tests_test_verify_SOURCES = tests/test_verify.c
tests_test_verify_LDADD = $(KVC_TEST_LIBS)
tests_test_ref_lists_SOURCES = tests/test_ref_lists.c tests/ref_fixture.h
tests_test_ref_lists_LDADD = $(KVC_TEST_LIBS)
tests_test_ref_attention_SOURCES = tests/test_ref_attention.c tests/ref_fixture.h
tests_test_ref_attention_LDADD = $(KVC_TEST_LIBS)
