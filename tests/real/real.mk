# real.mk - real models beside other software, where ./dev model has brought them.
check_PROGRAMS += tests/real/test_real
SHELL_TESTS += tests/real/test_bring.sh
# Each by name: of a whole folder automake takes the objects that are built there, too.
EXTRA_DIST += tests/real/bring.sh tests/real/test_bring.sh tests/real/models.txt tests/real/prose.txt \
	tests/real/golden/gemma3.json tests/real/golden/smollm2.json
