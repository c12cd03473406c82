# ranks.mk - tests of several processes as one engine, over the MPI that the build links.
RANKS_TESTS = \
	tests/ranks/test_devices.sh \
	tests/ranks/test_failures.sh \
	tests/ranks/test_files.sh \
	tests/ranks/test_flow.sh \
	tests/ranks/test_matrix.sh \
	tests/ranks/test_memory_errors.sh \
	tests/ranks/test_plugins.sh \
	tests/ranks/test_pages.sh \
	tests/ranks/test_pipeline.sh \
	tests/ranks/test_ranks.sh \
	tests/ranks/test_serve.sh \
	tests/ranks/test_slurm.sh \
	tests/ranks/test_stopped.sh \
	tests/ranks/test_trace.sh
SHELL_TESTS += $(RANKS_TESTS)
EXTRA_DIST += tests/ranks/lib.sh tests/ranks/mapped_pages.c tests/ranks/mpi.supp tests/ranks/wrong_rank.c $(RANKS_TESTS)
check_PROGRAMS += tests/ranks/test_split
noinst_PROGRAMS += tests/ranks/flow
tests_ranks_flow_LDADD = libkvcull.la
