# cli.mk - tests of the program, as a user runs it.
check_PROGRAMS += tests/test_cli_parts
tests_test_cli_parts_SOURCES = tests/test_cli_parts.c
tests_test_cli_parts_LDADD = libkvcli.la $(KVC_TEST_LIBS)
check_PROGRAMS += tests/test_info_room tests/test_signals
tests_test_signals_SOURCES = tests/test_signals.c
tests_test_signals_LDADD = libkvcli.la $(KVC_TEST_LIBS)
tests_test_info_room_SOURCES = tests/test_info_room.c
tests_test_info_room_LDADD = libkvcli.la $(KVC_TEST_LIBS)
noinst_PROGRAMS += tests/json_value tests/make_dump tests/stale_hashes tests/fidelity_values tests/fail_each
tests_fail_each_SOURCES = tests/fail_each.c
tests_fidelity_values_SOURCES = tests/fidelity_values.c
tests_fidelity_values_LDADD = libkvcull.la -lm
tests_stale_hashes_SOURCES = tests/stale_hashes.c
tests_stale_hashes_LDADD = libkvcli.la libkvcull.la $(JANSSON_LIBS)
tests_make_dump_SOURCES = tests/make_dump.c
tests_make_dump_LDADD = libkvcull.la
tests_json_value_SOURCES = tests/json_value.c
tests_json_value_LDADD = $(JANSSON_LIBS)
CLI_TESTS = tests/cli/test_errors.sh \
	tests/cli/test_bench.sh \
	tests/cli/test_help.sh \
	tests/cli/test_run.sh \
	tests/cli/test_files.sh \
	tests/cli/test_verify.sh \
	tests/cli/test_eval.sh \
	tests/cli/test_memory.sh \
	tests/cli/test_first_hour.sh \
	tests/cli/test_outputs.sh \
	tests/cli/test_room.sh \
	tests/cli/test_longrope.sh \
	tests/cli/test_faults.sh
SHELL_TESTS += $(CLI_TESTS)
EXTRA_DIST += tests/fail_memory.c tests/cli/lib.sh $(CLI_TESTS)
