# cli.mk - tests of the program, as a user runs it, and what they use.
check_PROGRAMS += tests/cli/test_info_available tests/cli/test_parts tests/cli/test_signals
tests_cli_test_info_available_LDADD = libkvcli.la $(KVC_TEST_LIBS)
tests_cli_test_parts_LDADD = libkvcli.la $(KVC_TEST_LIBS)
tests_cli_test_signals_LDADD = libkvcli.la $(KVC_TEST_LIBS)

noinst_PROGRAMS += \
	tests/cli/fail_each \
	tests/cli/fidelity_values \
	tests/cli/json_value \
	tests/cli/make_dump \
	tests/cli/stale_hashes
tests_cli_fail_each_LDADD =
tests_cli_fidelity_values_LDADD = libkvcull.la -lm
tests_cli_json_value_LDADD = $(JANSSON_LIBS)
tests_cli_make_dump_LDADD = libkvcull.la
tests_cli_stale_hashes_LDADD = libkvcli.la libkvcull.la $(JANSSON_LIBS)

CLI_TESTS = \
	tests/cli/test_bench.sh \
	tests/cli/test_chat.sh \
	tests/cli/test_completions.sh \
	tests/cli/test_control_tokens.sh \
	tests/cli/test_errors.sh \
	tests/cli/test_eval.sh \
	tests/cli/test_faults.sh \
	tests/cli/test_files.sh \
	tests/cli/test_first_hour.sh \
	tests/cli/test_grammar.sh \
	tests/cli/test_help.sh \
	tests/cli/test_log.sh \
	tests/cli/test_longrope.sh \
	tests/cli/test_memory.sh \
	tests/cli/test_outputs.sh \
	tests/cli/test_available.sh \
	tests/cli/test_run.sh \
	tests/cli/test_saved.sh \
	tests/cli/test_terminal.sh \
	tests/cli/test_trace.sh \
	tests/cli/test_verify.sh
SHELL_TESTS += $(CLI_TESTS) tests/ranks/test_ranks_data.sh
EXTRA_DIST += tests/cli/fail_memory.c tests/cli/lib.sh tests/cli/random_keys.py tests/cli/trace_runs.sh $(CLI_TESTS) tests/ranks/test_ranks_data.sh
