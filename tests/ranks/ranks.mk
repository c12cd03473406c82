# ranks.mk - tests of several processes as one engine.
check_PROGRAMS += tests/ranks/test_split
