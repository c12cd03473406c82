# build.mk - tests of the build itself: exported symbols, installation, who may include whom.
SHELL_TESTS += tests/test_symbols.sh tests/test_layers.sh tests/test_install.sh tests/test_man.sh
EXTRA_DIST += tests/test_symbols.sh tests/test_layers.sh tests/test_install.sh tests/test_man.sh
