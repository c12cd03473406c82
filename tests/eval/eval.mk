# eval.mk - tests of eval/: how samples are made and scored, the files they are made of, results and their tables.
check_PROGRAMS += tests/eval/test_samples tests/eval/test_scores tests/eval/test_converse
tests_eval_test_samples_SOURCES = tests/eval/test_samples.c tests/eval/check_samples.c tests/eval/check_samples.h
tests_eval_test_samples_LDADD = libkvcli.la $(KVC_TEST_LIBS) -lm
tests_eval_test_scores_LDADD = libkvcli.la $(KVC_TEST_LIBS) -lm
tests_eval_test_converse_LDADD = libkvcli.la $(KVC_TEST_LIBS) -lm
SHELL_TESTS += tests/eval/test_report.sh tests/eval/test_tasks.sh tests/eval/test_kinds.sh
EXTRA_DIST += tests/eval/report_check.js tests/eval/test_report.sh tests/eval/test_tasks.sh tests/eval/test_kinds.sh
