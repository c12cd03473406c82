# real.mk - real models beside other software, where ./dev model has brought them.
check_PROGRAMS += tests/real/test_real
SHELL_TESTS += tests/real/test_bring.sh
