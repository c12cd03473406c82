# core.mk - tests of this area: check_PROGRAMS, their sources and test data.
