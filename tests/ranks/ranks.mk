# ranks.mk - tests of several processes as one engine, over the MPI that the build links.
RANKS_TESTS = tests/ranks/test_devices.sh tests/ranks/test_failures.sh tests/ranks/test_pipeline.sh tests/ranks/test_ranks.sh
SHELL_TESTS += $(RANKS_TESTS)
EXTRA_DIST += tests/ranks/lib.sh $(RANKS_TESTS)
check_PROGRAMS += tests/ranks/test_split
