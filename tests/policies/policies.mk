# policies.mk - tests of policies/: every method beside slow code of its own (tests/oracle), alone and joined.
check_PROGRAMS += \
	tests/policies/test_dapq \
	tests/policies/test_fastkv \
	tests/policies/test_fastkvzip \
	tests/policies/test_methods \
	tests/policies/test_methods_drawn \
	tests/policies/test_methods_layers \
	tests/policies/test_methods_mass \
	tests/policies/test_methods_reads \
	tests/policies/test_methods_rows \
	tests/policies/test_methods_scores \
	tests/policies/test_methods_select \
	tests/policies/test_methods_take \
	tests/policies/test_model_scores \
	tests/policies/test_predict \
	tests/policies/test_series \
	tests/policies/test_windows

# Linked to every test; it takes what it uses.
check_LTLIBRARIES += tests/oracle/liboracle.la
tests_oracle_liboracle_la_SOURCES = tests/oracle/oracle.c tests/oracle/scores.c tests/oracle/entries.c tests/oracle/expected.c tests/oracle/series.c tests/oracle/leverage.c tests/oracle/question.c tests/oracle/mass.c \
	tests/oracle/select.c tests/oracle/side_by_side.c tests/oracle/added_rows.c tests/oracle/drawn.c tests/oracle/drawn_files.c tests/oracle/merge.c tests/oracle/channels.c
