# policies.mk - tests of this area: check_PROGRAMS, their sources and test data.

check_PROGRAMS += tests/test_methods
KVC_SIDE_BY_SIDE = tests/side_by_side.c tests/side_by_side.h tests/obvious.c tests/obvious.h tests/check.h
tests_test_methods_SOURCES = tests/test_methods.c $(KVC_SIDE_BY_SIDE)
tests_test_methods_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_methods_scores
tests_test_methods_scores_SOURCES = tests/test_methods_scores.c tests/obvious_scores.c tests/obvious_scores.h \
	$(KVC_SIDE_BY_SIDE)
tests_test_methods_scores_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_methods_rows
tests_test_methods_rows_SOURCES = tests/test_methods_rows.c tests/added_rows.c tests/added_rows.h \
	tests/obvious_select.c tests/obvious_select.h tests/obvious_scores.c tests/obvious_scores.h $(KVC_SIDE_BY_SIDE)
tests_test_methods_rows_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_methods_take
tests_test_methods_take_SOURCES = tests/test_methods_take.c tests/added_rows.c tests/added_rows.h \
	tests/obvious_select.c tests/obvious_select.h $(KVC_SIDE_BY_SIDE)
tests_test_methods_take_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_methods_select
tests_test_methods_select_SOURCES = tests/test_methods_select.c tests/obvious_select.c tests/obvious_select.h \
	tests/obvious_scores.c tests/obvious_scores.h $(KVC_SIDE_BY_SIDE)
tests_test_methods_select_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_methods_drawn
tests_test_methods_drawn_SOURCES = tests/test_methods_drawn.c tests/obvious_select.c tests/obvious_select.h \
	tests/obvious_mass.c tests/obvious_mass.h tests/obvious_scores.c tests/obvious_scores.h $(KVC_SIDE_BY_SIDE)
tests_test_methods_drawn_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_policy
tests_test_policy_SOURCES = tests/test_policy.c
tests_test_policy_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_stage
tests_test_stage_SOURCES = tests/test_stage.c
tests_test_stage_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_methods_mass
tests_test_methods_mass_SOURCES = tests/test_methods_mass.c tests/obvious_mass.c tests/obvious_mass.h \
	tests/obvious_scores.c tests/obvious_scores.h $(KVC_SIDE_BY_SIDE)
tests_test_methods_mass_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_methods_layers
tests_test_methods_layers_SOURCES = tests/test_methods_layers.c tests/obvious_mass.c tests/obvious_mass.h \
	tests/obvious_scores.c tests/obvious_scores.h $(KVC_SIDE_BY_SIDE)
tests_test_methods_layers_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_fastkv
tests_test_fastkv_SOURCES = tests/test_fastkv.c
tests_test_fastkv_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_formula
tests_test_formula_SOURCES = tests/test_formula.c tests/obvious.c tests/obvious.h tests/check.h
tests_test_formula_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_places
tests_test_places_SOURCES = tests/test_places.c tests/obvious_scores.c tests/obvious_scores.h tests/obvious.c \
	tests/obvious.h tests/check.h
tests_test_places_LDADD = $(KVC_TEST_LIBS) -lm

check_PROGRAMS += tests/test_methods_reads
tests_test_methods_reads_SOURCES = tests/test_methods_reads.c tests/obvious_select.c tests/obvious_select.h \
	tests/obvious_mass.c tests/obvious_mass.h tests/obvious_scores.c tests/obvious_scores.h $(KVC_SIDE_BY_SIDE)
tests_test_methods_reads_LDADD = $(KVC_TEST_LIBS)

check_PROGRAMS += tests/test_dapq
tests_test_dapq_SOURCES = tests/test_dapq.c tests/obvious.c tests/obvious.h
tests_test_dapq_LDADD = $(KVC_TEST_LIBS)
